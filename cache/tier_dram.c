/* SPDX-License-Identifier: Apache-2.0 */
/* The DRAM tier: its pages are the kernel's and its locks are the pinner's;
 * what is kept here is the account.
 *
 * The account outlives the worker. So that a death between "the account has
 * the item" and "the buffer says so" does not count an item twice, the next
 * values of the account are written down as an intent first; applying them
 * again changes nothing. */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>

#include "cache/minio.h"
#include "cache/tier.h"

struct tier_dram {
    struct tier tier;
    struct shared *shared;

    pthread_mutex_t lock;
    /* guarded by lock, as are the account and the intent: */
    uint64_t reserved_bytes;
};

static struct tier_dram *dram_of(struct tier *tier)
{
    return (struct tier_dram *)tier;
}

static void apply_intent(struct shared *shared)
{
    struct shared_intent *intent = &shared->intent;

    if (!atomic_load(&intent->valid))
        return;
    atomic_store(&shared->dram.used_bytes, intent->used_bytes);
    atomic_store(&shared->dram.item_bytes, intent->item_bytes);
    atomic_store(&shared->dram.items, intent->items);
    atomic_store(&shared->dram.copies, intent->copies);
    if (intent->buffer < SHARED_BUFFERS)
        shared_buffers(shared)[intent->buffer].accounted = 1;
    atomic_store(&intent->valid, 0);
}

/* What an item adds to the account. */
struct change {
    uint64_t cost;
    uint64_t length;
    bool is_copy;
};

static uint64_t changed(const _Atomic uint64_t *value, uint64_t by, bool add)
{
    uint64_t now = atomic_load(value);

    return add ? now + by : now - by;
}

/* Writes the intent and applies it; buffer may be NULL. */
static void change_account_locked(struct shared *shared,
                                  const struct change *change, bool add,
                                  const struct shared_buffer *buffer)
{
    struct shared_account *account = &shared->dram;
    struct shared_intent *intent = &shared->intent;

    intent->used_bytes = changed(&account->used_bytes, change->cost, add);
    intent->item_bytes = changed(&account->item_bytes, change->length, add);
    intent->items = changed(&account->items, 1, add);
    intent->copies = changed(&account->copies, change->is_copy, add);
    intent->buffer = buffer ? (uint32_t)(buffer - shared_buffers(shared))
                            : (uint32_t)SHARED_BUFFERS;
    atomic_store(&intent->valid, 1);
    apply_intent(shared);
}

static int dram_reserve(struct tier *tier, uint64_t length,
                        struct tier_place *place)
{
    (void)place;
    struct tier_dram *dram = dram_of(tier);
    struct shared *shared = dram->shared;
    uint64_t cost = minio_dram_cost(length);
    SCOPED_LOCK(&dram->lock);
    struct minio_budget budget = {
        .capacity_bytes = shared->capacity_bytes,
        .used_bytes = atomic_load(&shared->dram.used_bytes),
        .reserved_bytes = dram->reserved_bytes,
    };

    if (atomic_load(&shared->map_exhausted) || shared_is_closed(shared) ||
        !minio_admits(&budget, cost)) {
        atomic_store(&shared->dram_refused, 1);
        return -ENOSPC;
    }
    dram->reserved_bytes += cost;
    return 0;
}

static bool dram_restore(struct tier *tier, uint64_t length,
                         const struct tier_place *place)
{
    (void)place;
    struct tier_dram *dram = dram_of(tier);
    SCOPED_LOCK(&dram->lock);

    dram->reserved_bytes += minio_dram_cost(length);
    return true;
}

static void dram_abort(struct tier *tier, uint64_t length,
                       const struct tier_place *place)
{
    (void)place;
    struct tier_dram *dram = dram_of(tier);
    SCOPED_LOCK(&dram->lock);

    assert(dram->reserved_bytes >= minio_dram_cost(length));
    dram->reserved_bytes -= minio_dram_cost(length);
}

static void dram_record(struct tier *tier, struct index_batch *batch,
                        const struct shared_buffer *buffer, struct item *item)
{
    (void)batch;
    (void)buffer;
    item->places |= ITEM_IN_DRAM;
    item->serial = atomic_load(&dram_of(tier)->shared->serial);
}

static void dram_commit(struct tier *tier, struct shared_buffer *buffer)
{
    struct tier_dram *dram = dram_of(tier);
    struct change change = {minio_dram_cost(buffer->length), buffer->length,
                            buffer->is_copy};
    SCOPED_LOCK(&dram->lock);

    assert(dram->reserved_bytes >= change.cost);
    dram->reserved_bytes -= change.cost;
    change_account_locked(dram->shared, &change, true, buffer);
}

static void dram_forget(struct tier *tier, struct index_batch *batch,
                        const struct item *item)
{
    (void)tier;
    (void)batch;
    (void)item;
}

static void dram_drop(struct tier *tier, const struct item *item)
{
    struct tier_dram *dram = dram_of(tier);
    struct shared_account *account = &dram->shared->dram;
    struct change change = {minio_dram_cost(item->length), item->length,
                            (item->places & ITEM_ON_NVME) &&
                                atomic_load(&account->copies) > 0};
    SCOPED_LOCK(&dram->lock);

    if (atomic_load(&account->items) == 0 ||
        atomic_load(&account->used_bytes) < change.cost ||
        atomic_load(&account->item_bytes) < change.length)
        return; /* was not counted */
    change_account_locked(dram->shared, &change, false, NULL);
    atomic_store(&dram->shared->dram_refused, 0);
}

static bool dram_has(struct tier *tier, const struct item *item)
{
    return (item->places & ITEM_IN_DRAM) &&
           item->serial == atomic_load(&dram_of(tier)->shared->serial);
}

static void dram_destroy(struct tier *tier)
{
    pthread_mutex_destroy(&dram_of(tier)->lock);
    free(tier);
}

static const struct tier_ops dram_ops = {
    .name = "dram",
    .reserve = dram_reserve,
    .restore = dram_restore,
    .abort = dram_abort,
    .record = dram_record,
    .commit = dram_commit,
    .forget = dram_forget,
    .drop = dram_drop,
    .has = dram_has,
    .destroy = dram_destroy,
};

struct tier *tier_dram_create(struct shared *shared)
{
    struct tier_dram *dram = calloc(1, sizeof(*dram));

    if (!dram)
        return NULL;
    dram->tier.ops = &dram_ops;
    dram->shared = shared;
    pthread_mutex_init(&dram->lock, NULL);
    apply_intent(shared);
    return &dram->tier;
}
