/* SPDX-License-Identifier: Apache-2.0 */
/* The slow source under the cache: the dataset directory, reached only below
 * the descriptor that was opened before the mount covered it.
 *
 * Paths are relative to the dataset, "" is the dataset itself; they never
 * leave it and never follow a symbolic link. Reads go past the page cache
 * (O_DIRECT, or dropped behind the read), so that the source is not cached
 * twice. Callable from every thread; a read may sleep for the bandwidth limit
 * and may take as long as the source takes. Errors are the source's -errno. */
#ifndef CACHE_BACKING_H
#define CACHE_BACKING_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "util/cleanup.h"
#include "util/metrics.h"

struct backing;

/* An open file of the source. */
struct backing_file {
    int fd;
    bool direct;
    struct stat stat; /* at the open */
};

/* root_fd (borrowed) may be O_PATH. bytes_per_second 0: no limit. */
struct backing *backing_create(int root_fd, uint64_t bytes_per_second,
                               struct metrics *metrics);
void backing_destroy(struct backing *backing);

int backing_stat(struct backing *backing, const char *path,
                 struct stat *st) MUST_CHECK;

/* Opens a regular file (-EINVAL for another kind). */
int backing_open(struct backing *backing, const char *path,
                 struct backing_file *file) MUST_CHECK;
void backing_close(struct backing_file *file);

/* Reads up to length bytes at offset; *done is short only at the end of the
 * file. buffer must be page aligned and have room for length and the offset's
 * distance to its page rounded up to whole pages; the bytes asked for begin at
 * *start within it. */
int backing_read(struct backing *backing, struct backing_file *file,
                 char *buffer, size_t length, uint64_t offset, size_t *start,
                 size_t *done) MUST_CHECK;

/* The target in a new string, owned by the caller. */
int backing_readlink(struct backing *backing, const char *path,
                     char **target) MUST_CHECK;
int backing_statvfs(struct backing *backing, struct statvfs *st) MUST_CHECK;

/* Calls visit for every name but "." and "..", until it returns not 0, which
 * is then the result. st is that of the directory before its first entry was
 * read. */
typedef int (*backing_name_cb)(const char *name, unsigned char type,
                               void *data);
int backing_list(struct backing *backing, const char *path, struct stat *st,
                 backing_name_cb visit, void *data) MUST_CHECK;

#endif
