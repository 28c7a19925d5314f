/* SPDX-License-Identifier: Apache-2.0 */
/* Finding, beginning and forgetting items. Forgetting takes records first and
 * account after: a death in between leaves room unused, and never counts an
 * item out twice. */
#include "cache/cache.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "cache/cache_parts.h"
#include "util/log.h"

enum {
    PIN_DELAY_MS = 4, /* a reader of a fresh item takes its pages meanwhile */
};

struct admission *cache_admission(struct cache *cache)
{
    return cache->admission;
}

struct cache *cache_create(struct shared *shared, struct index *index,
                           int folder_fd, admission_wake_cb wake,
                           cache_refused_cb refused, void *data)
{
    struct cache *cache = calloc(1, sizeof(*cache));
    if (!cache)
        return NULL;
    cache->shared = shared;
    cache->index = index;
    cache->refused = refused;
    cache->data = data;
    pthread_mutex_init(&cache->lock, NULL);
    pthread_mutex_init(&cache->forget_lock, NULL);
    cache->dram = tier_dram_create(shared);
    if (!cache->dram)
        goto free_cache;
    cache->nvme = tier_nvme_create(shared, index, folder_fd);
    if (!cache->nvme)
        goto destroy_dram;
    cache->admission = admission_create(shared, cache->dram, cache->nvme,
                                        PIN_DELAY_MS, wake, data);
    if (!cache->admission)
        goto destroy_nvme;
    return cache;

destroy_nvme:
    cache->nvme->ops->destroy(cache->nvme);
destroy_dram:
    cache->dram->ops->destroy(cache->dram);
free_cache:
    free(cache);
    return NULL;
}

void cache_destroy(struct cache *cache)
{
    for (size_t i = 0; i < cache->release_count; i++)
        free(cache->releases[i].path);
    pthread_mutex_destroy(&cache->forget_lock);
    pthread_mutex_destroy(&cache->lock);
    admission_destroy(cache->admission);
    cache->nvme->ops->destroy(cache->nvme);
    cache->dram->ops->destroy(cache->dram);
    free(cache);
}

int cache_start(struct cache *cache)
{
    int err = tier_nvme_start(cache->nvme);

    if (err == 0)
        err = -pthread_create(&cache->thread, NULL, committer_main, cache);
    return err;
}

void cache_stop(struct cache *cache)
{
    tier_nvme_stop(cache->nvme);
    atomic_store(&cache->stopping, true);
    event_signal(&cache->shared->worker_event);
    pthread_join(cache->thread, NULL);
}

/* ---- finding ---- */

uint32_t cache_places(struct cache *cache, const struct item *item)
{
    uint32_t places = 0;

    if (cache->dram->ops->has(cache->dram, item))
        places |= ITEM_IN_DRAM;
    if (cache->nvme->ops->has(cache->nvme, item))
        places |= ITEM_ON_NVME;
    return places;
}

uint32_t cache_find(struct cache *cache, uint64_t id, uint32_t extent,
                    uint64_t version, struct item *item, struct item_sums *sums)
{
    struct item found;

    if (!item)
        item = &found;
    if (index_get_item_sums(cache->index, id, extent, item, sums) != 0)
        return 0;
    uint32_t places = cache_places(cache, item);
    return item->version == version ? places : places & ~(uint32_t)ITEM_ON_NVME;
}

bool cache_is_pinned(struct cache *cache, uint64_t id, uint32_t extent)
{
    struct item item;

    return index_get_item(cache->index, id, extent, &item) == 0 &&
           cache->dram->ops->has(cache->dram, &item);
}

bool cache_is_cached(struct cache *cache, uint64_t id, uint32_t extent)
{
    struct item item;

    return index_get_item(cache->index, id, extent, &item) == 0 &&
           cache_places(cache, &item) != 0;
}

enum admission_outcome cache_begin(struct cache *cache,
                                   struct admission_key *key, bool promote,
                                   struct admission_waiter *waiter,
                                   struct shared_buffer **buffer)
{
    struct shared_buffer *begun;

    if (atomic_load(&cache->shared->orphaned))
        return ADMISSION_FULL; /* nobody would pin it */
    uint64_t commits = atomic_load(&cache->commits);
    uint32_t places =
        cache_find(cache, key->id, key->extent, key->version, NULL, NULL);
    key->pinned = places & ITEM_IN_DRAM;
    key->stored = places & ITEM_ON_NVME;
    if (key->stored && !key->pinned && !promote)
        return ADMISSION_FULL;
    enum admission_outcome outcome =
        admission_begin(cache->admission, key, waiter, &begun);
    bool committing =
        commits % 2 != 0 || commits != atomic_load(&cache->commits);
    /* It may have been committed or forgotten between the two: not to be
     * counted twice, or not at all. */
    if (outcome == ADMISSION_LOAD && (committing || places != 0) &&
        cache_find(cache, key->id, key->extent, key->version, NULL, NULL) !=
            places) {
        admission_finish(cache->admission, begun, -EAGAIN);
        return ADMISSION_BUSY;
    }
    if (outcome == ADMISSION_LOAD || outcome == ADMISSION_READY)
        *buffer = begun;
    return outcome;
}

int cache_read_stored(struct cache *cache, const struct item *item,
                      const struct item_sums *sums, uint64_t offset,
                      size_t length, char *buffer, size_t *start)
{
    static struct log_limit limit;
    struct item now;
    int err = cache->nvme->ops->read(cache->nvme, item, sums, offset, length,
                                     buffer, start);

    if (err != -EBADMSG)
        return err;
    /* Unless it was dropped while we read. */
    if (index_get_item(cache->index, item->id, item->extent, &now) != 0 ||
        now.checksum != item->checksum || now.segment != item->segment ||
        now.segment_offset != item->segment_offset)
        return -EAGAIN;
    atomic_fetch_add(&cache->shared->metrics.corrupt_items, 1);
    if (log_limit_pass(&limit))
        log_warn("an item on disk is damaged (segment %08x, offset %llu): "
                 "dropped, and read from the dataset",
                 item->segment, (unsigned long long)item->segment_offset);
    if (cache_drop_item(cache, item->id, item->extent, ITEM_ON_NVME) != 0)
        log_debug("a damaged item's record stays");
    return -EBADMSG;
}

/* ---- forgetting ---- */

/* A request beyond the bounded list is lost: the kernel drops the file's pages
 * anyway when it learns of the change, and what stays is an empty mapping. */
void cache_release(struct cache *cache, uint64_t id, const char *path)
{
    struct admission_key key = {.id = id, .path = path};

    if (admission_post(cache->admission, TASK_RELEASE, &key))
        return;
    char *copy = strdup(path);
    SCOPED_LOCK(&cache->lock);
    for (size_t i = 0; i < cache->release_count; i++)
        if (cache->releases[i].id == id) {
            free(copy);
            return;
        }
    if (copy && cache->release_count < CACHE_RELEASES)
        cache->releases[cache->release_count++] = (struct release){id, copy};
    else
        free(copy);
}

void cache_post_releases(struct cache *cache)
{
    SCOPED_LOCK(&cache->lock);
    while (cache->release_count > 0) {
        struct release *last = &cache->releases[cache->release_count - 1];
        struct admission_key key = {.id = last->id, .path = last->path};
        if (!admission_post(cache->admission, TASK_RELEASE, &key))
            return;
        free(last->path);
        cache->release_count--;
    }
}

struct forget_walk {
    struct cache *cache;
    struct index_batch *batch;
    struct item *pinned; /* that the DRAM account has */
    uint64_t count;
    uint64_t room;
    int err;
};

static bool forget_item(const struct item *item, void *data)
{
    struct forget_walk *walk = data;
    struct cache *cache = walk->cache;
    uint32_t places = cache_places(cache, item);

    index_batch_drop_item(walk->batch, item->id, item->extent);
    if (places & ITEM_ON_NVME)
        cache->nvme->ops->forget(cache->nvme, walk->batch, item);
    if (!(places & ITEM_IN_DRAM))
        return true;
    if (walk->count == walk->room) {
        uint64_t room = walk->room ? walk->room * 2 : 64;
        struct item *pinned = realloc(walk->pinned, room * sizeof(*pinned));
        if (!pinned) {
            walk->err = -ENOMEM;
            return false;
        }
        walk->pinned = pinned;
        walk->room = room;
    }
    walk->pinned[walk->count++] = *item;
    return true;
}

int cache_forget_records(struct cache *cache, uint64_t id)
{
    struct forget_walk walk = {.cache = cache, .batch = index_batch_create()};
    if (!walk.batch)
        return -ENOMEM;
    SCOPED_LOCK(&cache->forget_lock);
    int err = index_each_item(cache->index, id, forget_item, &walk);
    if (err == 0)
        err = walk.err;
    if (err == 0)
        err = index_batch_commit(cache->index, walk.batch);
    else
        index_batch_destroy(walk.batch);

    for (uint64_t i = 0; err == 0 && i < walk.count; i++)
        cache->dram->ops->drop(cache->dram, &walk.pinned[i]);
    free(walk.pinned);
    return err;
}

int cache_forget(struct cache *cache, uint64_t id, const char *path)
{
    int err = cache_forget_records(cache, id);

    if (err == 0)
        cache_release(cache, id, path);
    return err;
}

int cache_drop_item(struct cache *cache, uint64_t id, uint32_t extent,
                    uint32_t places)
{
    struct item item;
    struct item_sums sums;
    struct index_batch *batch = index_batch_create();
    if (!batch)
        return -ENOMEM;
    SCOPED_LOCK(&cache->forget_lock);
    int err = index_get_item_sums(cache->index, id, extent, &item, &sums);
    if (err != 0) {
        index_batch_destroy(batch);
        return err == -ENOENT ? 0 : err;
    }
    uint32_t now = cache_places(cache, &item);
    struct item kept = item;
    kept.places = now & ~places;
    if (kept.places != 0)
        index_batch_item(batch, &kept, &sums);
    else
        index_batch_drop_item(batch, id, extent);
    if (now & places & ITEM_ON_NVME)
        cache->nvme->ops->forget(cache->nvme, batch, &item);
    err = index_batch_commit(cache->index, batch);
    if (err == 0 && (now & places & ITEM_IN_DRAM))
        cache->dram->ops->drop(cache->dram, &item);
    else if (err == 0 && (now & places & ITEM_ON_NVME) && (now & ITEM_IN_DRAM))
        atomic_fetch_sub(&cache->shared->dram.copies, 1);
    return err;
}

int cache_clear_stored(struct cache *cache)
{
    SCOPED_LOCK(&cache->forget_lock);

    return tier_nvme_clear(cache->nvme);
}
