/* SPDX-License-Identifier: Apache-2.0 */
/* The segment files of the NVMe tier: files of fixed size in the folder
 * `segments` of a dataset's cache folder, read and written past the page cache
 * where the file system can. Offsets and lengths are multiples of
 * SEGMENT_ALIGN, buffers are page aligned. Errors: -errno. */
#ifndef CACHE_SEGMENT_H
#define CACHE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "util/cleanup.h"

/* Every device takes O_DIRECT at this alignment, or none is used. */
enum { SEGMENT_ALIGN = 4096 };

struct segment_file {
    int fd;              /* -1: not open */
    _Atomic bool direct; /* readers may find out at once that it is refused */
    bool preallocated;
};

/* Makes and preallocates a file that is not there yet; folder_fd is the
 * dataset's cache folder. */
int segment_create(int folder_fd, uint32_t number, uint64_t bytes,
                   struct segment_file *file) MUST_CHECK;
int segment_open(int folder_fd, uint32_t number,
                 struct segment_file *file) MUST_CHECK;
void segment_close(struct segment_file *file);
void segment_remove(int folder_fd, uint32_t number);

/* Whole ranges: -ENODATA where the file ends before. */
int segment_read(struct segment_file *file, char *buffer, size_t length,
                 uint64_t offset) MUST_CHECK;
/* The vector is changed. */
int segment_write(struct segment_file *file, struct iovec *iov, int count,
                  uint64_t offset) MUST_CHECK;
int segment_sync(struct segment_file *file) MUST_CHECK;

/* Calls visit for the number of every segment file there is. */
typedef void (*segment_cb)(uint32_t number, void *data);
void segment_each(int folder_fd, segment_cb visit, void *data);

/* What a new file may take of the disk, at most bytes, so that free_percent of
 * its room stays free: bytes, or a half of it, or a half of that. */
uint64_t segment_fit(int folder_fd, uint64_t bytes, unsigned free_percent);

/* What the segment files take of the disk. */
uint64_t segment_disk_bytes(int folder_fd);

#endif
