/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor: makes the mount, holds what its children need, and replaces
 * whichever of them dies. It never waits on the mount: it holds /dev/fuse. */
#ifndef FS_SUPERVISOR_H
#define FS_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include "fs/budget.h"
#include "util/config.h"

/* Tells the mount command's caller how it ended; called once. */
typedef void (*supervisor_report)(int exit_code, const char *message,
                                  void *data);

/* Runs until the mount is gone; returns an exit code. The descriptors DATASET,
 * CACHE, LOCK and perhaps LOG lie at their fixed numbers, and no others above
 * stderr are open, but those of report. */
int supervisor_run(const struct config *config, const struct budget *budget,
                   supervisor_report report, void *data);

#endif
