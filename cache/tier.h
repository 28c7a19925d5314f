/* SPDX-License-Identifier: Apache-2.0 */
/* Where items are kept. Room is reserved before an item is loaded, and then
 * either committed or aborted, so that a tier never holds more than its budget.
 *
 * An item's record and what a tier keeps in the index are written as one batch:
 * record before it, commit after it; likewise forget and drop when an item
 * goes. These four are called by one thread at a time (the cache's
 * forget_lock), the others by every thread. No call waits for a disk but read.
 */
#ifndef CACHE_TIER_H
#define CACHE_TIER_H

#include <stddef.h>
#include <stdint.h>

#include "cache/index.h"
#include "util/shared.h"

struct tier;

/* A place in a segment, of tiers that have segments. */
struct tier_place {
    uint32_t segment;
    uint64_t offset;
};

struct tier_ops {
    const char *name;
    /* Takes room for an item of length bytes: 0; -ENOSPC when the policy
     * refuses it; -EAGAIN when room is being made. */
    int (*reserve)(struct tier *tier, uint64_t length,
                   struct tier_place *place);
    /* Takes room that a predecessor had reserved; false: it cannot have it. */
    bool (*restore)(struct tier *tier, uint64_t length,
                    const struct tier_place *place);
    /* Gives the room of a reservation back. */
    void (*abort)(struct tier *tier, uint64_t length,
                  const struct tier_place *place);
    /* Says in the record where the item is; adds what the tier keeps. */
    void (*record)(struct tier *tier, struct index_batch *batch,
                   const struct shared_buffer *buffer, struct item *item);
    /* Turns a reservation into a cached item, exactly once for a buffer, also
     * when the process dies in between. */
    void (*commit)(struct tier *tier, struct shared_buffer *buffer);
    /* The item's record is about to go; adds what the tier keeps. */
    void (*forget)(struct tier *tier, struct index_batch *batch,
                   const struct item *item);
    /* Takes the item out of the account. */
    void (*drop)(struct tier *tier, const struct item *item);
    /* Whether an item with that record is here. */
    bool (*has)(struct tier *tier, const struct item *item);
    /* Reads whole chunks around a range of the item into buffer, which has room
     * for length and two chunks, and verifies them; the range begins at *start
     * of it. -EBADMSG: not the bytes of the checksums. NULL where the kernel
     * itself serves the item. */
    int (*read)(struct tier *tier, const struct item *item,
                const struct item_sums *sums, uint64_t offset, size_t length,
                char *buffer, size_t *start);
    void (*destroy)(struct tier *tier);
};

struct tier {
    const struct tier_ops *ops;
};

/* The kernel's page cache, pinned. The account lies in shared; reservations
 * are those of the buffers on their way, which the caller reserves again after
 * a restart. */
struct tier *tier_dram_create(struct shared *shared);

/* Segment files below folder_fd (the dataset's cache folder), and a thread that
 * writes TASK_STORE buffers to them. Drops the newest segments when there are
 * more than the budget allows. NULL without memory. With a budget of 0 it only
 * drops what is there, and takes nothing. */
struct tier *tier_nvme_create(struct shared *shared, struct index *index,
                              int folder_fd);
int tier_nvme_start(struct tier *tier) MUST_CHECK;
void tier_nvme_stop(struct tier *tier);

/* Removes all segments; their items' records no longer count. */
int tier_nvme_clear(struct tier *tier) MUST_CHECK;

#endif
