/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps a mount busy, from /proc and the mount table. */
#ifndef FS_HOLDERS_H
#define FS_HOLDERS_H

#include <stdio.h>
#include <sys/types.h>

#include "util/mountinfo.h"

/* Prints a line for each process that has an open file, a mapping, its working
 * directory, root or program in the mount, and for each mount below it.
 * The daemon's own processes, ours, are left
 * out. Returns how many lines. */
size_t holders_print(FILE *out, const struct mountinfo *info,
                     const struct mountinfo_entry *entry, const pid_t *ours,
                     size_t our_count);

#endif
