/* SPDX-License-Identifier: Apache-2.0 */
/* The mount table of this mount namespace, as /proc/self/mountinfo has it.
 *
 * Everything is answered from the table alone: a mounted file system is never
 * touched, because a dead FUSE mount hangs or fails whoever does. A table is a
 * snapshot; use one from one thread at a time. */
#ifndef UTIL_MOUNTINFO_H
#define UTIL_MOUNTINFO_H

#include <stdbool.h>
#include <stddef.h>

#include "util/cleanup.h"

#define MOUNTINFO_PATH "/proc/self/mountinfo"
#define MOUNTINFO_FSTYPE "fuse.coordlfs"

/* One mount; the strings belong to the table and are unescaped. */
struct mountinfo_entry {
    int mount_id;
    int parent_id;
    unsigned major;
    unsigned minor;
    char *root; /* what of the file system is mounted: "/" is all of it */
    char *mountpoint;
    char *options; /* of this mount: "ro,nosuid" */
    char *fstype;
    char *source;
    char *super_options; /* of the file system: "rw,memory" */
};

struct mountinfo {
    struct mountinfo_entry *entries; /* in mount order */
    size_t count;
    char *text;
};

/* Reads the table at path (MOUNTINFO_PATH). Returns -errno, or -EBADMSG for a
 * line that is none of the kernel's (both logged). After success the caller
 * ends it with mountinfo_fini. */
int mountinfo_init(struct mountinfo *info, const char *path) MUST_CHECK;
void mountinfo_fini(struct mountinfo *info);

/* True where the comma-separated list has the word. */
bool mountinfo_has_option(const char *list, const char *word);

bool mountinfo_is_coordlfs(const struct mountinfo_entry *entry);

/* The coordlfs mount that path (as path_absolute writes it) lies in: the
 * innermost of those that a walk along path enters, unless another mount
 * covers all of it. NULL where there is none. */
const struct mountinfo_entry *mountinfo_find_path(const struct mountinfo *info,
                                                  const char *path);

/* The first mount of a device, or NULL, and how many there are of it. */
const struct mountinfo_entry *
mountinfo_find_device(const struct mountinfo *info, unsigned major,
                      unsigned minor);
size_t mountinfo_count_device(const struct mountinfo *info, unsigned major,
                              unsigned minor);

/* Walks all coordlfs mounts: the one after previous (NULL: the first), or NULL
 * at the end. */
const struct mountinfo_entry *
mountinfo_next_coordlfs(const struct mountinfo *info,
                        const struct mountinfo_entry *previous);

#endif
