/* SPDX-License-Identifier: Apache-2.0 */
/* What is checked and opened before a mount begins. Every failure prints a
 * message that says what to do and gives an exit code; nothing is left behind
 * but an empty cache folder. */
#ifndef FS_PREPARE_H
#define FS_PREPARE_H

#include <stdint.h>

#include "fs/command.h"
#include "util/config.h"

/* Root, capabilities, /dev/fuse. */
int prepare_machine(void);

/* Real paths of dataset and mount point into config, dead mounts healed; no
 * path of ours inside either. */
int prepare_paths(struct config *config,
                  const struct config_positional *positional);

/* The last part of that: refuses places of ours inside the dataset or the mount
 * point, whose real paths config has. Changes nothing. */
int prepare_check_places(const struct config *config);

/* Opens dataset, cache folder, lock and log at their PROCESS_FD_ numbers. */
int prepare_descriptors(const struct config *config);

/* Says in the lock file who holds it, for whoever finds it taken. */
void prepare_sign_lock(const struct config *config, const char *state);

#endif
