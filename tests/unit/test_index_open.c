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

int main(void)
{
    const struct CMUnitTest tests[] = {
        index_test(a_successor_opens_what_there_is),
        index_test(a_successor_may_find_no_folder),
        index_test(an_older_format_is_started_anew),
        index_test(only_the_newest_aside_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
