/* SPDX-License-Identifier: Apache-2.0 */
/* Paths: lexical work that touches no file system, and opening below a folder
 * without ever leaving it. Paths are bytes, in no encoding. Callable from every
 * thread. */
#ifndef UTIL_PATH_H
#define UTIL_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "util/cleanup.h"

/* Writes path as an absolute path without ".", ".." and double slashes into
 * out. A relative path starts at base, an absolute path; NULL is the current
 * directory. Symlinks are not resolved and nothing need exist, so a dead mount
 * in the path does no harm. -EINVAL: path is empty; -ENAMETOOLONG: does not fit
 * out_bytes; else the error of getcwd. */
int path_absolute(const char *path, const char *base, char *out,
                  size_t out_bytes) MUST_CHECK;

/* Asked for every folder before anything in it is looked at; true: it is not.
 */
typedef bool (*path_stop_cb)(const char *folder, void *data);

/* The same with symbolic links followed as the kernel does, so that ".." leads
 * to where it really does. From the first name on that does not exist or does
 * not answer, or lies in a folder where stop says so, the rest is taken as it
 * is written. base is the current directory; stop may be NULL. The errors of
 * path_absolute, and -ELOOP. */
int path_real(const char *path, path_stop_cb stop, void *data, char *out,
              size_t out_bytes) MUST_CHECK;

/* True where path is folder or lies below it. Both as path_absolute writes
 * them. */
bool path_is_inside(const char *path, const char *folder);

/* Opens relative ("" is the root itself) below root_fd with openat2, so that no
 * symlink is followed and nothing outside the root is reached, even while
 * others rename. O_CLOEXEC is added to flags; files are not created. With
 * O_PATH | O_NOFOLLOW a symlink itself can be opened. Paths may be longer than
 * PATH_MAX; ".." is then refused where a part begins with it.
 * Returns a descriptor that the caller closes, or -errno: -ELOOP for a symlink
 * on the way, -EXDEV for a path that leads out. */
int path_open_beneath(int root_fd, const char *relative, int flags) MUST_CHECK;

#endif
