/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs clear` in the worker: empties the cache. */
#ifndef FS_CLEAR_H
#define FS_CLEAR_H

#include "fs/worker.h"

/* A task; argument: a path of the dataset, or "" for everything. Its last line
 * has items, bytes and failed. */
void clear_run(struct worker *worker, int connection, const char *argument);

#endif
