/* SPDX-License-Identifier: Apache-2.0 */
/* The worker: answers the kernel. It may be killed at any moment; its
 * replacement takes over the shared area and the kernel's connection, and
 * answers what was left. It opens nothing below its own mount. */
#ifndef FS_WORKER_H
#define FS_WORKER_H

#include "fs/call.h"
#include "fs/fetch.h"
#include "fs/inode.h"
#include "fs/listing.h"
#include "fs/retrieve.h"

struct invalidate;
struct recover;
struct upkeep;

struct worker {
    struct shared *shared;
    struct index *index;
    struct backing *backing;
    struct cache *cache;
    struct inodes *inodes;
    struct listings *listings;
    struct calls *calls;
    struct retrieve *retrieve;
    struct fetch *fetch;
    struct recover *recover;
    struct upkeep *upkeep;
    struct invalidate *invalidate;
    struct fuse_session *session;
    _Atomic uint64_t reads; /* READs of others than the pinner */
    bool answers_opendir;   /* a kernel whose readdir cache must stay off */
};

/* How many calls are served at once: what --threads stands for. */
int worker_loader_count(const struct config *config);

#endif
