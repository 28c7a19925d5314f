/* SPDX-License-Identifier: Apache-2.0 */
/* The read path: a READ reaches the daemon only for bytes that are not in the
 * page cache, and is answered from an item buffer, else from the NVMe tier,
 * else from the source; an item that will be admitted is loaded whole. */
#ifndef FS_FETCH_H
#define FS_FETCH_H

#include "fs/call.h"
#include "fs/inode.h"
#include "fs/retrieve.h"

struct fetch;

/* Where a thread that serves reads ranges to: page aligned and touched, since
 * a reply must not fault. */
enum {
    FETCH_SCRATCH_BYTES =
        (1 << 20) + 2 * (2 * SHARED_CHUNK_BYTES + 2 * SHARED_PAGE)
};

/* Told of an admissible item for which no buffer was free. */
typedef void (*fetch_defer_cb)(uint64_t id, uint32_t extent, void *data);

struct fetch *fetch_create(struct shared *shared, struct inodes *inodes,
                           struct cache *cache, struct backing *backing,
                           struct calls *calls, struct retrieve *retrieve,
                           fetch_defer_cb defer, void *data);

/* Bytes to answer for a READ: cut at the end of the file. */
size_t fetch_clip(const struct node *node, uint64_t offset, size_t size);

/* Whether fetch_try_buffers is worth a look at the index. */
bool fetch_has_buffer(struct fetch *fetch, uint64_t id, uint64_t offset);

/* For who receives: replies when every byte lies in a buffer. size is clipped
 * and not 0. Never waits. False: nothing was replied. */
bool fetch_try_buffers(struct fetch *fetch, fuse_req_t req,
                       const struct node *node, uint64_t offset, size_t size);

/* For who serves: answers the READ and ends the call, or leaves it with an item
 * that another thread is loading. Not 0: the index does not know the node, and
 * the call is still the caller's. */
int fetch_read(struct fetch *fetch, struct call *call,
               char *scratch) MUST_CHECK;

/* Loads one item into a buffer, for DRAM or the NVMe tier. promote: one that is
 * on NVMe is to be in DRAM too. 0: loaded, or there already; -ENOSPC: the cache
 * is full; -EBUSY: no buffer free, or being loaded by another thread; -ESTALE:
 * changed; else the source's error. */
int fetch_item(struct fetch *fetch, struct node *node, const char *path,
               uint32_t extent, bool promote) MUST_CHECK;

#endif
