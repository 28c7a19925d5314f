/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs warm` in the worker: walks the dataset, loads what fits, and tells
 * the client how far it is. Progress has "loaded_bytes" too, of those that were
 * not cached before. What "done" says: "failed", "left_out" and
 * "left_out_bytes" (items that did not fit), "in_use" (to be pinned when a job
 * lets go of them), and "cached_items" of the whole mount. */
#ifndef FS_WARM_H
#define FS_WARM_H

#include "fs/worker.h"

/* A task, see fs/tasks.h. path: what to warm. */
void warm_run(struct worker *worker, int connection, const char *path);

#endif
