/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/index_area.h"

#include <sys/stat.h>
#include <unistd.h>

static void a_successor_opens_what_there_is(void **state)
{
    bool damaged = true;

    (void)state;
    put_node(2, 1);
    close_index();
    limit_files(0);
    expect_log(LOG_LEVEL_ERROR, "index: open: ");
    assert_true(index_open(index_folder, true, &idx, &damaged) < 0);
    assert_false(damaged);
    assert_null(idx);
    break_disk();
    assert_int_equal(index_open(index_folder, false, &idx, &damaged), 0);
    assert_false(damaged);
    assert_true(index_is_degraded(idx));
    assert_node(2, 1);
    put_node(3, 1);
    assert_nodes("2:1 3:1 ");
    mend_disk();
    close_index();
    open_index();
    assert_nodes("2:1 3:1 ");
}

static void a_successor_may_find_no_folder(void **state)
{
    bool damaged;

    (void)state;
    close_index();
    temp_folder_remove(folder);
    expect_log(LOG_LEVEL_WARN, "the cache directory cannot be written");
    assert_int_equal(index_open(index_folder, false, &idx, &damaged), 0);
    assert_true(index_is_degraded(idx));
    assert_nodes("");
    put_node(3, 1);
    assert_true(index_heal(idx) < 0);
    assert_nodes("3:1 ");
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(index_heal(idx), 0);
    assert_false(index_is_degraded(idx));
    close_index();
    open_index();
    assert_nodes("3:1 ");
}

static void an_older_format_is_started_anew(void **state)
{
    (void)state;
    for (uint64_t format = 0; format < INDEX_FORMAT; format++) {
        put_node(2, 1);
        assert_int_equal(index_put_number(idx, "serial", 5), 0);
        assert_int_equal(index_put_number(idx, "format", format), 0);
        close_index();
        open_index();
        assert_nodes("");
        assert_number("format", INDEX_FORMAT);
    }
    put_node(2, 1);
    close_index();
    open_index();
    assert_nodes("2:1 ");
}

static void only_the_newest_aside_stays(void **state)
{
    char path[PATH_MAX + 64];
    bool damaged;

    (void)state;
    /* of somebody else, by a similar name */
    temp_folder_write(folder, "index.damaged.notes", "mine", 4);
    for (int i = 1; i <= 12; i++) {
        put_node(2, 1);
        close_index();
        temp_folder_write(index_folder, "CURRENT", "", 0);
        expect_log(LOG_LEVEL_WARN, "moved aside");
        assert_int_equal(index_open(index_folder, true, &idx, &damaged), 0);
        assert_true(damaged);
        for (int k = 1; k <= i; k++) {
            snprintf(path, sizeof(path), "%s.damaged.%d", index_folder, k);
            assert_int_equal(access(path, F_OK), k == i ? 0 : -1);
        }
    }
    snprintf(path, sizeof(path), "%s.damaged.notes", index_folder);
    assert_int_equal(access(path, F_OK), 0);
}

static bool count_one(const struct item *item, void *data)
{
    (void)item;
    ++*(int *)data;
    return true;
}

static bool count_segment(const struct segment *segment, void *data)
{
    (void)segment;
    ++*(int *)data;
    return true;
}

static void put_item_and_segment(void)
{
    struct index_batch *batch = index_batch_create();
    struct item item = {.id = UINT64_MAX, .extent = UINT32_MAX - 1};
    struct segment segment = {.number = UINT32_MAX - 1};

    assert_non_null(batch);
    index_batch_item(batch, &item, NULL);
    item = (struct item){.id = 0, .extent = 0};
    index_batch_item(batch, &item, NULL);
    index_batch_segment(batch, &segment);
    assert_int_equal(index_batch_commit(idx, batch), 0);
}

static void assert_cached(int items, int segments)
{
    int found_items = 0, found_segments = 0;

    assert_int_equal(index_each_item(idx, 0, count_one, &found_items), 0);
    assert_int_equal(index_each_segment(idx, count_segment, &found_segments),
                     0);
    assert_int_equal(found_items, items);
    assert_int_equal(found_segments, segments);
}

static void items_of_another_length_go(void **state)
{
    struct node file = {.id = 7, .mode = S_IFREG, .size = 10000};
    bool dropped = true;

    (void)state;
    assert_int_equal(index_put_node(idx, &file), 0);
    assert_int_equal(index_set_item_bytes(idx, 4096, &dropped), 0);
    assert_false(dropped); /* there were none */
    assert_number("known_items", 3);
    put_item_and_segment();
    assert_int_equal(index_set_item_bytes(idx, 4096, &dropped), 0);
    assert_false(dropped);
    assert_cached(2, 1);
    assert_int_equal(index_set_item_bytes(idx, 8192, &dropped), 0);
    assert_true(dropped);
    assert_cached(0, 0);
    assert_number("known_items", 2);
    assert_number("item_bytes", 8192);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        index_test(a_successor_opens_what_there_is),
        index_test(a_successor_may_find_no_folder),
        index_test(an_older_format_is_started_anew),
        index_test(only_the_newest_aside_stays),
        index_test(items_of_another_length_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
