/* SPDX-License-Identifier: Apache-2.0 */
/* What the index knows of one file, directory or link of the source.
 *
 * Attributes go from the source to the kernel through the functions below and
 * no others: any difference between two reports, a nanosecond included, makes
 * the kernel drop a file's pages, and with them its pins. */
#ifndef CACHE_NODE_H
#define CACHE_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "util/cleanup.h"

enum { NODE_NAME_BYTES = 256 };

enum node_flags {
    NODE_CHANGED = 1, /* the source has another version: READs get ESTALE */
    /* Changed during the mount of its serial, perhaps seen in the middle of a
     * change: the kernel is to ask again soon. */
    NODE_VOLATILE = 2,
    /* Beside NODE_CHANGED: the kernel holds no page of it. */
    NODE_DROPPED = 4,
};

struct node {
    uint64_t id;
    uint64_t parent;
    uint64_t serial; /* the mount that last compared it with the source */
    uint64_t size;
    uint64_t blocks;
    uint64_t rdev;
    uint64_t source_ino;
    struct timespec mtime;
    struct timespec ctime;
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t nlink;
    uint32_t blksize;
    uint32_t flags;
    char name[NODE_NAME_BYTES];
};

/* Fills everything but id, parent, name, serial and flags. */
void node_set_stat(struct node *node, const struct stat *st);

/* What is reported to the kernel. */
void node_get_stat(const struct node *node, struct stat *st);

/* A hash of size, mtime, ctime and inode number: equal means that the bytes
 * are taken to be the same. */
uint64_t node_version(const struct node *node);
uint64_t node_stat_version(const struct stat *st);

/* A writer may still be in the middle of the write that set the file's times.
 * Nanoseconds until they are old enough that it is not; 0: they are, or come
 * from a clock that is far from ours. now is of CLOCK_REALTIME. */
uint64_t node_unsettled_ns(const struct node *node, struct timespec now);

/* The packed form: a version byte, little endian. value has room for
 * NODE_PACKED_BYTES; unpack gives -EIO for what it cannot read. */
enum { NODE_PACKED_BYTES = 512 };
size_t node_pack(const struct node *node, char *value);
int node_unpack(const char *value, size_t bytes, struct node *node) MUST_CHECK;

#endif
