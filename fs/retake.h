/* SPDX-License-Identifier: Apache-2.0 */
/* After a mount: takes what was pinned in an earlier mount into DRAM again, and
 * then what lies on NVMe alone, while there is room. */
#ifndef FS_RETAKE_H
#define FS_RETAKE_H

#include "fs/worker.h"

/* Starts the thread, unless a predecessor has finished. */
int retake_start(struct worker *worker) MUST_CHECK;

#endif
