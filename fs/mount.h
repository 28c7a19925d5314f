/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's side of a mount, through the file descriptor interface of
 * mount(2): made detached, shown when it answers, and taken away by device
 * number. Nothing here waits for an answer of a FUSE server. */
#ifndef FS_MOUNT_H
#define FS_MOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "util/cleanup.h"
#include "util/mountinfo.h"

/* A FUSE mount of that name and source, not visible anywhere yet, that fuse_fd
 * will answer; a descriptor or -errno. On failure *step says what failed. */
int mount_create(int fuse_fd, const char *source, const char **step) MUST_CHECK;

/* Device number, without asking the server. */
int mount_device(int mount_fd, unsigned *major, unsigned *minor) MUST_CHECK;

/* Shows the mount at a path. */
int mount_show(int mount_fd, const char *path) MUST_CHECK;

/* How far the kernel reads ahead of a sequential reader, where /sys can be
 * written. */
void mount_set_readahead(unsigned major, unsigned minor, unsigned kib);

/* A copy of the mount that hangs nowhere; a descriptor or -errno. */
int mount_clone(int mount_fd) MUST_CHECK;

/* Ends the connection of a FUSE device: every waiting request fails. */
int mount_abort(unsigned minor) MUST_CHECK;

/* Aborts and removes the topmost mount at path if it is a coordlfs mount whose
 * supervisor is gone. 0: nothing is mounted there by coordlfs (any more);
 * -EBUSY: a living one. */
int mount_heal(const char *path) MUST_CHECK;

#endif
