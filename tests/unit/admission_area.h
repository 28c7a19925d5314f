/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of admission share: an area, a fake tier, an admission over
 * them that is made anew for each test, and the pinner's part, played by hand.
 */
#ifndef ADMISSION_AREA_H
#define ADMISSION_AREA_H

#include "tests/unit/test_main.h"

#include <assert.h>
#include <stdatomic.h>

#include "cache/admission.h"
#include "tests/fakes/fake_tier.h"

enum { ITEM = 4 << 20 };

static struct config config = {.item_bytes = ITEM};
static struct shared *area;
static int area_fd;
static struct fake_tier tier;
static struct fake_tier nvme_tier;
static struct admission *admission;
static _Atomic int woken;
static struct admission_waiter *last_woken;

static inline void wake(struct admission_waiter *waiter, void *data)
{
    assert(data == &woken);
    last_woken = waiter;
    atomic_fetch_add(&woken, 1);
}

static inline void make_admission(unsigned pin_delay_ms)
{
    admission = admission_create(area, &tier.tier, &nvme_tier.tier,
                                 pin_delay_ms, wake, &woken);
    assert_non_null(admission);
}

/* As the death of the worker and the start of another. */
static inline void new_admission(void)
{
    admission_destroy(admission);
    fake_tier_init(&tier, UINT64_MAX / 2);
    fake_tier_init(&nvme_tier, 0);
    make_admission(0);
}

static inline int begin(void **state)
{
    watch_begin(state);
    memset(shared_buffers(area), 0,
           SHARED_BUFFERS * sizeof(struct shared_buffer));
    fake_tier_init(&tier, UINT64_MAX / 2);
    fake_tier_init(&nvme_tier, 0);
    atomic_store(&woken, 0);
    make_admission(0);
    return 0;
}

static inline int end(void **state)
{
    admission_destroy(admission);
    return watch_end(state);
}

static inline int group_begin(void **state)
{
    (void)state;
    return shared_create(&config, 1, &area_fd, &area);
}

static inline int group_end(void **state)
{
    (void)state;
    shared_detach(area);
    close(area_fd);
    return 0;
}

static inline struct admission_key key_of(uint64_t id, uint32_t length)
{
    return (struct admission_key){
        .id = id,
        .extent = 3,
        .length = length,
        .file_offset = 3ULL * ITEM,
        .version = 42,
        .path = "some/file",
    };
}

static inline enum admission_outcome begin_item(uint64_t id, uint32_t length,
                                                struct shared_buffer **buffer)
{
    struct admission_key key = key_of(id, length);

    *buffer = NULL;
    return admission_begin(admission, &key, NULL, buffer);
}

static inline struct shared_buffer *must_load(uint64_t id, uint32_t length)
{
    struct shared_buffer *buffer;

    assert_int_equal(begin_item(id, length, &buffer), ADMISSION_LOAD);
    return buffer;
}

static inline size_t count_state(enum buffer_state wanted)
{
    size_t found = 0;

    for (int i = 0; i < SHARED_BUFFERS; i++)
        found += atomic_load(&shared_buffers(area)[i].state) == wanted;
    return found;
}

/* Everything is free, and the pool is one run again. */
static inline void assert_all_free(void)
{
    uint64_t reserved = fake_tier_reserved(&tier);

    assert_int_equal(count_state(BUFFER_FREE), SHARED_BUFFERS);
    struct shared_buffer *all =
        must_load(1000000, (uint32_t)area->pool_bytes - 2 * SHARED_PAGE);
    admission_finish(admission, all, -5);
    assert_int_equal(count_state(BUFFER_FREE), SHARED_BUFFERS);
    assert_int_equal(fake_tier_reserved(&tier), reserved);
}

/* The pinner's answer, and what the committer does with it. */
static inline void pin_and_retire(struct shared_buffer *buffer, bool pinned)
{
    struct shared_buffer *collected[8];

    atomic_store(&buffer->state, pinned ? BUFFER_PINNED : BUFFER_REFUSED);
    assert_int_equal(admission_collect(admission, collected, 8), 1);
    assert_ptr_equal(collected[0], buffer);
    assert_int_equal(admission_collect(admission, collected, 8), 0);
    if (pinned && !buffer->accounted)
        tier.tier.ops->commit(&tier.tier, buffer);
    admission_retire(admission, buffer, pinned);
}

#define admission_test(function)                                               \
    cmocka_unit_test_setup_teardown(function, begin, end)

#endif
