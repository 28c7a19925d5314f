/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a mount's life that the supervisor takes more than once. For its one
 * thread. */
#ifndef FS_LIFECYCLE_H
#define FS_LIFECYCLE_H

#include <stdbool.h>

#include "fs/children.h"

/* Starts the role's child if it is not running and its back-off is over. */
void lifecycle_start_due(struct shared *shared, struct child *children,
                         enum child_role role);

/* Kills and reaps a child; gives one that does not die 5 s. */
void lifecycle_end_child(struct child *child);

/* Whether a mount of the device is visible in this namespace. Says yes when
 * mountinfo cannot be read. */
bool lifecycle_is_mounted(unsigned major, unsigned minor);

/* Detaches the public mount, wherever it lies by now, if no other covers it. */
void lifecycle_unmount(struct shared *shared);

#endif
