/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/index_area.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static void put_item(uint64_t id, uint32_t extent, uint32_t length)
{
    struct index_batch *batch = index_batch_create();
    struct item item = {.id = id, .extent = extent, .length = length};
    struct item_sums sums = {.count = 2, .sum = {id, length}};

    index_batch_item(batch, &item, &sums);
    assert_int_equal(index_batch_commit(idx, batch), 0);
}

static void drop_item(uint64_t id, uint32_t extent)
{
    struct index_batch *batch = index_batch_create();

    index_batch_drop_item(batch, id, extent);
    assert_int_equal(index_batch_commit(idx, batch), 0);
}

static void put_segment(uint32_t number, uint64_t bytes)
{
    struct index_batch *batch = index_batch_create();
    struct segment segment = {.number = number, .bytes = bytes};

    index_batch_segment(batch, &segment);
    index_batch_number(batch, "next", number + 1);
    assert_int_equal(index_batch_commit(idx, batch), 0);
}

static void drop_segment(uint32_t number)
{
    struct index_batch *batch = index_batch_create();

    index_batch_drop_segment(batch, number);
    assert_int_equal(index_batch_commit(idx, batch), 0);
}

/* Entries from first on; their names tell of which listing they are. */
static void put_entries(uint64_t directory, uint64_t first, uint64_t count,
                        const char *of)
{
    struct index_batch *batch = index_batch_create();

    for (uint64_t i = first; i < first + count; i++) {
        struct listing_entry entry = {.id = i, .type = DT_REG};
        snprintf(entry.name, sizeof(entry.name), "%s", of);
        index_batch_entry(batch, directory, i, &entry);
    }
    assert_int_equal(index_batch_commit(idx, batch), 0);
}

static void put_head(uint64_t directory, uint64_t count)
{
    struct index_batch *batch = index_batch_create();
    struct listing_head head = {.serial = 1, .count = count};

    index_batch_head(batch, directory, &head);
    assert_int_equal(index_batch_commit(idx, batch), 0);
}

static void put_listing(uint64_t directory, uint64_t count, const char *of)
{
    assert_int_equal(index_drop_listing(idx, directory), 0);
    put_entries(directory, 0, count, of);
    put_head(directory, count);
}

struct entries {
    uint64_t next;
    const char *of;
    bool wrong;
};

static bool visit_entry(uint64_t ordinal, const struct listing_entry *entry,
                        void *data)
{
    struct entries *entries = data;

    entries->wrong |=
        ordinal != entries->next || strcmp(entry->name, entries->of) != 0;
    entries->next++;
    return true;
}

static void assert_entries(uint64_t directory, uint64_t count, const char *of)
{
    struct entries entries = {.of = of};

    assert_int_equal(index_each_entry(idx, directory, 0, visit_entry, &entries),
                     0);
    assert_int_equal(entries.next, count);
    assert_false(entries.wrong);
}

/* -1: there is no listing. */
static void assert_listing(uint64_t directory, int64_t count, const char *of)
{
    struct listing_head head;
    int err = index_get_listing(idx, directory, &head);

    assert_int_equal(err, count < 0 ? -ENOENT : 0);
    if (count >= 0)
        assert_int_equal(head.count, count);
    assert_entries(directory, count < 0 ? 0 : (uint64_t)count, of);
}

static bool visit_item(const struct item *item, void *data)
{
    (void)data;
    return meet(item->id * 10 + item->extent, item->length);
}

static bool visit_segment(const struct segment *segment, void *data)
{
    (void)data;
    return meet(segment->number, segment->bytes);
}

static void assert_items(uint64_t id, const char *wanted)
{
    met[0] = '\0';
    assert_int_equal(index_each_item(idx, id, visit_item, NULL), 0);
    assert_string_equal(met, wanted);
}

static void assert_segments(const char *wanted)
{
    met[0] = '\0';
    assert_int_equal(index_each_segment(idx, visit_segment, NULL), 0);
    assert_string_equal(met, wanted);
}

static void records_of_both_are_one_index(void **state)
{
    (void)state;
    for (uint64_t id = 2; id <= 4; id++) {
        put_node(id, 1);
        put_item(id, 0, 1);
        put_item(id, 1, 1);
        put_segment((uint32_t)id, 1);
    }
    put_listing(10, 5, "old");
    put_listing(11, 5, "old");
    put_listing(12, 5, "old");
    assert_false(index_is_degraded(idx));
    assert_int_equal(index_heal(idx), 0); /* there is nothing to do */

    break_disk();
    put_node(3, 2);
    assert_true(index_is_degraded(idx));
    put_node(1, 2);
    put_node(5, 2);
    put_item(3, 1, 2);
    put_item(3, 2, 2);
    put_item(5, 0, 2);
    drop_item(2, 0);
    drop_item(4, 1);
    drop_item(9, 9);
    put_segment(3, 2);
    put_segment(5, 2);
    drop_segment(2);
    put_listing(11, 3, "new");
    put_listing(12, 7, "new");
    put_listing(13, 2, "new");
    for (int round = 0; round < 3; round++) {
        struct item item;
        struct item_sums sums;
        assert_nodes("1:2 2:1 3:2 4:1 5:2 ");
        assert_node(3, 2);
        assert_node(4, 1);
        assert_node(6, -1);
        assert_items(0, "21:1 30:1 31:2 32:2 40:1 50:2 ");
        assert_items(3, "30:1 31:2 32:2 ");
        assert_items(9, "");
        assert_int_equal(index_get_item(idx, 2, 0, &item), -ENOENT);
        assert_int_equal(index_get_item_sums(idx, 3, 1, &item, &sums), 0);
        assert_int_equal(sums.count, 2);
        assert_int_equal(sums.sum[1], 2);
        assert_segments("3:2 4:1 5:2 ");
        assert_number("next", 6);
        assert_listing(10, 5, "old");
        assert_listing(11, 3, "new");
        assert_listing(12, 7, "new");
        assert_listing(13, 2, "new");
        if (round == 0) {
            mend_disk();
        } else {
            close_index();
            open_index();
        }
    }
}

static void a_dropped_listing_has_no_entries(void **state)
{
    (void)state;
    put_listing(10, 5, "old");
    put_listing(11, 5, "old");
    break_disk();
    assert_int_equal(index_drop_listing(idx, 10), 0);
    for (int round = 0; round < 2; round++) {
        assert_listing(10, -1, "");
        assert_listing(11, 5, "old");
        if (round == 0)
            mend_disk();
    }
}

/* Its first entries were written before, its last ones and its head after the
 * disk was mended. */
static void a_listing_may_be_in_the_making_when_the_disk_is_mended(void **state)
{
    (void)state;
    put_listing(10, 9, "old");
    break_disk();
    assert_int_equal(index_drop_listing(idx, 10), 0);
    put_entries(10, 0, 3, "new");
    mend_disk();
    put_entries(10, 3, 2, "new");
    put_head(10, 5);
    assert_listing(10, 5, "new");
    close_index();
    open_index();
    assert_listing(10, 5, "new");
}

/* The same, as it breaks. */
static void a_listing_may_be_in_the_making_when_the_disk_fails(void **state)
{
    (void)state;
    put_listing(10, 9, "old");
    assert_int_equal(index_drop_listing(idx, 10), 0);
    put_entries(10, 0, 3, "new");
    break_disk();
    put_entries(10, 3, 2, "new");
    put_head(10, 5);
    assert_listing(10, 5, "new");
    mend_disk();
    assert_listing(10, 5, "new");
    close_index();
    open_index();
    assert_listing(10, 5, "new");
}

static void the_disk_may_be_away_for_long(void **state)
{
    char away[PATH_MAX + 32];

    (void)state;
    snprintf(away, sizeof(away), "%s/away", folder);
    put_node(2, 1);
    break_disk();
    put_node(3, 1);
    limit_files(RLIM_INFINITY);
    assert_int_equal(rename(index_folder, away), 0);
    for (int i = 0; i < 3; i++) {
        assert_true(index_heal(idx) < 0);
        assert_true(index_is_degraded(idx));
        assert_node(2, 1);
        assert_node(3, 1);
    }
    assert_int_equal(rename(away, index_folder), 0);
    mend_disk();
    assert_nodes("2:1 3:1 ");
    close_index();
    open_index();
    assert_nodes("2:1 3:1 ");
}

/* For what begins anew on the disk must not be taken for an older one. */
static void a_disk_that_has_lost_everything_is_begun_anew(void **state)
{
    bool damaged;

    (void)state;
    put_node(2, 1);
    close_index();
    temp_folder_remove(index_folder);
    break_disk();
    assert_int_equal(index_open(index_folder, false, &idx, &damaged), 0);
    assert_true(index_is_degraded(idx));
    assert_nodes("");
    put_node(3, 1);
    assert_int_equal(index_put_number(idx, "serial", 7), 0);
    mend_disk();
    close_index();
    open_index();
    assert_nodes("3:1 ");
    assert_number("serial", 7);
}

static void it_fails_again_and_again(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 3; i++) {
        put_node(i * 2, 1);
        break_disk();
        put_node(i * 2 + 1, 1);
        assert_true(index_heal(idx) < 0);
        assert_true(index_is_degraded(idx));
        mend_disk();
    }
    assert_nodes("2:1 3:1 4:1 5:1 6:1 7:1 ");
}

/* Of the same record again and again only the last one takes memory. */
static void memory_is_bounded_by_what_is_there(void **state)
{
    enum { SUMS_BYTES = ITEM_CHUNKS * 8, BYTES = 300 << 20 };
    struct item item = {.id = 2, .length = 1};
    struct item_sums sums = {.count = ITEM_CHUNKS};
    int err = 0;

    (void)state;
    break_disk();
    for (size_t i = 0; i < BYTES / SUMS_BYTES / 64 && err == 0; i++) {
        struct index_batch *batch = index_batch_create();
        for (uint32_t n = 0; n < 64; n++) {
            item.extent = n;
            index_batch_item(batch, &item, &sums);
        }
        err = index_batch_commit(idx, batch);
    }
    assert_int_equal(err, 0);
    mend_disk();
}

static bool visit_counted_item(const struct item *item, void *data)
{
    (void)item;
    ++*(uint64_t *)data;
    return true;
}

static void memory_is_used_up_at_some_time(void **state)
{
    enum { PER_BATCH = 64, MOST = 400 << 20 };
    struct item item = {.id = 2, .length = 1};
    struct item_sums sums = {.count = ITEM_CHUNKS};
    uint64_t kept = 0, found = 0;
    int err = 0;

    (void)state;
    break_disk();
    expect_log(LOG_LEVEL_WARN, "memory for records is used up");
    for (int tries = 0; tries < 3 && kept * sizeof(sums) < MOST;) {
        struct index_batch *batch = index_batch_create();
        for (size_t i = 0; i < PER_BATCH; i++, item.extent++) {
            for (size_t n = 0; n < ITEM_CHUNKS; n++)
                sums.sum[n] = (uint64_t)random() << 32 | (uint64_t)random();
            index_batch_item(batch, &item, &sums);
        }
        err = index_batch_commit(idx, batch);
        kept += err == 0 ? PER_BATCH : 0;
        tries += err != 0;
    }
    assert_int_equal(err, -ENOMEM);
    assert_true(kept * sizeof(sums) > 200 << 20);
    mend_disk();
    assert_int_equal(index_each_item(idx, 2, visit_counted_item, &found), 0);
    assert_int_equal(found, kept);
}

/* ---- threads ---- */

enum { WRITERS = 2, READERS = 2, SWITCHES = 12 };

static _Atomic bool stopping;
static _Atomic uint64_t written[WRITERS];
static _Atomic unsigned wrong;

/* Its node's size never goes back. */
static void *write_on(void *data)
{
    size_t which = (size_t)(uintptr_t)data;
    struct node node = {.id = which + 100, .parent = 1};

    while (!atomic_load(&stopping)) {
        node.size++;
        if (index_put_node(idx, &node) != 0)
            atomic_fetch_add(&wrong, 1);
        atomic_store(&written[which], node.size);
    }
    return NULL;
}

static bool visit_counted(const struct node *node, void *data)
{
    (void)node;
    ++*(uint64_t *)data;
    return true;
}

static void *read_on(void *data)
{
    (void)data;
    while (!atomic_load(&stopping))
        for (size_t i = 0; i < WRITERS; i++) {
            uint64_t least = atomic_load(&written[i]), count = 0;
            struct node node;
            if (least == 0)
                continue;
            if (index_get_node(idx, i + 100, &node) != 0 || node.size < least ||
                index_each_node(idx, visit_counted, &count) != 0 || count == 0)
                atomic_fetch_add(&wrong, 1);
        }
    return NULL;
}

static void threads_see_one_index(void **state)
{
    pthread_t threads[WRITERS + READERS];

    (void)state;
    atomic_store(&stopping, false);
    for (size_t i = 0; i < WRITERS + READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < WRITERS ? write_on : read_on,
                                        (void *)(uintptr_t)i),
                         0);
    for (int i = 0; i < SWITCHES; i++) {
        expect_log(LOG_LEVEL_WARN, "the cache directory cannot be written");
        limit_files(0);
        while (!index_is_degraded(idx))
            usleep(1000);
        usleep(20000);
        limit_files(RLIM_INFINITY);
        while (index_heal(idx) != 0)
            usleep(1000);
        usleep(20000);
    }
    atomic_store(&stopping, true);
    for (size_t i = 0; i < WRITERS + READERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
    close_index();
    open_index();
    for (size_t i = 0; i < WRITERS; i++)
        assert_node(i + 100, (int64_t)atomic_load(&written[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        index_test(records_of_both_are_one_index),
        index_test(a_dropped_listing_has_no_entries),
        index_test(a_listing_may_be_in_the_making_when_the_disk_is_mended),
        index_test(a_listing_may_be_in_the_making_when_the_disk_fails),
        index_test(the_disk_may_be_away_for_long),
        index_test(a_disk_that_has_lost_everything_is_begun_anew),
        index_test(it_fails_again_and_again),
        index_test(memory_is_bounded_by_what_is_there),
        index_test(memory_is_used_up_at_some_time),
        index_test(threads_see_one_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
