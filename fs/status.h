/* SPDX-License-Identifier: Apache-2.0 */
/* What `status` says, from the shared area alone, so that it answers whatever
 * the worker does. */
#ifndef FS_STATUS_H
#define FS_STATUS_H

#include "util/shared.h"

/* "starting", "ready", "degraded", "stopping". */
const char *status_state(struct shared *shared);

/* The JSON document of `status --json`; owned by the caller, NULL without
 * memory. */
char *status_json(struct shared *shared);

#endif
