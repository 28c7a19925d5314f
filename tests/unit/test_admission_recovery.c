/* SPDX-License-Identifier: Apache-2.0 */
/* Admission after the death of a worker, and under many threads. */
#include "tests/unit/admission_area.h"

#include "tests/fakes/fake_pinner.h"
#include "util/hash.h"

enum { THREADS = 4, ROUNDS = 3000, HAMMER_IDS = 40, HAMMER_BYTES = 20000 };

/* ---- taking over ---- */

static void loads_of_the_dead_are_dropped(void **state)
{
    (void)state;
    for (uint64_t i = 1; i < 5; i++)
        must_load(i, 5000);
    new_admission();
    assert_int_equal(fake_tier_reserved(&tier), 0);
    assert_all_free();
}

/* States in which the pinner, or its answer, may be. */
static void what_was_loaded_goes_on(void **state)
{
    static const enum buffer_state states[] = {BUFFER_LOADED, BUFFER_PINNING,
                                               BUFFER_PINNED, BUFFER_REFUSED};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct shared_buffer *buffer = must_load(7, 5000), *found;
        admission_finish(admission, buffer, 0); /* its user dies */
        atomic_store(&buffer->state, states[i]);
        new_admission();
        assert_int_equal(atomic_load(&buffer->state), states[i]);
        assert_int_equal(atomic_load(&buffer->users), 0);
        assert_int_equal(fake_tier_reserved(&tier), 5000);
        assert_int_equal(begin_item(7, 5000, &found), ADMISSION_READY);
        assert_ptr_equal(found, buffer);
        admission_put(admission, found);
        pin_and_retire(buffer, states[i] != BUFFER_REFUSED);
        assert_int_equal(tier.commits, states[i] != BUFFER_REFUSED);
        assert_int_equal(fake_tier_reserved(&tier), 0);
        assert_all_free();
    }
}

/* Room that was granted once is not asked for again, however full it is. */
static void what_was_loaded_goes_on_when_all_is_full(void **state)
{
    struct shared_buffer *buffer = must_load(7, 5000);

    (void)state;
    admission_finish(admission, buffer, 0);
    admission_destroy(admission);
    fake_tier_init(&tier, 0);
    make_admission(0);
    assert_int_equal(atomic_load(&buffer->state), BUFFER_LOADED);
    assert_int_equal(tier.restored, 1);
    assert_int_equal(fake_tier_reserved(&tier), 5000);
    pin_and_retire(buffer, true);
    tier.capacity_bytes = UINT64_MAX / 2;
    assert_all_free();
}

/* The predecessor died between the account and the end of the buffer. */
static void what_is_accounted_is_not_reserved_again(void **state)
{
    struct shared_buffer *buffer = must_load(7, 5000);

    (void)state;
    admission_finish(admission, buffer, 0);
    atomic_store(&buffer->state, BUFFER_PINNED);
    buffer->accounted = 1;
    new_admission();
    assert_int_equal(fake_tier_reserved(&tier), 0);
    pin_and_retire(buffer, true);
    assert_int_equal(tier.reservations + tier.commits + tier.aborts, 0);
    assert_all_free();
}

static void posted_tasks_are_taken_over(void **state)
{
    struct admission_key key = key_of(7, ITEM);
    struct shared_buffer *collected[8], *none;

    (void)state;
    assert_true(admission_post(admission, TASK_REPIN, &key));
    assert_true(admission_post(admission, TASK_RELEASE, &key));
    new_admission();
    assert_int_equal(count_state(BUFFER_LOADED), 2);
    assert_int_equal(fake_tier_reserved(&tier), 0);
    assert_int_equal(begin_item(7, ITEM, &none), ADMISSION_BUSY);
    for (int i = 0; i < SHARED_BUFFERS; i++)
        if (atomic_load(&shared_buffers(area)[i].state) == BUFFER_LOADED)
            atomic_store(&shared_buffers(area)[i].state, BUFFER_PINNED);
    assert_int_equal(admission_collect(admission, collected, 8), 2);
    for (int i = 0; i < 2; i++)
        admission_retire(admission, collected[i], true);
    assert_all_free();
}

/* What the area says may be rubbish: nothing of it is used, nothing is lost. */
static void runs_that_cannot_be_are_dropped(void **state)
{
    struct shared_buffer *buffer;

    (void)state;
    for (int i = 0; i < 6; i++) {
        buffer = must_load(7, 5000);
        struct shared_buffer *twin = must_load(8, 5000);
        admission_finish(admission, buffer, 0);
        admission_finish(admission, twin, 0);
        if (i == 0)
            twin->pool_offset = buffer->pool_offset; /* claimed by both */
        else if (i == 1)
            twin->pool_offset += 1;
        else if (i == 2)
            twin->pool_offset = UINT64_MAX - 4095;
        else if (i == 3)
            twin->run_bytes = UINT32_MAX;
        else if (i == 4)
            twin->run_bytes = 0;
        else
            twin->length = UINT32_MAX;
        new_admission();
        assert_int_equal(count_state(BUFFER_LOADED), 1);
        assert_int_equal(fake_tier_reserved(&tier), 5000);
        for (int j = 0; j < SHARED_BUFFERS; j++)
            if (atomic_load(&shared_buffers(area)[j].state) == BUFFER_LOADED)
                pin_and_retire(&shared_buffers(area)[j], true);
        assert_all_free();
    }
}

/* ---- threads ---- */

static _Atomic bool hammering;
static _Atomic unsigned damaged, loading[HAMMER_IDS];

static void use(struct shared_buffer *buffer, uint64_t id)
{
    const char *bytes = shared_buffer_bytes(area, buffer);

    if (buffer->id != id || bytes[0] != (char)id ||
        memcmp(bytes, bytes + 1, buffer->length - 1) != 0)
        atomic_fetch_add(&damaged, 1);
}

static void load(struct shared_buffer *buffer, uint64_t id, unsigned random)
{
    char *bytes = shared_buffer_bytes(area, buffer);

    if (atomic_fetch_add(&loading[id - 1], 1) != 0)
        atomic_fetch_add(&damaged, 1);
    memset(bytes, (int)id, buffer->length);
    buffer->checksum = hash_bytes(bytes, buffer->length);
    atomic_fetch_sub(&loading[id - 1], 1);
    if (random % 7 == 0) {
        admission_finish(admission, buffer, -5);
        return;
    }
    admission_finish(admission, buffer, 0);
    use(buffer, id);
    admission_put(admission, buffer);
}

static void *hammer(void *data)
{
    unsigned random = *(unsigned *)data;
    struct shared_buffer *buffer;

    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525u + 1013904223u;
        uint64_t id = 1 + (random >> 8) % HAMMER_IDS;
        switch (begin_item(id, 1000 + (random >> 16) % HAMMER_BYTES, &buffer)) {
        case ADMISSION_LOAD:
            load(buffer, id, random >> 4);
            break;
        case ADMISSION_READY:
            use(buffer, id);
            admission_put(admission, buffer);
            break;
        default:
            sched_yield();
        }
    }
    return NULL;
}

/* The committer; the pins are let go of at once. */
static void *commit(void *data)
{
    struct shared_buffer *collected[16];

    while (atomic_load(&hammering) ||
           count_state(BUFFER_FREE) != SHARED_BUFFERS) {
        size_t count = admission_collect(admission, collected, 16);
        for (size_t i = 0; i < count; i++) {
            uint32_t length = collected[i]->length;
            bool pinned = atomic_load(&collected[i]->state) == BUFFER_PINNED;
            if (pinned)
                tier.tier.ops->commit(&tier.tier, collected[i]);
            admission_retire(admission, collected[i], pinned);
            if (pinned)
                tier.tier.ops->drop(&tier.tier,
                                    &(struct item){.length = length});
        }
        if (count == 0)
            admission_wait_free(admission, 1);
    }
    return data;
}

static void threads_load_each_item_once_at_a_time(void **state)
{
    static struct fake_pinner pinner;
    pthread_t threads[THREADS], committer;
    unsigned seeds[THREADS];

    (void)state;
    tier.capacity_bytes = HAMMER_IDS * HAMMER_BYTES / 2;
    atomic_store(&hammering, true);
    fake_pinner_start(&pinner, area);
    assert_int_equal(pthread_create(&committer, NULL, commit, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = i * 77;
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &seeds[i]),
                         0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&hammering, false);
    pthread_join(committer, NULL);
    fake_pinner_stop(&pinner);
    assert_int_equal(atomic_load(&damaged), 0);
    assert_int_equal(atomic_load(&pinner.damage), 0);
    assert_true(tier.commits > 0);
    assert_int_equal(tier.reserved_bytes + tier.committed_bytes, 0);
    tier.capacity_bytes = UINT64_MAX / 2;
    assert_all_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        admission_test(loads_of_the_dead_are_dropped),
        admission_test(what_was_loaded_goes_on),
        admission_test(what_was_loaded_goes_on_when_all_is_full),
        admission_test(what_is_accounted_is_not_reserved_again),
        admission_test(posted_tasks_are_taken_over),
        admission_test(runs_that_cannot_be_are_dropped),
        admission_test(threads_load_each_item_once_at_a_time),
    };
    return cmocka_run_group_tests(tests, group_begin, group_end);
}
