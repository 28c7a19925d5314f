/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of a node: from the source, to the kernel, to the index. */
#include "cache/node.h"

#include <errno.h>
#include <string.h>

#include "util/hash.h"

enum { VALUE_VERSION = 1 };

/* The clock that stamps a file ticks every 1 to 10 ms, and one write() may take
 * tens more. */
#define SETTLE_NS 250000000ll

struct packed_time {
    int64_t seconds;
    uint32_t nanoseconds;
} __attribute__((packed));

struct packed_node {
    uint8_t version;
    uint64_t parent;
    uint64_t serial;
    uint64_t size;
    uint64_t blocks;
    uint64_t rdev;
    uint64_t source_ino;
    struct packed_time mtime;
    struct packed_time ctime;
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t nlink;
    uint32_t blksize;
    uint32_t flags;
    char name[]; /* the rest of the value */
} __attribute__((packed));

_Static_assert(sizeof(struct packed_node) + NODE_NAME_BYTES <=
                   NODE_PACKED_BYTES,
               "a packed node fits");

void node_set_stat(struct node *node, const struct stat *st)
{
    node->size = (uint64_t)st->st_size;
    node->blocks = (uint64_t)st->st_blocks;
    node->rdev = st->st_rdev;
    node->source_ino = st->st_ino;
    node->mtime = st->st_mtim;
    node->ctime = st->st_ctim;
    node->mode = st->st_mode;
    node->uid = st->st_uid;
    node->gid = st->st_gid;
    node->nlink = (uint32_t)st->st_nlink;
    node->blksize = (uint32_t)st->st_blksize;
}

void node_get_stat(const struct node *node, struct stat *st)
{
    *st = (struct stat){
        .st_ino = node->id,
        .st_mode = node->mode,
        .st_nlink = node->nlink,
        .st_uid = node->uid,
        .st_gid = node->gid,
        .st_rdev = node->rdev,
        .st_size = (off_t)node->size,
        .st_blksize = node->blksize,
        .st_blocks = (blkcnt_t)node->blocks,
        .st_mtim = node->mtime,
        .st_ctim = node->ctime,
        /* Nothing records reads: the time of the last change stands in. */
        .st_atim = node->mtime,
    };
}

static uint64_t left_ns(struct timespec at, struct timespec now)
{
    if (at.tv_sec < now.tv_sec - 1 || at.tv_sec > now.tv_sec + 1)
        return 0;
    int64_t age =
        (now.tv_sec - at.tv_sec) * 1000000000ll + now.tv_nsec - at.tv_nsec;
    return age < SETTLE_NS && age > -SETTLE_NS ? (uint64_t)(SETTLE_NS - age)
                                               : 0;
}

uint64_t node_unsettled_ns(const struct node *node, struct timespec now)
{
    uint64_t written = left_ns(node->mtime, now);
    uint64_t changed = left_ns(node->ctime, now);

    return written > changed ? written : changed;
}

static uint64_t version(uint64_t size, uint64_t ino, struct timespec mtime,
                        struct timespec ctime)
{
    const uint64_t fields[] = {
        size,
        ino,
        (uint64_t)mtime.tv_sec,
        (uint64_t)mtime.tv_nsec,
        (uint64_t)ctime.tv_sec,
        (uint64_t)ctime.tv_nsec,
    };

    return hash_bytes(fields, sizeof(fields));
}

uint64_t node_version(const struct node *node)
{
    return version(node->size, node->source_ino, node->mtime, node->ctime);
}

uint64_t node_stat_version(const struct stat *st)
{
    return version((uint64_t)st->st_size, st->st_ino, st->st_mtim, st->st_ctim);
}

size_t node_pack(const struct node *node, char *value)
{
    struct packed_node *packed = (void *)value;
    size_t name_bytes = strlen(node->name);

    *packed = (struct packed_node){
        .version = VALUE_VERSION,
        .parent = node->parent,
        .serial = node->serial,
        .size = node->size,
        .blocks = node->blocks,
        .rdev = node->rdev,
        .source_ino = node->source_ino,
        .mtime = {node->mtime.tv_sec, (uint32_t)node->mtime.tv_nsec},
        .ctime = {node->ctime.tv_sec, (uint32_t)node->ctime.tv_nsec},
        .mode = node->mode,
        .uid = node->uid,
        .gid = node->gid,
        .nlink = node->nlink,
        .blksize = node->blksize,
        .flags = node->flags,
    };
    memcpy(packed->name, node->name, name_bytes);
    return sizeof(*packed) + name_bytes;
}

int node_unpack(const char *value, size_t bytes, struct node *node)
{
    const struct packed_node *packed = (const void *)value;

    if (bytes < sizeof(*packed) || packed->version != VALUE_VERSION ||
        bytes - sizeof(*packed) >= NODE_NAME_BYTES)
        return -EIO;
    node->parent = packed->parent;
    node->serial = packed->serial;
    node->size = packed->size;
    node->blocks = packed->blocks;
    node->rdev = packed->rdev;
    node->source_ino = packed->source_ino;
    node->mtime.tv_sec = packed->mtime.seconds;
    node->mtime.tv_nsec = packed->mtime.nanoseconds;
    node->ctime.tv_sec = packed->ctime.seconds;
    node->ctime.tv_nsec = packed->ctime.nanoseconds;
    node->mode = packed->mode;
    node->uid = packed->uid;
    node->gid = packed->gid;
    node->nlink = packed->nlink;
    node->blksize = packed->blksize;
    node->flags = packed->flags;
    bytes -= sizeof(*packed);
    memcpy(node->name, packed->name, bytes);
    node->name[bytes] = '\0';
    return 0;
}
