/* SPDX-License-Identifier: Apache-2.0 */
/* The committer: what pinner and writer answered becomes index records and
 * account.
 *
 * Order for a pin: index record, account, buffer freed. A death in between
 * leaves a PINNED buffer, and the next worker commits it again: the record is
 * the same, and the account knows by the buffer whether it has it. What the
 * NVMe tier holds stands in the index alone, in the same write as the records:
 * the record says whether it was counted. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "cache/cache_parts.h"
#include "cache/item.h"
#include "util/clock.h"
#include "util/log.h"

enum {
    BATCH = 256,         /* answers that share one index write */
    GATHER_NS = 2000000, /* answers come in bursts: let one build up */
    IDLE_MS = 1000,
};

static bool is_stored(const struct shared_buffer *buffer)
{
    return buffer->task == TASK_STORE;
}

static struct tier *tier_of(struct cache *cache,
                            const struct shared_buffer *buffer)
{
    return is_stored(buffer) ? cache->nvme : cache->dram;
}

/* The file may have changed since its bytes were loaded. */
static bool is_still_wanted(struct cache *cache,
                            const struct shared_buffer *buffer)
{
    struct node node;

    return index_get_node(cache->index, buffer->id, &node) == 0 &&
           !(node.flags & NODE_CHANGED) &&
           node_version(&node) == buffer->version;
}

/* ---- what needs no record ---- */

static void retire_refused(struct cache *cache, struct shared_buffer *buffer)
{
    uint64_t id = buffer->id;
    uint32_t extent = buffer->extent;
    int error = buffer->error;
    bool pinned = buffer->task == TASK_REPIN ||
                  (buffer->task == TASK_PIN && buffer->accounted);
    bool report = buffer->task == TASK_REPIN || buffer->task == TASK_PIN;

    if (pinned && cache_drop_item(cache, id, extent, ITEM_IN_DRAM) != 0)
        log_debug("the record of a lost pin stays");
    admission_retire(cache->admission, buffer, false);
    if (report)
        cache->refused(id, extent, error, cache->data);
}

static void retire_unwanted(struct cache *cache, struct shared_buffer *buffer)
{
    const char *path = shared_buffer_path(cache->shared, buffer);

    if (!is_stored(buffer))
        cache_release(cache, buffer->id, path ? path : "");
    admission_retire(cache->admission, buffer, false);
}

/* A pinner that died since it locked the item's pages has let go of them. */
static bool is_of_dead_pinner(struct cache *cache,
                              const struct shared_buffer *buffer)
{
    return (buffer->task == TASK_PIN || buffer->task == TASK_REPIN) &&
           atomic_load(&buffer->state) == BUFFER_PINNED &&
           buffer->pinner != atomic_load(&cache->shared->pinner_generation);
}

/* Sorts out what needs no record; returns how many items are left. */
static size_t retire_others(struct cache *cache, struct shared_buffer **buffers,
                            size_t count)
{
    size_t left = 0;

    for (size_t i = 0; i < count; i++) {
        struct shared_buffer *buffer = buffers[i];
        if (is_of_dead_pinner(cache, buffer))
            admission_repost(cache->admission, buffer);
        else if (atomic_load(&buffer->state) == BUFFER_REFUSED)
            retire_refused(cache, buffer);
        else if (buffer->task == TASK_REPIN &&
                 !cache_is_pinned(cache, buffer->id, buffer->extent))
            retire_unwanted(cache, buffer); /* forgotten meanwhile */
        else if (buffer->task == TASK_PIN || is_stored(buffer))
            buffers[left++] = buffer;
        else
            admission_retire(cache->admission, buffer, true);
    }
    return left;
}

/* ---- records ---- */

/* A pin of an item that is on NVMe too keeps that part of its record. */
static void keep_copy(struct cache *cache, struct shared_buffer *buffer,
                      struct item *item)
{
    struct item known;
    bool copied =
        index_get_item(cache->index, item->id, item->extent, &known) == 0 &&
        known.version == item->version &&
        cache->nvme->ops->has(cache->nvme, &known);

    if (!buffer->accounted)
        buffer->is_copy = copied;
    if (!copied)
        return;
    item->places |= ITEM_ON_NVME;
    item->segment = known.segment;
    item->segment_offset = known.segment_offset;
}

/* A worker has recorded the stored item, and died before the buffer was free.
 */
static bool is_recorded(struct cache *cache, const struct shared_buffer *buffer)
{
    struct item known;

    return is_stored(buffer) &&
           index_get_item(cache->index, buffer->id, buffer->extent, &known) ==
               0 &&
           (known.places & ITEM_ON_NVME) && known.version == buffer->version &&
           known.segment == buffer->segment &&
           known.segment_offset == buffer->segment_offset;
}

/* Counts off again what was counted for a write that failed. */
static void uncount_stored(struct cache *cache, const struct item *stored,
                           size_t count)
{
    struct index_batch *none = index_batch_create();

    for (size_t i = 0; none && i < count; i++)
        cache->nvme->ops->forget(cache->nvme, none, &stored[i]);
    index_batch_destroy(none);
}

static int write_items(struct cache *cache, struct shared_buffer **buffers,
                       size_t count)
{
    struct index_batch *batch = index_batch_create();
    struct item stored[BATCH];
    size_t stored_count = 0;
    struct item_sums sums;
    struct item item;
    if (!batch)
        return -ENOMEM;

    for (size_t i = 0; i < count; i++) {
        struct tier *tier = tier_of(cache, buffers[i]);
        if (is_recorded(cache, buffers[i]))
            continue;
        item_of_buffer(cache->shared, buffers[i], &item, &sums);
        if (!is_stored(buffers[i]))
            keep_copy(cache, buffers[i], &item);
        tier->ops->record(tier, batch, buffers[i], &item);
        if (is_stored(buffers[i]))
            stored[stored_count++] = item;
        index_batch_item(batch, &item, &sums);
    }
    int err = index_batch_commit(cache->index, batch);
    if (err != 0)
        uncount_stored(cache, stored, stored_count);
    return err;
}

/* Writes down the items that are still wanted; sets committed[i] for them. As
 * one step against forgetting, which must meet both record and account. */
static void commit_items(struct cache *cache, struct shared_buffer **buffers,
                         size_t count, bool *committed)
{
    struct shared_buffer *wanted[BATCH];
    size_t wanted_count = 0;
    SCOPED_LOCK(&cache->forget_lock);

    for (size_t i = 0; i < count; i++) {
        committed[i] = is_still_wanted(cache, buffers[i]);
        if (committed[i])
            wanted[wanted_count++] = buffers[i];
    }
    bool written =
        wanted_count > 0 && write_items(cache, wanted, wanted_count) == 0;

    for (size_t i = 0; i < count; i++) {
        struct tier *tier = tier_of(cache, buffers[i]);
        committed[i] = committed[i] && written;
        if (committed[i] && !buffers[i]->accounted)
            tier->ops->commit(tier, buffers[i]);
    }
}

/* True when there was something to do. */
static bool commit_round(struct cache *cache)
{
    struct shared_buffer *buffers[BATCH];
    bool committed[BATCH];
    struct shared *shared = cache->shared;
    uint32_t generation = atomic_load(&shared->pinner_generation);
    size_t count = admission_collect(cache->admission, buffers, BATCH);

    atomic_fetch_add(&cache->commits, 1);
    size_t items = retire_others(cache, buffers, count);
    if (items > 0)
        commit_items(cache, buffers, items, committed);
    for (size_t i = 0; i < items; i++)
        if (committed[i])
            admission_retire(cache->admission, buffers[i], true);
        else
            retire_unwanted(cache, buffers[i]);
    atomic_fetch_add(&cache->commits, 1);
    /* The sweep for a new pinner may have missed what was written just now. */
    if (generation != atomic_load(&shared->pinner_generation))
        atomic_store(&shared->sweep_again, 1);
    cache_post_releases(cache);
    return count > 0;
}

void *committer_main(void *data)
{
    struct cache *cache = data;

    pthread_setname_np(pthread_self(), "commit");
    while (!atomic_load(&cache->stopping)) {
        uint32_t seen = event_read(&cache->shared->worker_event);
        if (!commit_round(cache))
            event_wait(&cache->shared->worker_event, seen, IDLE_MS);
        clock_sleep_ns(GATHER_NS);
    }
    return NULL;
}
