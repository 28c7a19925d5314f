/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers by item: a chained hash over the indices of the shared buffers. What
 * a new worker needs lies in shared memory; the chains, the waiters and the
 * free list are made again from it.
 *
 * Lock order: admission.lock before a tier's own. No call out of here (the
 * wake callback, the pinner's futex) is made with the lock held. */
#include "cache/admission.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "cache/pool.h"
#include "util/clock.h"
#include "util/log.h"

enum { BUCKETS = 8192, NONE = -1 };

/* The private half of a shared buffer. */
struct half {
    int next; /* in its bucket, or in the free list */
    bool linked;
    bool collected;
    bool retired;
    struct admission_waiter *waiters;
};

struct admission {
    struct shared *shared;
    struct shared_buffer *buffers;
    struct tier *dram;
    struct tier *nvme;
    uint64_t pin_delay_ns;
    admission_wake_cb wake;
    void *wake_data;

    pthread_mutex_t lock;
    pthread_cond_t freed;
    /* guarded by lock: */
    struct pool *pool;
    struct half half[SHARED_BUFFERS];
    int bucket[BUCKETS];
    int free_list;
};

static unsigned bucket_of(uint64_t id, uint32_t extent)
{
    return (unsigned)((id ^ (id >> 29) ^ ((uint64_t)extent * 0x9e3779b1u)) %
                      BUCKETS);
}

static size_t index_of(const struct admission *admission,
                       const struct shared_buffer *buffer)
{
    return (size_t)(buffer - admission->buffers);
}

static void link_locked(struct admission *admission, size_t i)
{
    const struct shared_buffer *buffer = &admission->buffers[i];
    int *head = &admission->bucket[bucket_of(buffer->id, buffer->extent)];

    admission->half[i].next = *head;
    admission->half[i].linked = true;
    *head = (int)i;
}

static void unlink_locked(struct admission *admission, size_t i)
{
    const struct shared_buffer *buffer = &admission->buffers[i];
    int *at = &admission->bucket[bucket_of(buffer->id, buffer->extent)];

    if (!admission->half[i].linked)
        return;
    while (*at != (int)i)
        at = &admission->half[*at].next;
    *at = admission->half[i].next;
    admission->half[i].linked = false;
}

static int find_locked(const struct admission *admission, uint64_t id,
                       uint32_t extent)
{
    int i = admission->bucket[bucket_of(id, extent)];

    while (i != NONE && (admission->buffers[i].id != id ||
                         admission->buffers[i].extent != extent))
        i = admission->half[i].next;
    return i;
}

/* ---- room in the tiers ---- */

static struct tier *tier_of(struct admission *admission,
                            const struct shared_buffer *buffer)
{
    return buffer->task == TASK_STORE ? admission->nvme : admission->dram;
}

/* Whether the buffer holds room in a tier that no item has yet. */
static bool has_reservation(const struct shared_buffer *buffer)
{
    return (buffer->task == TASK_PIN || buffer->task == TASK_STORE) &&
           !buffer->accounted;
}

static struct tier_place place_of(const struct shared_buffer *buffer)
{
    return (struct tier_place){buffer->segment, buffer->segment_offset};
}

static int reserve_locked(struct admission *admission,
                          const struct admission_key *key,
                          enum buffer_task *task, struct tier_place *place)
{
    *task = TASK_PIN;
    if (key->pinned)
        return 0;
    int err =
        admission->dram->ops->reserve(admission->dram, key->length, place);
    if (err != -ENOSPC || key->stored)
        return err;
    *task = TASK_STORE;
    return admission->nvme->ops->reserve(admission->nvme, key->length, place);
}

static bool restore(struct admission *admission,
                    const struct shared_buffer *buffer)
{
    struct tier *tier = tier_of(admission, buffer);
    struct tier_place place = place_of(buffer);

    return !has_reservation(buffer) ||
           tier->ops->restore(tier, buffer->length, &place);
}

static void give_reservation(struct admission *admission,
                             const struct shared_buffer *buffer)
{
    struct tier *tier = tier_of(admission, buffer);
    struct tier_place place = place_of(buffer);

    if (has_reservation(buffer))
        tier->ops->abort(tier, buffer->length, &place);
}

/* The buffer is nobody's any more: its run and its place are free. */
static void free_locked(struct admission *admission, size_t i)
{
    struct shared_buffer *buffer = &admission->buffers[i];
    uint64_t offset = buffer->pool_offset;
    uint32_t bytes = buffer->run_bytes;

    unlink_locked(admission, i);
    atomic_store(&buffer->users, 0);
    atomic_store(&buffer->state, BUFFER_FREE);
    pool_give(admission->pool, offset, bytes);
    admission->half[i] = (struct half){.next = admission->free_list};
    admission->free_list = (int)i;
    pthread_cond_broadcast(&admission->freed);
}

/* ---- taking over ---- */

/* False when what a predecessor left there cannot be used. */
static bool adopt(struct admission *admission, size_t i)
{
    struct shared_buffer *buffer = &admission->buffers[i];

    atomic_store(&buffer->users, 0);
    if (atomic_load(&buffer->state) == BUFFER_LOADING ||
        !shared_buffer_bytes(admission->shared, buffer) ||
        !pool_claim(admission->pool, buffer->pool_offset, buffer->run_bytes))
        return false;
    if (!restore(admission, buffer)) {
        pool_give(admission->pool, buffer->pool_offset, buffer->run_bytes);
        return false;
    }
    /* What a dead writer said may have been of a place that is ours only now:
     * it is written again. */
    if (buffer->task == TASK_STORE)
        atomic_store(&buffer->state, BUFFER_LOADED);
    if (buffer->task != TASK_RELEASE)
        link_locked(admission, i);
    return true;
}

static void take_over(struct admission *admission)
{
    admission->free_list = NONE;
    for (int i = 0; i < BUCKETS; i++)
        admission->bucket[i] = NONE;
    for (size_t i = SHARED_BUFFERS; i-- > 0;) {
        struct shared_buffer *buffer = &admission->buffers[i];
        if (atomic_load(&buffer->state) != BUFFER_FREE && adopt(admission, i))
            continue;
        atomic_store(&buffer->state, BUFFER_FREE);
        admission->half[i].next = admission->free_list;
        admission->free_list = (int)i;
    }
}

struct admission *admission_create(struct shared *shared, struct tier *dram,
                                   struct tier *nvme, unsigned pin_delay_ms,
                                   admission_wake_cb wake, void *data)
{
    struct admission *admission = calloc(1, sizeof(*admission));
    pthread_condattr_t monotonic;

    if (!admission)
        return NULL;
    admission->pool = pool_create(shared->pool_bytes);
    if (!admission->pool) {
        free(admission);
        return NULL;
    }
    admission->shared = shared;
    admission->buffers = shared_buffers(shared);
    admission->dram = dram;
    admission->nvme = nvme;
    admission->pin_delay_ns = (uint64_t)pin_delay_ms * 1000000u;
    admission->wake = wake;
    admission->wake_data = data;
    pthread_mutex_init(&admission->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&admission->freed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    take_over(admission);
    return admission;
}

void admission_destroy(struct admission *admission)
{
    pool_destroy(admission->pool);
    pthread_cond_destroy(&admission->freed);
    pthread_mutex_destroy(&admission->lock);
    free(admission);
}

/* ---- beginning ---- */

/* A free buffer with a run, filled in from key, in state state; or NULL. */
static struct shared_buffer *take_locked(struct admission *admission,
                                         enum buffer_task task,
                                         const struct admission_key *key,
                                         enum buffer_state state)
{
    size_t path_length = strlen(key->path);
    size_t run = shared_run_bytes(task, key->length, path_length);
    uint64_t offset;
    int i = admission->free_list;

    if (i == NONE || !pool_take(admission->pool, run, &offset))
        return NULL;
    admission->free_list = admission->half[i].next;
    admission->half[i] = (struct half){.next = NONE};

    struct shared_buffer *buffer = &admission->buffers[i];
    buffer->task = task;
    buffer->id = key->id;
    buffer->extent = key->extent;
    buffer->length = key->length;
    buffer->file_offset = key->file_offset;
    buffer->version = key->version;
    buffer->pool_offset = offset;
    buffer->run_bytes = (uint32_t)run;
    buffer->path_length = (uint32_t)path_length;
    buffer->accounted = key->pinned;
    buffer->is_copy = key->stored;
    buffer->error = 0;
    buffer->checksum = 0;
    buffer->ready_ns = 0;
    /* A load writes whole pages, up to where the path begins. */
    memcpy((char *)shared_buffer_path(admission->shared, buffer), key->path,
           path_length + 1);
    atomic_store(&buffer->state, state);
    return buffer;
}

/* What an item that is in a buffer already means for the caller. */
static enum admission_outcome join_locked(struct admission *admission, int i,
                                          uint64_t version,
                                          struct admission_waiter *waiter,
                                          struct shared_buffer **buffer)
{
    struct shared_buffer *found = &admission->buffers[i];

    if (found->task == TASK_REPIN || found->version != version)
        return ADMISSION_BUSY;
    if (atomic_load(&found->state) != BUFFER_LOADING) {
        atomic_fetch_add(&found->users, 1);
        *buffer = found;
        return ADMISSION_READY;
    }
    if (!waiter)
        return ADMISSION_BUSY;
    waiter->next = admission->half[i].waiters;
    admission->half[i].waiters = waiter;
    return ADMISSION_WAIT;
}

enum admission_outcome admission_begin(struct admission *admission,
                                       const struct admission_key *key,
                                       struct admission_waiter *waiter,
                                       struct shared_buffer **buffer)
{
    struct tier_place place = {0, 0};
    enum buffer_task task;
    SCOPED_LOCK(&admission->lock);
    int i = find_locked(admission, key->id, key->extent);

    if (i != NONE)
        return join_locked(admission, i, key->version, waiter, buffer);
    int err = reserve_locked(admission, key, &task, &place);
    if (err != 0)
        return err == -EAGAIN ? ADMISSION_BUSY : ADMISSION_FULL;

    struct shared_buffer *taken =
        take_locked(admission, task, key, BUFFER_LOADING);
    if (!taken) {
        struct tier *tier =
            task == TASK_STORE ? admission->nvme : admission->dram;
        if (!key->pinned)
            tier->ops->abort(tier, key->length, &place);
        return ADMISSION_BUSY;
    }
    taken->segment = place.segment;
    taken->segment_offset = place.offset;
    link_locked(admission, index_of(admission, taken));
    *buffer = taken;
    return ADMISSION_LOAD;
}

bool admission_has(struct admission *admission, uint64_t id, uint32_t extent)
{
    SCOPED_LOCK(&admission->lock);

    return find_locked(admission, id, extent) != NONE;
}

enum admission_outcome admission_find(struct admission *admission, uint64_t id,
                                      uint32_t extent, uint64_t version,
                                      struct shared_buffer **buffer)
{
    SCOPED_LOCK(&admission->lock);
    int i = find_locked(admission, id, extent);

    return i == NONE ? ADMISSION_BUSY
                     : join_locked(admission, i, version, NULL, buffer);
}

bool admission_post(struct admission *admission, enum buffer_task task,
                    const struct admission_key *key)
{
    assert(task != TASK_PIN && task != TASK_STORE);
    pthread_mutex_lock(&admission->lock);
    struct shared_buffer *buffer =
        task == TASK_REPIN &&
                find_locked(admission, key->id, key->extent) != NONE
            ? NULL
            : take_locked(admission, task, key, BUFFER_LOADED);
    if (buffer && task == TASK_REPIN)
        link_locked(admission, index_of(admission, buffer));
    pthread_mutex_unlock(&admission->lock);
    if (buffer)
        event_signal(&admission->shared->pinner_event);
    return buffer != NULL;
}

/* ---- ending ---- */

/* Without waking the pinner when it will look in time by itself. */
static void tell_tier(struct shared *shared, enum buffer_task task,
                      uint64_t ready_ns)
{
    if (task == TASK_STORE) {
        event_signal(&shared->store_event);
        return;
    }
    event_note(&shared->pinner_event);
    if (atomic_load(&shared->pinner_until_ns) > ready_ns)
        event_wake(&shared->pinner_event);
}

void admission_finish(struct admission *admission, struct shared_buffer *buffer,
                      int err)
{
    size_t i = index_of(admission, buffer);
    uint64_t ready_ns = clock_now_ns() + admission->pin_delay_ns;
    enum buffer_task task = buffer->task;

    pthread_mutex_lock(&admission->lock);
    struct admission_waiter *waiters = admission->half[i].waiters;
    admission->half[i].waiters = NULL;
    if (err == 0) {
        buffer->ready_ns = ready_ns;
        atomic_store(&buffer->users, 1);
        atomic_store(&buffer->state, BUFFER_LOADED);
    } else {
        give_reservation(admission, buffer);
        free_locked(admission, i);
    }
    pthread_mutex_unlock(&admission->lock);

    if (err == 0)
        tell_tier(admission->shared, task, ready_ns);
    while (waiters) {
        struct admission_waiter *next = waiters->next;
        admission->wake(waiters, admission->wake_data);
        waiters = next;
    }
}

void admission_put(struct admission *admission, struct shared_buffer *buffer)
{
    size_t i = index_of(admission, buffer);
    SCOPED_LOCK(&admission->lock);

    if (atomic_fetch_sub(&buffer->users, 1) == 1 && admission->half[i].retired)
        free_locked(admission, i);
}

size_t admission_collect(struct admission *admission,
                         struct shared_buffer **buffers, size_t count)
{
    size_t found = 0;

    for (size_t i = 0; i < SHARED_BUFFERS && found < count; i++) {
        uint32_t state = atomic_load(&admission->buffers[i].state);
        if (state != BUFFER_PINNED && state != BUFFER_REFUSED)
            continue;
        SCOPED_LOCK(&admission->lock);
        /* It may have been freed, and taken again, before the lock. */
        state = atomic_load(&admission->buffers[i].state);
        if (admission->half[i].collected ||
            (state != BUFFER_PINNED && state != BUFFER_REFUSED))
            continue;
        admission->half[i].collected = true;
        buffers[found++] = &admission->buffers[i];
    }
    return found;
}

void admission_retire(struct admission *admission, struct shared_buffer *buffer,
                      bool committed)
{
    size_t i = index_of(admission, buffer);
    SCOPED_LOCK(&admission->lock);

    if (!committed)
        give_reservation(admission, buffer);
    unlink_locked(admission, i);
    admission->half[i].retired = true;
    if (atomic_load(&buffer->users) == 0)
        free_locked(admission, i);
}

void admission_repost(struct admission *admission, struct shared_buffer *buffer)
{
    pthread_mutex_lock(&admission->lock);
    admission->half[index_of(admission, buffer)].collected = false;
    atomic_store(&buffer->state, BUFFER_LOADED);
    pthread_mutex_unlock(&admission->lock);
    event_signal(&admission->shared->pinner_event);
}

void admission_wait_free(struct admission *admission, long timeout_ms)
{
    struct timespec until;
    uint64_t at = clock_now_ns() + (uint64_t)timeout_ms * 1000000u;
    SCOPED_LOCK(&admission->lock);

    until.tv_sec = (time_t)(at / 1000000000u);
    until.tv_nsec = (long)(at % 1000000000u);
    pthread_cond_timedwait(&admission->freed, &admission->lock, &until);
}

uint64_t admission_pin_deadline(const struct admission *admission)
{
    return clock_now_ns() + admission->pin_delay_ns;
}

uint64_t admission_oldest(struct admission *admission)
{
    uint64_t oldest = UINT64_MAX;
    SCOPED_LOCK(&admission->lock);

    for (int i = 0; i < SHARED_BUFFERS; i++) {
        const struct shared_buffer *buffer = &admission->buffers[i];
        if (atomic_load(&buffer->state) >= BUFFER_LOADED &&
            (buffer->task == TASK_PIN || buffer->task == TASK_STORE) &&
            !admission->half[i].retired && buffer->ready_ns < oldest)
            oldest = buffer->ready_ns;
    }
    return oldest;
}

bool admission_has_tasks(struct admission *admission)
{
    SCOPED_LOCK(&admission->lock);

    for (int i = 0; i < SHARED_BUFFERS; i++)
        if (atomic_load(&admission->buffers[i].state) != BUFFER_FREE &&
            admission->buffers[i].task == TASK_RELEASE)
            return true;
    return false;
}
