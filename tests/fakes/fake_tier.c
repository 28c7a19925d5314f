/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/fake_tier.h"

#include <assert.h>
#include <errno.h>

static int fake_reserve(struct tier *tier, uint64_t length,
                        struct tier_place *place)
{
    struct fake_tier *fake = (struct fake_tier *)tier;
    SCOPED_LOCK(&fake->lock);

    if (fake->reserved_bytes + fake->committed_bytes + length >
        fake->capacity_bytes)
        return -ENOSPC;
    *place = (struct tier_place){fake->segment, fake->reserved_bytes};
    fake->reserved_bytes += length;
    fake->reservations++;
    return 0;
}

static bool fake_restore(struct tier *tier, uint64_t length,
                         const struct tier_place *place)
{
    struct fake_tier *fake = (struct fake_tier *)tier;
    SCOPED_LOCK(&fake->lock);

    fake->reserved_bytes += length;
    fake->restored++;
    fake->restored_segment = place->segment;
    return !fake->refuses_restore;
}

static void fake_abort(struct tier *tier, uint64_t length,
                       const struct tier_place *place)
{
    (void)place;
    struct fake_tier *fake = (struct fake_tier *)tier;
    SCOPED_LOCK(&fake->lock);

    assert(fake->reserved_bytes >= length);
    fake->reserved_bytes -= length;
    fake->aborts++;
}

static void fake_commit(struct tier *tier, struct shared_buffer *buffer)
{
    struct fake_tier *fake = (struct fake_tier *)tier;
    SCOPED_LOCK(&fake->lock);

    assert(fake->reserved_bytes >= buffer->length && !buffer->accounted);
    fake->reserved_bytes -= buffer->length;
    fake->committed_bytes += buffer->length;
    fake->commits++;
    buffer->accounted = 1;
}

static void fake_drop(struct tier *tier, const struct item *item)
{
    struct fake_tier *fake = (struct fake_tier *)tier;
    SCOPED_LOCK(&fake->lock);

    assert(fake->committed_bytes >= item->length);
    fake->committed_bytes -= item->length;
}

static const struct tier_ops fake_ops = {
    .name = "fake",
    .reserve = fake_reserve,
    .restore = fake_restore,
    .abort = fake_abort,
    .commit = fake_commit,
    .drop = fake_drop,
};

void fake_tier_init(struct fake_tier *tier, uint64_t capacity_bytes)
{
    *tier = (struct fake_tier){
        .tier.ops = &fake_ops,
        .capacity_bytes = capacity_bytes,
    };
    pthread_mutex_init(&tier->lock, NULL);
}

uint64_t fake_tier_reserved(struct fake_tier *tier)
{
    SCOPED_LOCK(&tier->lock);
    return tier->reserved_bytes;
}
