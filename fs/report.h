/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker tells of the cache: tasks (fs/tasks.h) that load nothing.
 *
 * The numbers of a file, and of the sums in "done", are "size", "items",
 * "cached_items" and "cached_bytes" (in any tier, once), and for each tier
 * "dram_items", "dram_bytes", "nvme_items" and "nvme_bytes".
 *
 * info   "done" has "path", "type" (file, directory, link, pipe, socket,
 *        device) and a file's numbers
 * list   a line {"path", numbers} for each regular file that is known. "done"
 *        has sums, "files", and "unlisted": known directories that nobody has
 *        read yet, and names that nobody has looked up
 * check  walks the tree as warm does. {"missing": path, "size",
 *        "cached_bytes"} for the first 1,000 files that are not wholly cached.
 *        "done" has sums, "files", "missing_files" and "failed" */
#ifndef FS_REPORT_H
#define FS_REPORT_H

#include "fs/worker.h"

void report_info_run(struct worker *worker, int connection, const char *path);
void report_list_run(struct worker *worker, int connection, const char *path);
void report_check_run(struct worker *worker, int connection, const char *path);

#endif
