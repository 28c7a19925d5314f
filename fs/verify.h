/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs verify` in the worker: compares every cached item with its
 * checksums, and drops those that differ. */
#ifndef FS_VERIFY_H
#define FS_VERIFY_H

#include "fs/worker.h"

/* A task; argument: a path of the dataset, or "". Its last line has items,
 * bytes, bad, lost and failed. */
void verify_run(struct worker *worker, int connection, const char *argument);

#endif
