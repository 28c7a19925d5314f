/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs refresh` in the worker: compares all that the index knows with the
 * source, now, and has the kernel forget what has changed. */
#ifndef FS_REFRESH_H
#define FS_REFRESH_H

#include "fs/worker.h"

/* A task; argument: a path of the dataset, or "". Its last line has checked,
 * changed, created, removed and failed. */
void refresh_run(struct worker *worker, int connection, const char *argument);

#endif
