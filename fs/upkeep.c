/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads: one for deferred and refused items, one for the sweep after the
 * death of a pinner, which may take a minute for a million items. These and
 * `warm` are the only ones that wait for buffers. */
#include "fs/upkeep.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "util/clock.h"
#include "util/log.h"

enum {
    DEFERRED = 4096,
    TICK_MS = 100,
    RETRY_FIRST_MS = 1000,
    RETRY_LAST_MS = 60000,
    BUFFER_WAIT_MS = 50,
    HEAL_MS = 5000,
};

struct deferred {
    uint64_t id;
    uint32_t extent;
};

struct upkeep {
    struct worker *worker;
    pthread_t keeper;
    pthread_t sweeper;
    _Atomic bool stopping;
    uint64_t healed_ms; /* the sweeper's: when it last tried */

    pthread_mutex_t lock;
    pthread_cond_t work;
    /* guarded by lock, as are the shared retries: */
    struct deferred deferred[DEFERRED];
    size_t head;
    size_t count;
};

struct upkeep *upkeep_create(struct worker *worker)
{
    struct upkeep *upkeep = calloc(1, sizeof(*upkeep));
    pthread_condattr_t monotonic;

    if (!upkeep)
        return NULL;
    upkeep->worker = worker;
    pthread_mutex_init(&upkeep->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&upkeep->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return upkeep;
}

void upkeep_destroy(struct upkeep *upkeep)
{
    pthread_cond_destroy(&upkeep->work);
    pthread_mutex_destroy(&upkeep->lock);
    free(upkeep);
}

int upkeep_load(struct worker *worker, uint64_t id, uint32_t extent,
                bool promote)
{
    AUTO_FREE char *path = NULL;
    struct node node;
    int err = inodes_get_known(worker->inodes, id, &node);

    if (err == 0)
        err = inodes_path_known(worker->inodes, id, &path);
    if (err != 0)
        return err;
    for (;;) {
        err = fetch_item(worker->fetch, &node, path, extent, promote);
        if (err != -EBUSY)
            return err;
        if (shared_is_closed(worker->shared) ||
            atomic_load(&worker->shared->state) == SHARED_STOPPING)
            return -ECANCELED;
        admission_wait_free(cache_admission(worker->cache), BUFFER_WAIT_MS);
    }
}

int upkeep_release(struct worker *worker, uint64_t id, const char *path)
{
    struct admission *admission = cache_admission(worker->cache);
    struct admission_key key = {.id = id, .path = path};

    while (!admission_post(admission, TASK_RELEASE, &key)) {
        if (shared_is_closed(worker->shared) ||
            atomic_load(&worker->shared->state) == SHARED_STOPPING)
            return -ECANCELED;
        admission_wait_free(admission, BUFFER_WAIT_MS);
    }
    return 0;
}

/* ---- deferred ---- */

void upkeep_defer(struct upkeep *upkeep, uint64_t id, uint32_t extent)
{
    SCOPED_LOCK(&upkeep->lock);

    for (size_t i = 0; i < upkeep->count; i++) {
        const struct deferred *known =
            &upkeep->deferred[(upkeep->head + i) % DEFERRED];
        if (known->id == id && known->extent == extent)
            return;
    }
    if (upkeep->count == DEFERRED) {
        atomic_fetch_add(&upkeep->worker->shared->metrics.admissions_skipped,
                         1);
        return;
    }
    upkeep->deferred[(upkeep->head + upkeep->count++) % DEFERRED] =
        (struct deferred){id, extent};
    pthread_cond_signal(&upkeep->work);
}

/* Waits a tick at most; false when nothing is deferred. */
static bool take_deferred(struct upkeep *upkeep, struct deferred *taken)
{
    struct timespec until;
    uint64_t at = clock_now_ns() + TICK_MS * 1000000ull;
    SCOPED_LOCK(&upkeep->lock);

    until.tv_sec = (time_t)(at / 1000000000u);
    until.tv_nsec = (long)(at % 1000000000u);
    if (upkeep->count == 0)
        pthread_cond_timedwait(&upkeep->work, &upkeep->lock, &until);
    if (upkeep->count == 0)
        return false;
    *taken = upkeep->deferred[upkeep->head];
    upkeep->head = (upkeep->head + 1) % DEFERRED;
    upkeep->count--;
    return true;
}

/* ---- refused ---- */

static struct shared_retry *find_retry_locked(struct upkeep *upkeep,
                                              uint64_t id, uint32_t extent)
{
    struct shared_retry *retries = shared_retries(upkeep->worker->shared);

    for (int i = 0; i < SHARED_RETRIES; i++)
        if (retries[i].id == id && (id == 0 || retries[i].extent == extent))
            return &retries[i];
    return NULL;
}

static void add_retry(struct upkeep *upkeep, uint64_t id, uint32_t extent)
{
    SCOPED_LOCK(&upkeep->lock);
    struct shared_retry *retry = find_retry_locked(upkeep, id, extent);

    if (retry) {
        retry->delay_ms *= 2;
        if (retry->delay_ms > RETRY_LAST_MS)
            retry->delay_ms = RETRY_LAST_MS;
    } else {
        retry = find_retry_locked(upkeep, 0, 0);
        if (!retry) {
            atomic_fetch_add(
                &upkeep->worker->shared->metrics.admissions_skipped, 1);
            return;
        }
        retry->extent = extent;
        retry->delay_ms = RETRY_FIRST_MS;
    }
    retry->due_ns = clock_now_ns() + retry->delay_ms * 1000000ull;
    retry->id = id;
}

void upkeep_refused(struct upkeep *upkeep, uint64_t id, uint32_t extent,
                    int error)
{
    struct shared *shared = upkeep->worker->shared;

    atomic_fetch_add(&shared->metrics.pins_refused, 1);
    if (error == -ENOMEM) {
        if (!atomic_exchange(&shared->map_exhausted, 1))
            log_warn("no further page can be pinned: vm.max_map_count or the "
                     "memory is used up; the cache stays at %llu items",
                     (unsigned long long)atomic_load(&shared->dram.items));
        return;
    }
    if (error != -EBUSY && error != -EAGAIN)
        log_debug("item %016llx/%u was not pinned: %s", (unsigned long long)id,
                  extent, strerror(-error));
    if (error == -EBUSY || error == -EAGAIN)
        add_retry(upkeep, id, extent);
}

uint32_t upkeep_retry_count(struct upkeep *upkeep)
{
    struct shared_retry *retries = shared_retries(upkeep->worker->shared);
    uint32_t count = 0;
    SCOPED_LOCK(&upkeep->lock);

    for (int i = 0; i < SHARED_RETRIES; i++)
        count += retries[i].id != 0;
    return count;
}

/* A retry that is due; its next turn is set, until its pin is seen. */
static bool take_retry(struct upkeep *upkeep, int *at, struct deferred *taken)
{
    struct shared_retry *retries = shared_retries(upkeep->worker->shared);
    uint64_t now = clock_now_ns();
    SCOPED_LOCK(&upkeep->lock);

    for (; *at < SHARED_RETRIES; (*at)++) {
        struct shared_retry *retry = &retries[*at];
        if (retry->id == 0 || retry->due_ns > now)
            continue;
        *taken = (struct deferred){retry->id, retry->extent};
        retry->due_ns = now + retry->delay_ms * 1000000ull;
        return true;
    }
    return false;
}

static void end_retry(struct upkeep *upkeep, const struct deferred *item)
{
    SCOPED_LOCK(&upkeep->lock);
    struct shared_retry *retry =
        find_retry_locked(upkeep, item->id, item->extent);

    if (retry)
        retry->id = 0;
}

static void try_again(struct upkeep *upkeep)
{
    struct worker *worker = upkeep->worker;
    struct deferred item;

    for (int at = 0; take_retry(upkeep, &at, &item); at++) {
        if (cache_is_pinned(worker->cache, item.id, item.extent)) {
            end_retry(upkeep, &item);
            continue;
        }
        int err = upkeep_load(worker, item.id, item.extent, false);
        if (err != 0 && err != -ECANCELED)
            end_retry(upkeep, &item);
    }
}

static void *keeper_main(void *data)
{
    struct upkeep *upkeep = data;
    struct deferred item;

    pthread_setname_np(pthread_self(), "keeper");
    while (!atomic_load(&upkeep->stopping)) {
        if (take_deferred(upkeep, &item)) {
            int err = upkeep_load(upkeep->worker, item.id, item.extent, false);
            if (err != 0 && err != -ENOSPC)
                log_debug("deferred item: %s", strerror(-err));
        }
        try_again(upkeep);
    }
    return NULL;
}

/* ---- after the death of a pinner ---- */

struct sweep {
    struct upkeep *upkeep;
    uint32_t generation;
    uint64_t posted;
};

static bool sweep_item(const struct item *item, void *data)
{
    struct sweep *sweep = data;
    struct worker *worker = sweep->upkeep->worker;
    struct shared *shared = worker->shared;
    AUTO_FREE char *path = NULL;

    if (!(item->places & ITEM_IN_DRAM) ||
        item->serial != atomic_load(&shared->serial))
        return true;
    if (inodes_path_known(worker->inodes, item->id, &path) != 0)
        return true;
    struct admission_key key = {
        .id = item->id,
        .extent = item->extent,
        .length = item->length,
        .file_offset = item->extent * shared->config.item_bytes,
        .path = path,
        .pinned = true,
    };
    /* Also waits while the item is in a buffer of its own. */
    while (!admission_post(cache_admission(worker->cache), TASK_REPIN, &key)) {
        if (atomic_load(&sweep->upkeep->stopping) || shared_is_closed(shared) ||
            atomic_load(&shared->pinner_generation) != sweep->generation)
            return false;
        admission_wait_free(cache_admission(worker->cache), BUFFER_WAIT_MS);
    }
    sweep->posted++;
    return true;
}

/* A disk that took no writes is tried again. */
static void heal_index(struct upkeep *upkeep)
{
    struct shared *shared = upkeep->worker->shared;
    struct index *index = upkeep->worker->index;
    uint64_t now = clock_now_ms();

    if (index_is_degraded(index) && now - upkeep->healed_ms >= HEAL_MS) {
        upkeep->healed_ms = now;
        int err = index_heal(index);
        if (err != 0)
            log_debug("the index stays in memory: %s", strerror(-err));
    }
    atomic_store(&shared->index_degraded, index_is_degraded(index));
}

static void *sweeper_main(void *data)
{
    struct upkeep *upkeep = data;
    struct shared *shared = upkeep->worker->shared;

    pthread_setname_np(pthread_self(), "sweeper");
    while (!atomic_load(&upkeep->stopping)) {
        uint32_t seen = event_read(&shared->worker_event);
        uint32_t generation = atomic_load(&shared->pinner_generation);
        heal_index(upkeep);
        if (generation == atomic_load(&shared->swept_generation) &&
            !atomic_exchange(&shared->sweep_again, 0)) {
            event_wait(&shared->worker_event, seen, TICK_MS * 5);
            continue;
        }
        /* A worker that dies in the middle leaves it to the next. */
        atomic_store(&shared->swept_generation, 0);
        struct sweep sweep = {.upkeep = upkeep, .generation = generation};
        int err = generation > 1 ? index_each_item(upkeep->worker->index, 0,
                                                   sweep_item, &sweep)
                                 : 0;
        if (err == 0 && atomic_load(&shared->pinner_generation) == generation)
            atomic_store(&shared->swept_generation, generation);
        log_debug("%llu pins handed to pinner %u",
                  (unsigned long long)sweep.posted, generation);
    }
    return NULL;
}

int upkeep_start(struct upkeep *upkeep)
{
    int err = pthread_create(&upkeep->keeper, NULL, keeper_main, upkeep);
    if (err == 0)
        err = pthread_create(&upkeep->sweeper, NULL, sweeper_main, upkeep);
    return -err;
}

void upkeep_stop(struct upkeep *upkeep)
{
    atomic_store(&upkeep->stopping, true);
    pthread_mutex_lock(&upkeep->lock);
    pthread_cond_broadcast(&upkeep->work);
    pthread_mutex_unlock(&upkeep->lock);
    event_signal(&upkeep->worker->shared->worker_event);
    pthread_join(upkeep->keeper, NULL);
    pthread_join(upkeep->sweeper, NULL);
}
