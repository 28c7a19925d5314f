/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/admission_area.h"

#include "util/clock.h"

enum { WAITERS = 10 };

static void an_item_goes_its_way(void **state)
{
    struct shared_buffer *buffer = must_load(7, 5000), *found;

    (void)state;
    assert_int_equal(atomic_load(&buffer->state), BUFFER_LOADING);
    assert_int_equal(buffer->id, 7);
    assert_int_equal(buffer->extent, 3);
    assert_int_equal(buffer->length, 5000);
    assert_int_equal(buffer->file_offset, 3ULL * ITEM);
    assert_int_equal(buffer->version, 42);
    assert_int_equal(buffer->task, TASK_PIN);
    assert_int_equal(buffer->accounted, 0);
    assert_string_equal(shared_buffer_path(area, buffer), "some/file");
    assert_int_equal((uintptr_t)shared_buffer_bytes(area, buffer) % 4096, 0);
    memset(shared_buffer_bytes(area, buffer), 'x', 8192); /* whole pages */
    assert_string_equal(shared_buffer_path(area, buffer), "some/file");
    assert_int_equal(fake_tier_reserved(&tier), 5000);

    uint32_t seen = event_read(&area->pinner_event);
    admission_finish(admission, buffer, 0);
    assert_int_not_equal(event_read(&area->pinner_event), seen);
    assert_int_equal(atomic_load(&buffer->state), BUFFER_LOADED);
    assert_int_equal(atomic_load(&buffer->users), 1);
    assert_int_equal(begin_item(7, 5000, &found), ADMISSION_READY);
    assert_ptr_equal(found, buffer);
    assert_int_equal(atomic_load(&buffer->users), 2);
    admission_put(admission, buffer);
    admission_put(admission, buffer);
    pin_and_retire(buffer, true);
    assert_int_equal(tier.commits, 1);
    assert_int_equal(tier.committed_bytes, 5000);
    assert_int_equal(fake_tier_reserved(&tier), 0);
    assert_all_free();
}

static void a_user_keeps_a_retired_buffer(void **state)
{
    struct shared_buffer *buffer = must_load(7, 5000), *other;

    (void)state;
    admission_finish(admission, buffer, 0);
    pin_and_retire(buffer, true);
    assert_int_not_equal(atomic_load(&buffer->state), BUFFER_FREE);
    /* its item can go its way anew meanwhile */
    assert_int_equal(admission_find(admission, 7, 3, 42, &other),
                     ADMISSION_BUSY);
    other = must_load(7, 5000);
    assert_ptr_not_equal(other, buffer);
    admission_finish(admission, other, -5);
    admission_put(admission, buffer);
    assert_int_equal(atomic_load(&buffer->state), BUFFER_FREE);
    assert_all_free();
}

static void a_failed_load_leaves_nothing(void **state)
{
    struct shared_buffer *buffer = must_load(7, 5000);

    (void)state;
    admission_finish(admission, buffer, -5);
    assert_int_equal(fake_tier_reserved(&tier), 0);
    assert_int_equal(tier.aborts, 1);
    assert_int_equal(admission_find(admission, 7, 3, 42, &buffer),
                     ADMISSION_BUSY);
    assert_all_free();
}

static void a_refused_item_gives_its_room_back(void **state)
{
    struct shared_buffer *buffer = must_load(7, 5000);

    (void)state;
    admission_finish(admission, buffer, 0);
    admission_put(admission, buffer);
    pin_and_retire(buffer, false);
    assert_int_equal(fake_tier_reserved(&tier), 0);
    assert_int_equal(tier.commits, 0);
    assert_all_free();
}

static void a_cached_item_reserves_nothing(void **state)
{
    struct admission_key key = key_of(7, 5000);
    struct shared_buffer *buffer;

    (void)state;
    key.pinned = true;
    tier.capacity_bytes = 0;
    for (int pinned = 0; pinned < 2; pinned++) {
        assert_int_equal(admission_begin(admission, &key, NULL, &buffer),
                         ADMISSION_LOAD);
        assert_int_equal(buffer->accounted, 1);
        admission_finish(admission, buffer, 0);
        admission_put(admission, buffer);
        pin_and_retire(buffer, pinned);
    }
    assert_int_equal(admission_begin(admission, &key, NULL, &buffer),
                     ADMISSION_LOAD);
    admission_finish(admission, buffer, -5);
    assert_int_equal(tier.reservations + tier.aborts + tier.commits, 0);
    tier.capacity_bytes = UINT64_MAX / 2;
    assert_all_free();
}

static void waiters_are_woken_when_the_load_ends(void **state)
{
    static const int ends[] = {0, -5};
    struct admission_waiter waiters[WAITERS];
    struct admission_key key = key_of(7, 5000);

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct shared_buffer *buffer = must_load(7, 5000), *none = NULL;
        atomic_store(&woken, 0);
        for (int j = 0; j < WAITERS; j++)
            assert_int_equal(
                admission_begin(admission, &key, &waiters[j], &none),
                ADMISSION_WAIT);
        assert_null(none);
        assert_int_equal(begin_item(7, 5000, &none), ADMISSION_BUSY);
        assert_int_equal(admission_find(admission, 7, 3, 42, &none),
                         ADMISSION_BUSY);
        assert_int_equal(atomic_load(&woken), 0);
        admission_finish(admission, buffer, ends[i]);
        assert_int_equal(atomic_load(&woken), WAITERS);
        assert_in_range((uintptr_t)last_woken, (uintptr_t)waiters,
                        (uintptr_t)(waiters + WAITERS - 1));
        if (ends[i] == 0) {
            admission_put(admission, buffer);
            pin_and_retire(buffer, false);
        }
    }
    assert_all_free();
}

static void items_are_told_apart(void **state)
{
    struct shared_buffer *buffers[3], *found;
    struct admission_key key = key_of(7, 100);

    (void)state;
    buffers[0] = must_load(7, 100);
    buffers[1] = must_load(8, 100);
    key.extent = 4;
    assert_int_equal(admission_begin(admission, &key, NULL, &buffers[2]),
                     ADMISSION_LOAD);
    for (int i = 0; i < 3; i++)
        admission_finish(admission, buffers[i], 0);
    assert_int_equal(admission_find(admission, 7, 4, 42, &found),
                     ADMISSION_READY);
    assert_ptr_equal(found, buffers[2]);
    admission_put(admission, found);
    assert_int_equal(admission_find(admission, 7, 5, 42, &found),
                     ADMISSION_BUSY);
    for (int i = 0; i < 3; i++) {
        admission_put(admission, buffers[i]);
        pin_and_retire(buffers[i], false);
    }
    assert_all_free();
}

static void another_version_is_busy(void **state)
{
    struct shared_buffer *buffer = must_load(7, 5000), *found = NULL;
    struct admission_waiter waiter;
    struct admission_key key = key_of(7, 5000);

    (void)state;
    key.version = 43;
    assert_int_equal(admission_begin(admission, &key, &waiter, &found),
                     ADMISSION_BUSY);
    admission_finish(admission, buffer, 0);
    assert_int_equal(admission_begin(admission, &key, &waiter, &found),
                     ADMISSION_BUSY);
    assert_int_equal(admission_find(admission, 7, 3, 43, &found),
                     ADMISSION_BUSY);
    assert_null(found);
    assert_int_equal(atomic_load(&woken), 0);
    admission_put(admission, buffer);
    pin_and_retire(buffer, true);
    assert_int_equal(admission_begin(admission, &key, &waiter, &found),
                     ADMISSION_LOAD);
    assert_int_equal(found->version, 43);
    admission_finish(admission, found, -5);
    assert_all_free();
}

static void a_full_tier_is_told(void **state)
{
    struct shared_buffer *buffer, *other;

    (void)state;
    tier.capacity_bytes = 9999;
    buffer = must_load(7, 5000);
    assert_int_equal(begin_item(8, 5000, &other), ADMISSION_FULL);
    assert_null(other);
    other = must_load(8, 4999);
    admission_finish(admission, other, -5);
    admission_finish(admission, buffer, -5);
    buffer = must_load(8, 5000);
    admission_finish(admission, buffer, -5);
    tier.capacity_bytes = UINT64_MAX / 2;
    assert_all_free();
}

static void all_buffers_can_be_used_and_no_more(void **state)
{
    static struct shared_buffer *buffers[SHARED_BUFFERS];
    struct shared_buffer *none;
    struct admission_key key = key_of(1, 0);

    (void)state;
    for (int i = 0; i < SHARED_BUFFERS; i++)
        buffers[i] = must_load((uint64_t)i + 1, 100);
    assert_int_equal(begin_item(5000, 100, &none), ADMISSION_BUSY);
    assert_false(admission_post(admission, TASK_RELEASE, &key));
    assert_int_equal(fake_tier_reserved(&tier), SHARED_BUFFERS * 100);
    for (int i = 0; i < SHARED_BUFFERS; i++)
        admission_finish(admission, buffers[i], -5);
    assert_int_equal(fake_tier_reserved(&tier), 0);
    assert_all_free();
}

static void a_full_pool_is_busy(void **state)
{
    struct shared_buffer *buffers[64], *none;
    size_t count = 0;

    (void)state;
    while (begin_item(count + 1, ITEM, &buffers[count]) == ADMISSION_LOAD)
        count++;
    assert_in_range(count, 4, 63);
    assert_int_equal(begin_item(5000, ITEM, &none), ADMISSION_BUSY);
    assert_int_equal(fake_tier_reserved(&tier), count * ITEM);
    for (size_t i = 0; i < count; i++)
        admission_finish(admission, buffers[i], -5);
    assert_all_free();
}

static void tasks_without_bytes_are_posted(void **state)
{
    struct admission_key key = key_of(7, ITEM);
    struct shared_buffer *collected[8], *found;

    (void)state;
    uint32_t seen = event_read(&area->pinner_event);
    assert_true(admission_post(admission, TASK_REPIN, &key));
    assert_int_not_equal(event_read(&area->pinner_event), seen);
    assert_int_equal(count_state(BUFFER_LOADED), 1);
    /* one for an item at a time */
    assert_false(admission_post(admission, TASK_REPIN, &key));
    assert_int_equal(begin_item(7, ITEM, &found), ADMISSION_BUSY);
    assert_int_equal(admission_find(admission, 7, 3, 42, &found),
                     ADMISSION_BUSY);
    /* but releases as often as need be */
    assert_true(admission_post(admission, TASK_RELEASE, &key));
    assert_true(admission_post(admission, TASK_RELEASE, &key));
    assert_int_equal(admission_collect(admission, collected, 8), 0);
    for (int i = 0; i < SHARED_BUFFERS; i++) {
        struct shared_buffer *buffer = &shared_buffers(area)[i];
        if (atomic_load(&buffer->state) == BUFFER_FREE)
            continue;
        assert_string_equal(shared_buffer_path(area, buffer), "some/file");
        atomic_store(&buffer->state, BUFFER_PINNED);
    }
    assert_int_equal(admission_collect(admission, collected, 2), 2);
    assert_int_equal(admission_collect(admission, collected + 2, 8), 1);
    for (int i = 0; i < 3; i++)
        admission_retire(admission, collected[i], true);
    assert_int_equal(tier.reservations + tier.aborts, 0);
    assert_all_free();
}

static void the_reader_is_given_time(void **state)
{
    (void)state;
    admission_destroy(admission);
    make_admission(60000);
    assert_true(admission_oldest(admission) == UINT64_MAX);
    uint64_t before = clock_now_ns();
    struct shared_buffer *buffer = must_load(7, 100);
    assert_true(admission_oldest(admission) == UINT64_MAX);
    admission_finish(admission, buffer, 0);
    assert_in_range(buffer->ready_ns, before + 60000000000ull,
                    admission_pin_deadline(admission));
    assert_int_equal(admission_oldest(admission), buffer->ready_ns);
    struct shared_buffer *second = must_load(8, 100);
    admission_finish(admission, second, 0);
    assert_int_equal(admission_oldest(admission), buffer->ready_ns);
    admission_put(admission, buffer);
    pin_and_retire(buffer, true);
    assert_int_equal(admission_oldest(admission), second->ready_ns);
    pin_and_retire(second, true);
    assert_true(admission_oldest(admission) == UINT64_MAX);
    admission_put(admission, second);
    assert_all_free();
}

static void waiting_for_a_buffer_ends(void **state)
{
    (void)state;
    admission_wait_free(admission, 0);
    admission_wait_free(admission, 20);
    assert_all_free();
}

static void an_answer_can_be_asked_for_again(void **state)
{
    struct shared_buffer *buffer = must_load(7, 5000), *collected[8];

    (void)state;
    admission_finish(admission, buffer, 0);
    admission_put(admission, buffer);
    atomic_store(&buffer->state, BUFFER_PINNED);
    assert_int_equal(admission_collect(admission, collected, 8), 1);
    uint32_t seen = event_read(&area->pinner_event);
    admission_repost(admission, buffer);
    assert_int_not_equal(event_read(&area->pinner_event), seen);
    assert_int_equal(atomic_load(&buffer->state), BUFFER_LOADED);
    assert_int_equal(fake_tier_reserved(&tier), 5000);
    assert_int_equal(admission_collect(admission, collected, 8), 0);
    pin_and_retire(buffer, true);
    assert_all_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        admission_test(an_item_goes_its_way),
        admission_test(a_user_keeps_a_retired_buffer),
        admission_test(a_failed_load_leaves_nothing),
        admission_test(a_refused_item_gives_its_room_back),
        admission_test(a_cached_item_reserves_nothing),
        admission_test(waiters_are_woken_when_the_load_ends),
        admission_test(items_are_told_apart),
        admission_test(another_version_is_busy),
        admission_test(a_full_tier_is_told),
        admission_test(all_buffers_can_be_used_and_no_more),
        admission_test(a_full_pool_is_busy),
        admission_test(tasks_without_bytes_are_posted),
        admission_test(the_reader_is_given_time),
        admission_test(waiting_for_a_buffer_ends),
        admission_test(an_answer_can_be_asked_for_again),
    };
    return cmocka_run_group_tests(tests, group_begin, group_end);
}
