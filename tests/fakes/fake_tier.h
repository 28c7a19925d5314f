/* SPDX-License-Identifier: Apache-2.0 */
/* A tier that keeps nothing but count: what is reserved, committed and given
 * back, by bytes of items. Callable from every thread. */
#ifndef FAKES_FAKE_TIER_H
#define FAKES_FAKE_TIER_H

#include "cache/tier.h"

struct fake_tier {
    struct tier tier;
    uint64_t capacity_bytes;
    uint32_t segment; /* of the places that it gives */
    bool refuses_restore;

    pthread_mutex_t lock;
    /* guarded by lock: */
    uint64_t reserved_bytes;
    uint64_t committed_bytes;
    unsigned reservations; /* calls that were granted */
    unsigned restored;
    uint32_t restored_segment;
    unsigned aborts;
    unsigned commits;
};

void fake_tier_init(struct fake_tier *tier, uint64_t capacity_bytes);

/* What is reserved and not yet committed or given back. */
uint64_t fake_tier_reserved(struct fake_tier *tier);

#endif
