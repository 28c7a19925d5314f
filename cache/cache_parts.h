/* SPDX-License-Identifier: Apache-2.0 */
/* What cache.c and committer.c share; nobody else includes this. */
#ifndef CACHE_CACHE_PARTS_H
#define CACHE_CACHE_PARTS_H

#include "cache/cache.h"
#include "cache/tier.h"

enum { CACHE_RELEASES = 256 }; /* that wait for a free buffer */

/* A file whose pins are to go, for which no buffer was free. */
struct release {
    uint64_t id;
    char *path;
};

struct cache {
    struct shared *shared;
    struct index *index;
    struct tier *dram;
    struct tier *nvme;
    struct admission *admission;
    cache_refused_cb refused;
    void *data;
    pthread_t thread;
    _Atomic bool stopping;
    _Atomic uint64_t commits; /* odd while items are being committed */

    /* Held across index writes, as few locks are: two threads that forget one
     * file must not both take its items out of the account. Before the tiers'
     * locks; never together with the one below. */
    pthread_mutex_t forget_lock;

    pthread_mutex_t lock; /* before the buffers' own */
    /* guarded by lock: */
    struct release releases[CACHE_RELEASES];
    size_t release_count;
};

/* Has the pinner let go of a file, at once or when a buffer is free. */
void cache_release(struct cache *cache, uint64_t id, const char *path);

/* Posts what had to wait, as far as buffers are free now. */
void cache_post_releases(struct cache *cache);

void *committer_main(void *data);

#endif
