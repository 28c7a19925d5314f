/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/segments.h"

#include <errno.h>
#include <stdatomic.h>

#include "tests/fakes/fake_mount.h"
#include "tests/unit/test_main.h"

#define MIB ((uint64_t)1 << 20)

static struct fake_mount mount;
static struct segments *segments;

static void open_segments(uint64_t capacity)
{
    mount.shared->nvme_capacity_bytes = capacity;
    assert_int_equal(
        segments_create(mount.shared, mount.index, mount.folder_fd, &segments),
        0);
    segments_want(segments);
    segments_tend(segments);
}

static void reopen(uint64_t capacity)
{
    segments_destroy(segments);
    open_segments(capacity);
}

static int begin(void **state)
{
    watch_begin(state);
    fake_mount_open(&mount);
    mount.shared->config.free_space = 0;
    open_segments(4 * MIB);
    return 0;
}

static int end(void **state)
{
    segments_destroy(segments);
    fake_mount_close(&mount);
    return watch_end(state);
}

/* Takes room for an item and records it, as writer and committer do. */
static struct item store(uint64_t id, uint32_t length)
{
    struct tier_place place;
    struct index_batch *batch = index_batch_create();
    int err = segments_take(segments, segments_cost(length), &place);

    if (err == -EAGAIN) {
        segments_tend(segments);
        err = segments_take(segments, segments_cost(length), &place);
    }
    assert_int_equal(err, 0);
    struct item item = {.id = id,
                        .places = ITEM_ON_NVME,
                        .length = length,
                        .segment = place.segment,
                        .segment_offset = place.offset};
    segments_add(segments, batch, &item);
    index_batch_item(batch, &item, NULL);
    assert_int_equal(index_batch_commit(mount.index, batch), 0);
    segments_settle(segments, place.segment);
    return item;
}

static void drop(const struct item *item)
{
    struct index_batch *batch = index_batch_create();

    segments_remove(segments, batch, item);
    index_batch_drop_item(batch, item->id, item->extent);
    assert_int_equal(index_batch_commit(mount.index, batch), 0);
}

static void assert_account(uint64_t used, uint64_t bytes, uint64_t items)
{
    assert_int_equal(atomic_load(&mount.shared->nvme.used_bytes), used);
    assert_int_equal(atomic_load(&mount.shared->nvme.item_bytes), bytes);
    assert_int_equal(atomic_load(&mount.shared->nvme.items), items);
}

static void sizes_follow_the_capacity(void **state)
{
    static const struct {
        const char *name;
        uint64_t capacity, item, left, size;
    } cases[] = {
        {"an eighth", 800 * MIB, MIB, 800 * MIB, 100 * MIB},
        {"at least 1 MiB", MIB, 4096, MIB, MIB},
        {"at most 1 GiB", 100 * 1024 * MIB, MIB, 100 * 1024 * MIB, 1024 * MIB},
        {"room for an item", 8 * MIB, 4 * MIB, 8 * MIB, 4 * MIB},
        {"what is left", 800 * MIB, MIB, 30 * MIB, 30 * MIB},
        {"whole blocks", 800 * MIB, MIB, 30 * MIB + 5000, 30 * MIB + 4096},
        {"a rest is left alone", 800 * MIB, MIB, 65535, 0},
        {"none", 0, MIB, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (segments_size(cases[i].capacity, cases[i].item, cases[i].left) !=
            cases[i].size)
            fail_msg("%s", cases[i].name);
    assert_int_equal(segments_cost(1), 4096);
    assert_int_equal(segments_cost(4096), 4096);
    assert_int_equal(segments_cost(4097), 8192);
}

static void items_lie_one_behind_the_other(void **state)
{
    struct item a = store(1, 100), b = store(2, 5000), c = store(3, 4096);

    (void)state;
    assert_int_equal(a.segment, b.segment);
    assert_int_equal(a.segment_offset, 0);
    assert_int_equal(b.segment_offset, 4096);
    assert_int_equal(c.segment_offset, 12288);
    assert_account(16384, 9196, 3);
    assert_true(segments_has(segments, &a));
    a.segment = 77;
    assert_false(segments_has(segments, &a));
}

static void what_is_given_back_is_used_again(void **state)
{
    struct tier_place first, second, third;

    (void)state;
    assert_int_equal(segments_take(segments, 8192, &first), 0);
    assert_int_equal(segments_take(segments, 8192, &second), 0);
    segments_give(segments, 8192, &second);
    assert_int_equal(segments_take(segments, 4096, &third), 0);
    assert_int_equal(third.offset, second.offset);
    /* Before the end it stays empty. */
    segments_give(segments, 8192, &first);
    assert_int_equal(segments_take(segments, 4096, &first), 0);
    assert_int_equal(first.offset, third.offset + 4096);
}

static void the_capacity_is_the_limit(void **state)
{
    struct tier_place place;
    uint64_t id = 1;

    (void)state;
    while (segments_take(segments, 256 << 10, &place) != -ENOSPC) {
        segments_tend(segments);
        assert_true(id++ < 100);
    }
    assert_true(atomic_load(&mount.shared->nvme_disk_bytes) <= 4 * MIB);
    assert_true(atomic_load(&mount.shared->nvme.used_bytes) >= 3 * MIB);
    assert_int_equal(atomic_load(&mount.shared->nvme_limit),
                     NVME_LIMIT_CAPACITY);
}

static void all_is_there_after_a_restart(void **state)
{
    struct item a = store(1, 100000), b = store(2, 5000);

    (void)state;
    reopen(4 * MIB);
    assert_true(segments_has(segments, &a));
    assert_true(segments_has(segments, &b));
    assert_account(102400 + 8192, 105000, 2);
    struct item c = store(3, 1);
    assert_true(c.segment != b.segment || c.segment_offset >= 102400 + 8192);
}

static void places_of_the_dead_are_claimed(void **state)
{
    struct tier_place place, next;

    (void)state;
    store(1, 5000);
    assert_int_equal(segments_take(segments, 4096, &place), 0);
    reopen(4 * MIB);
    assert_true(segments_claim(segments, 4096, &place));
    assert_int_equal(segments_take(segments, 4096, &next), 0);
    assert_true(next.segment != place.segment || next.offset > place.offset);
    place.segment = 1000;
    assert_false(segments_claim(segments, 4096, &place));
}

static void an_empty_segment_goes(void **state)
{
    struct item a = store(1, 100000);

    (void)state;
    drop(&a);
    segments_tend(segments);
    assert_false(segments_has(segments, &a));
    assert_account(0, 0, 0);
    struct item b = store(1, 100000);
    assert_int_not_equal(a.segment, b.segment);
    assert_false(segments_has(segments, &a));
}

static void a_smaller_budget_keeps_the_oldest(void **state)
{
    struct item first = store(1, 900 << 10), last = first;

    (void)state;
    for (uint64_t id = 2; id < 4; id++)
        last = store(id, 900 << 10);
    assert_int_not_equal(first.segment, last.segment);
    reopen(MIB);
    assert_true(segments_has(segments, &first));
    assert_false(segments_has(segments, &last));
    reopen(0);
    assert_false(segments_has(segments, &first));
    assert_account(0, 0, 0);
}

static void a_lost_file_costs_its_items(void **state)
{
    struct item a = store(1, 100000);

    (void)state;
    expect_log(LOG_LEVEL_WARN, "is lost");
    segments_destroy(segments);
    segment_remove(mount.folder_fd, a.segment);
    open_segments(4 * MIB);
    assert_false(segments_has(segments, &a));
    assert_account(0, 0, 0);
}

/* An index in memory may know nothing of what is on the disk. */
static void a_file_is_never_written_over(void **state)
{
    struct segment_file file;
    struct tier_place place;

    (void)state;
    assert_int_equal(segment_create(mount.folder_fd, 0x20, MIB, &file), 0);
    assert_int_equal(segment_create(mount.folder_fd, 0x20, MIB, &file),
                     -EEXIST);
    reopen(4 * MIB);
    assert_int_equal(segments_take(segments, MIB, &place), 0);
    store(1, MIB);
    assert_true(faccessat(mount.folder_fd, "segments/00000021", F_OK, 0) == 0);
}

static void readers_keep_a_file_that_goes(void **state)
{
    char buffer[4096] __attribute__((aligned(4096)));
    struct item a = store(1, 100);
    struct segment_file *file = segments_use(segments, a.segment);

    (void)state;
    assert_non_null(file);
    assert_int_equal(segments_clear(segments), 0);
    segments_tend(segments);
    assert_null(segments_use(segments, a.segment));
    assert_int_equal(segment_read(file, buffer, 4096, 0), 0);
    segments_unuse(segments, a.segment);
    segments_tend(segments);
}

#define segments_test(function)                                                \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_the_capacity),
        segments_test(items_lie_one_behind_the_other),
        segments_test(what_is_given_back_is_used_again),
        segments_test(the_capacity_is_the_limit),
        segments_test(all_is_there_after_a_restart),
        segments_test(places_of_the_dead_are_claimed),
        segments_test(an_empty_segment_goes),
        segments_test(a_smaller_budget_keeps_the_oldest),
        segments_test(a_lost_file_costs_its_items),
        segments_test(a_file_is_never_written_over),
        segments_test(readers_keep_a_file_that_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
