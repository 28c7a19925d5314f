/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of the FUSE operations: answers a request that was handed on,
 * and may wait for the source while it does. */
#ifndef FS_SERVE_H
#define FS_SERVE_H

#include "fs/worker.h"

enum { SERVE_SCRATCH_BYTES = FETCH_SCRATCH_BYTES };

/* Answers and ends the call, or leaves it with whom it waits for. scratch is
 * the thread's own: SERVE_SCRATCH_BYTES, page aligned, touched. */
void serve_call(struct worker *worker, struct call *call, char *scratch);

#endif
