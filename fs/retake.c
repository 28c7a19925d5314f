/* SPDX-License-Identifier: Apache-2.0 */
/* One thread, in the background: before each item it lets readers go first. A
 * reader that goes on all the time brings in by itself what it reads; so this
 * only goes on slowly then.
 *
 * Items on NVMe are copied to DRAM only when every item is in a tier: else the
 * copies would take the place of those that are in none. */
#include "fs/retake.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "fs/upkeep.h"
#include "util/clock.h"
#include "util/log.h"

enum {
    QUIET_MS = 20, /* without a READ: nobody is reading */
    PATIENCE_MS = 1000,
};

struct walk {
    struct worker *worker;
    bool stored; /* those on NVMe; else those that were pinned */
    uint64_t taken;
    uint64_t reads; /* of others, when we last looked */
};

static void let_readers_go(struct walk *walk)
{
    struct worker *worker = walk->worker;
    uint64_t until = clock_now_ms() + PATIENCE_MS;
    uint64_t now = atomic_load(&worker->reads);

    while (now != walk->reads && clock_now_ms() < until) {
        walk->reads = now;
        clock_sleep_ns(QUIET_MS * 1000000ull);
        now = atomic_load(&worker->reads);
    }
    walk->reads = now;
}

static bool is_wanted(const struct walk *walk, const struct item *item)
{
    struct worker *worker = walk->worker;
    uint32_t places = cache_places(worker->cache, item);

    if (places & ITEM_IN_DRAM)
        return false;
    return walk->stored ? (places & ITEM_ON_NVME) != 0
                        : (item->places & ITEM_IN_DRAM) != 0;
}

/* Copies are worth less than what is in no tier yet: only when all that is
 * known of the dataset is cached. */
static bool may_copy(struct shared *shared)
{
    uint64_t cached = atomic_load(&shared->nvme.items) +
                      atomic_load(&shared->dram.items) -
                      atomic_load(&shared->dram.copies);

    return cached >= atomic_load(&shared->metrics.known_items) &&
           !atomic_load(&shared->dram_refused) &&
           atomic_load(&shared->nvme_limit) == NVME_LIMIT_NONE;
}

static bool take(const struct item *item, void *data)
{
    struct walk *walk = data;
    struct worker *worker = walk->worker;
    struct shared *shared = worker->shared;

    if (shared_is_closed(shared) ||
        atomic_load(&shared->state) == SHARED_STOPPING)
        return false;
    if (!is_wanted(walk, item))
        return true;
    if (walk->stored && !may_copy(shared))
        return false;
    let_readers_go(walk);
    /* Changed since the last mount: its items go. */
    struct node node;
    if (inodes_refresh(worker->inodes, item->id, &node) != 0 ||
        node_version(&node) != item->version)
        return true;
    int err = upkeep_load(worker, item->id, item->extent, true);
    walk->taken += err == 0;
    if (err != 0 && err != -ENOSPC)
        log_debug("item %016llx/%u is not taken again: %s",
                  (unsigned long long)item->id, item->extent, strerror(-err));
    return err != -ECANCELED;
}

/* Until what was loaded by now counts as cached. */
static void wait_for_pins(struct worker *worker)
{
    struct admission *admission = cache_admission(worker->cache);
    uint64_t until = admission_pin_deadline(admission);

    while (!shared_is_closed(worker->shared) &&
           admission_oldest(admission) <= until)
        admission_wait_free(admission, PATIENCE_MS);
}

static void *retake_main(void *data)
{
    struct worker *worker = data;
    struct shared *shared = worker->shared;

    pthread_setname_np(pthread_self(), "retake");
    for (int stored = 0; stored < 2; stored++) {
        struct walk walk = {.worker = worker, .stored = stored};
        int err = index_each_item(worker->index, 0, take, &walk);
        if (walk.taken > 0)
            log_info("%llu items %s are on their way into memory",
                     (unsigned long long)walk.taken,
                     stored ? "from the disk" : "that were pinned before");
        if (err != 0)
            return NULL;
        wait_for_pins(worker);
    }
    atomic_store(&shared->retaken, 1);
    return NULL;
}

int retake_start(struct worker *worker)
{
    struct shared *shared = worker->shared;
    pthread_t thread;

    if (atomic_load(&shared->retaken) || shared->capacity_bytes == 0)
        return 0;
    int err = pthread_create(&thread, NULL, retake_main, worker);
    if (err == 0)
        pthread_detach(thread);
    return -err;
}
