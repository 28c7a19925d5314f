/* SPDX-License-Identifier: Apache-2.0 */
/* A child that is killed while it writes is this program, executed again with
 * the index's folder as its argument: RocksDB does not survive a fork. */
#include "tests/unit/test_main.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "cache/index.h"
#include "tests/fakes/temp_folder.h"

enum { KILLS = 3, ENTRIES = 5000 };

static char folder[PATH_MAX];
static char index_folder[PATH_MAX + 16];
static struct index *idx;

/* The version byte that values get, in place of their own; 0: their own. */
static char forged_version;

/* Stand before RocksDB's functions of these names. */
void rocksdb_writebatch_put_cf(void *batch, void *family, const char *key,
                               size_t key_bytes, const char *value,
                               size_t bytes);
void rocksdb_put_cf(void *db, const void *options, void *family,
                    const char *key, size_t key_bytes, const char *value,
                    size_t bytes, char **error);

static void forge(char *copy, const char *value, size_t bytes)
{
    memcpy(copy, value, bytes);
    if (forged_version != 0)
        copy[0] = forged_version;
}

void rocksdb_writebatch_put_cf(void *batch, void *family, const char *key,
                               size_t key_bytes, const char *value,
                               size_t bytes)
{
    void (*real)(void *, void *, const char *, size_t, const char *, size_t) =
        dlsym(RTLD_NEXT, "rocksdb_writebatch_put_cf");
    char copy[NODE_PACKED_BYTES];

    forge(copy, value, bytes);
    real(batch, family, key, key_bytes, copy, bytes);
}

void rocksdb_put_cf(void *db, const void *options, void *family,
                    const char *key, size_t key_bytes, const char *value,
                    size_t bytes, char **error)
{
    void (*real)(void *, const void *, void *, const char *, size_t,
                 const char *, size_t, char **) =
        dlsym(RTLD_NEXT, "rocksdb_put_cf");
    char copy[NODE_PACKED_BYTES];

    forge(copy, value, bytes);
    real(db, options, family, key, key_bytes, copy, bytes, error);
}

static void open_index(bool damaged_expected)
{
    bool damaged = !damaged_expected;

    assert_int_equal(index_open(index_folder, true, &idx, &damaged), 0);
    assert_int_equal(damaged, damaged_expected);
}

static void reopen(void)
{
    index_close(idx);
    open_index(false);
}

static int begin(void **state)
{
    watch_begin(state);
    forged_version = 0;
    temp_folder_make(NULL, folder);
    snprintf(index_folder, sizeof(index_folder), "%s/index", folder);
    open_index(false);
    return 0;
}

static int end(void **state)
{
    if (idx)
        index_close(idx);
    idx = NULL;
    temp_folder_remove(folder);
    return watch_end(state);
}

static struct node make_node(uint64_t id)
{
    struct node node = {
        .id = id,
        .parent = id / 2,
        .serial = 3,
        .size = id * 7,
        .blocks = id,
        .source_ino = ~id,
        .mtime = {(time_t)id, 5},
        .ctime = {(time_t)id, 999999999},
        .mode = S_IFREG | 0644,
        .nlink = 1,
        .blksize = 4096,
    };

    snprintf(node.name, sizeof(node.name), "node %llx", (unsigned long long)id);
    return node;
}

static void assert_node(uint64_t id)
{
    struct node node, wanted = make_node(id);

    assert_int_equal(index_get_node(idx, id, &node), 0);
    assert_int_equal(node.id, id);
    assert_int_equal(node.parent, wanted.parent);
    assert_int_equal(node.size, wanted.size);
    assert_int_equal(node_version(&node), node_version(&wanted));
    assert_string_equal(node.name, wanted.name);
}

static void put_item(uint64_t id, uint32_t extent)
{
    struct index_batch *batch = index_batch_create();
    struct item item = {.id = id,
                        .extent = extent,
                        .places = ITEM_IN_DRAM,
                        .serial = UINT64_MAX,
                        .checksum = ~id,
                        .length = extent + 100};

    index_batch_item(batch, &item, NULL);
    assert_int_equal(index_batch_commit(idx, batch), 0);
}

/* With an entry of each ordinal up to count. */
static void put_listing(uint64_t directory, uint64_t count)
{
    struct index_batch *batch = index_batch_create();
    struct listing_head head = {9, count, {-5, 6}, {7, 8}, directory};

    for (uint64_t i = 0; i < count; i++) {
        struct listing_entry entry = {.id = i + directory, .type = DT_REG};
        snprintf(entry.name, sizeof(entry.name), "entry %llu",
                 (unsigned long long)i);
        index_batch_entry(batch, directory, i, &entry);
    }
    index_batch_head(batch, directory, &head);
    assert_int_equal(index_batch_commit(idx, batch), 0);
}

/* What a walk over a listing has to find. */
struct walk {
    uint64_t directory;
    uint64_t next;
    uint64_t stop; /* the last one that is wanted */
    bool wrong;
};

static bool visit_entry(uint64_t ordinal, const struct listing_entry *entry,
                        void *data)
{
    struct walk *walk = data;
    char name[64];

    snprintf(name, sizeof(name), "entry %llu", (unsigned long long)ordinal);
    walk->wrong |= ordinal != walk->next || entry->type != DT_REG ||
                   entry->id != ordinal + walk->directory ||
                   strcmp(entry->name, name) != 0;
    walk->next++;
    return ordinal != walk->stop;
}

/* How many entries a walk from that ordinal gives. */
static uint64_t walk_entries(uint64_t directory, uint64_t from, uint64_t stop)
{
    struct walk walk = {directory, from, stop, false};

    assert_int_equal(index_each_entry(idx, directory, from, visit_entry, &walk),
                     0);
    assert_false(walk.wrong);
    return walk.next - from;
}

struct found {
    uint64_t count;
    uint64_t stop_after;
    uint64_t id_sum;
    uint64_t extent_sum;
};

static bool visit_item(const struct item *item, void *data)
{
    struct found *found = data;

    found->id_sum += item->id;
    found->extent_sum += item->extent;
    return ++found->count != found->stop_after;
}

static struct found walk_items(uint64_t id, uint64_t stop_after)
{
    struct found found = {.stop_after = stop_after};

    assert_int_equal(index_each_item(idx, id, visit_item, &found), 0);
    return found;
}

static void nothing_is_there_at_first(void **state)
{
    struct node node;
    struct item item;
    struct listing_head head;
    uint64_t number = 77;

    (void)state;
    assert_int_equal(index_get_node(idx, 1, &node), -ENOENT);
    assert_int_equal(index_get_item(idx, 1, 0, &item), -ENOENT);
    assert_int_equal(index_get_listing(idx, 1, &head), -ENOENT);
    assert_int_equal(index_get_number(idx, "serial", &number), -ENOENT);
    assert_int_equal(number, 77);
    assert_int_equal(walk_entries(1, 0, UINT64_MAX), 0);
    assert_int_equal(walk_items(0, 0).count, 0);
    assert_int_equal(walk_items(1, 0).count, 0);
    assert_int_equal(index_drop_listing(idx, 1), 0);
}

static void nodes_come_back(void **state)
{
    static const uint64_t ids[] = {1, 2, 0xff, 0x100, 1ULL << 63, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        struct node node = make_node(ids[i]);
        assert_int_equal(index_put_node(idx, &node), 0);
    }
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 6; i++)
            assert_node(ids[i]);
        reopen();
    }
    struct node node = make_node(2);
    node.flags = NODE_CHANGED;
    assert_int_equal(index_put_node(idx, &node), 0);
    assert_int_equal(index_get_node(idx, 2, &node), 0);
    assert_int_equal(node.flags, NODE_CHANGED);
}

static void items_come_back(void **state)
{
    struct item item;

    (void)state;
    put_item(5, 0);
    put_item(5, UINT32_MAX);
    put_item(UINT64_MAX, 1);
    reopen();
    assert_int_equal(index_get_item(idx, 5, UINT32_MAX, &item), 0);
    assert_int_equal(item.id, 5);
    assert_int_equal(item.extent, UINT32_MAX);
    assert_int_equal(item.places, ITEM_IN_DRAM);
    assert_int_equal(item.serial, UINT64_MAX);
    assert_int_equal(item.checksum, ~5ULL);
    assert_int_equal(item.length, UINT32_MAX + 100);
    assert_int_equal(index_get_item(idx, 5, 1, &item), -ENOENT);
    assert_int_equal(index_get_item(idx, UINT64_MAX, 1, &item), 0);

    struct index_batch *batch = index_batch_create();
    index_batch_drop_item(batch, 5, 0);
    index_batch_drop_item(batch, 6, 0);
    assert_int_equal(index_batch_commit(idx, batch), 0);
    assert_int_equal(index_get_item(idx, 5, 0, &item), -ENOENT);
    assert_int_equal(index_get_item(idx, 5, UINT32_MAX, &item), 0);
}

static void items_are_walked_by_file_and_all(void **state)
{
    (void)state;
    for (uint32_t extent = 0; extent < 300; extent++)
        put_item(0x100, extent);
    put_item(0xff, 0);
    put_item(0x101, 0);
    put_item(UINT64_MAX, 0);
    struct found found = walk_items(0x100, 0);
    assert_int_equal(found.count, 300);
    assert_int_equal(found.id_sum, 300 * 0x100);
    assert_int_equal(found.extent_sum, 299 * 150);
    assert_int_equal(walk_items(0x100, 7).extent_sum, 21); /* in order */
    assert_int_equal(walk_items(0, 0).count, 303);
    assert_int_equal(walk_items(0, 2).count, 2);
    assert_int_equal(walk_items(UINT64_MAX, 0).count, 1);
    assert_int_equal(walk_items(0x102, 0).count, 0);
}

static void numbers_come_back(void **state)
{
    uint64_t number;

    (void)state;
    assert_int_equal(index_put_number(idx, "serial", 1), 0);
    assert_int_equal(index_put_number(idx, "known items", UINT64_MAX), 0);
    assert_int_equal(index_put_number(idx, "serial", 2), 0);
    reopen();
    assert_int_equal(index_get_number(idx, "serial", &number), 0);
    assert_int_equal(number, 2);
    assert_int_equal(index_get_number(idx, "known items", &number), 0);
    assert_int_equal(number, UINT64_MAX);
    assert_int_equal(index_get_number(idx, "seria", &number), -ENOENT);
}

static void listings_are_walked_from_any_ordinal(void **state)
{
    struct listing_head head;

    (void)state;
    put_listing(0x100, ENTRIES);
    put_listing(0xff, 1);
    put_listing(0x101, 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(index_get_listing(idx, 0x100, &head), 0);
        assert_int_equal(head.serial, 9);
        assert_int_equal(head.count, ENTRIES);
        assert_int_equal(head.mtime.tv_sec, -5);
        assert_int_equal(head.mtime.tv_nsec, 6);
        assert_int_equal(head.ctime.tv_sec, 7);
        assert_int_equal(head.ctime.tv_nsec, 8);
        assert_int_equal(head.source_ino, 0x100);
        assert_int_equal(walk_entries(0x100, 0, UINT64_MAX), ENTRIES);
        assert_int_equal(walk_entries(0x100, 4321, UINT64_MAX), ENTRIES - 4321);
        assert_int_equal(walk_entries(0x100, ENTRIES, UINT64_MAX), 0);
        assert_int_equal(walk_entries(0x100, UINT64_MAX, UINT64_MAX), 0);
        assert_int_equal(walk_entries(0x100, 255, 257), 3);
        assert_int_equal(walk_entries(0xff, 0, UINT64_MAX), 1);
        assert_int_equal(walk_entries(0x101, 0, UINT64_MAX), 0);
        reopen();
    }
}

static void a_dropped_listing_leaves_its_neighbours(void **state)
{
    struct listing_head head;

    (void)state;
    put_listing(0x100, 1000);
    put_listing(0xff, 10);
    put_listing(0x101, 20);
    assert_int_equal(index_drop_listing(idx, 0x100), 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(index_get_listing(idx, 0x100, &head), -ENOENT);
        assert_int_equal(walk_entries(0x100, 0, UINT64_MAX), 0);
        assert_int_equal(index_get_listing(idx, 0xff, &head), 0);
        assert_int_equal(walk_entries(0xff, 0, UINT64_MAX), 10);
        assert_int_equal(index_get_listing(idx, 0x101, &head), 0);
        assert_int_equal(walk_entries(0x101, 0, UINT64_MAX), 20);
        reopen();
    }
    put_listing(0x100, 3);
    assert_int_equal(walk_entries(0x100, 0, UINT64_MAX), 3);
}

static void names_of_every_length_are_kept(void **state)
{
    struct index_batch *batch = index_batch_create();
    struct listing_entry entry = {.id = 2, .type = DT_DIR};
    struct node node = make_node(2);

    (void)state;
    memset(entry.name, 'n', NODE_NAME_BYTES - 1);
    strcpy(node.name, entry.name);
    index_batch_entry(batch, 1, 0, &entry);
    index_batch_node(batch, &node);
    assert_int_equal(index_batch_commit(idx, batch), 0);
    struct walk walk = {.stop = UINT64_MAX};
    assert_int_equal(index_each_entry(idx, 1, 0, visit_entry, &walk), 0);
    assert_int_equal(walk.next, 1);
    memset(&node, 0, sizeof(node));
    assert_int_equal(index_get_node(idx, 2, &node), 0);
    assert_string_equal(node.name, entry.name);
}

static void an_abandoned_batch_leaves_nothing(void **state)
{
    struct index_batch *batch = index_batch_create();
    struct node node = make_node(2);

    (void)state;
    index_batch_node(batch, &node);
    index_batch_destroy(batch);
    index_batch_destroy(NULL);
    assert_int_equal(index_get_node(idx, 2, &node), -ENOENT);
}

static void another_versions_values_are_errors(void **state)
{
    struct node node = make_node(2);
    struct item item;
    struct listing_head head;
    struct walk walk = {.stop = UINT64_MAX};
    uint64_t number;

    (void)state;
    put_item(3, 1);
    forged_version = 99;
    assert_int_equal(index_put_node(idx, &node), 0);
    put_item(2, 0);
    put_listing(2, 1);
    assert_int_equal(index_put_number(idx, "serial", 2), 0);
    forged_version = 0;

    expect_log(LOG_LEVEL_ERROR, "index: unreadable value in nodes");
    assert_int_equal(index_get_node(idx, 2, &node), -EIO);
    expect_log(LOG_LEVEL_ERROR, "index: unreadable value in items");
    assert_int_equal(index_get_item(idx, 2, 0, &item), -EIO);
    expect_log(LOG_LEVEL_ERROR, "index: unreadable value in listings");
    assert_int_equal(index_get_listing(idx, 2, &head), -EIO);
    expect_log(LOG_LEVEL_ERROR, "index: unreadable value in meta");
    assert_int_equal(index_get_number(idx, "serial", &number), -EIO);
    expect_log(LOG_LEVEL_ERROR, "index: unreadable value in listings");
    assert_int_equal(index_each_entry(idx, 2, 0, visit_entry, &walk), -EIO);
    assert_int_equal(walk.next, 0);
    /* one that is of no use does not hide the others */
    assert_int_equal(walk_items(0, 0).id_sum, 3);

    node = make_node(2);
    assert_int_equal(index_put_node(idx, &node), 0);
    assert_node(2);
}

static void damage_is_moved_aside_each_time(void **state)
{
    struct node node = make_node(2);

    (void)state;
    for (int i = 1; i <= 2; i++) {
        char text[32], aside[PATH_MAX + 64];
        assert_int_equal(index_put_node(idx, &node), 0);
        index_close(idx);
        idx = NULL;
        temp_folder_write(index_folder, "CURRENT", "rubbish", 7);
        snprintf(text, sizeof(text), "index.damaged.%d", i);
        expect_log(LOG_LEVEL_WARN, text);
        open_index(true);
        snprintf(aside, sizeof(aside), "%s/%s/CURRENT", folder, text);
        assert_int_equal(access(aside, F_OK), 0);
        struct node none;
        assert_int_equal(index_get_node(idx, 2, &none), -ENOENT);
    }
    assert_int_equal(index_put_node(idx, &node), 0);
    reopen();
    assert_node(2);
}

/* ---- a death ---- */

/* Writes nodes for ever, each with an item and a listing in its batch, and
 * tells after each. */
static int write_until_killed(const char *at)
{
    bool damaged;

    if (index_open(at, true, &idx, &damaged) != 0 || damaged)
        return 1;
    for (uint64_t id = 2;; id++) {
        struct index_batch *batch = index_batch_create();
        struct node node = make_node(id);
        struct item item = {.id = id,
                            .extent = 1,
                            .places = ITEM_IN_DRAM,
                            .serial = 1,
                            .checksum = 2,
                            .length = 3};
        struct listing_entry entry = {.id = id, .type = DT_REG};
        struct listing_head head = {.count = 1};
        strcpy(entry.name, "entry 0");
        index_batch_node(batch, &node);
        index_batch_item(batch, &item, NULL);
        index_batch_entry(batch, id, 0, &entry);
        index_batch_head(batch, id, &head);
        if (index_batch_commit(idx, batch) != 0 ||
            write(STDOUT_FILENO, &id, sizeof(id)) != sizeof(id))
            return 1;
    }
}

static pid_t start_writer(int *told_fd)
{
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(fds[1], STDOUT_FILENO);
        execl("/proc/self/exe", "test_index", index_folder, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    *told_fd = fds[0];
    return child;
}

/* Ends the writer once it has told of that id; the last one that it told of. */
static uint64_t kill_writer(pid_t child, int told_fd, uint64_t least)
{
    uint64_t id = 0, last = 0;
    int status;

    while (last < least && read(told_fd, &id, sizeof(id)) == sizeof(id))
        last = id;
    kill(child, SIGKILL);
    while (read(told_fd, &id, sizeof(id)) == sizeof(id))
        last = id;
    close(told_fd);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_true(last >= least);
    return last;
}

static void what_a_killed_process_wrote_is_there(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= KILLS; i++) {
        struct node node;
        struct item item;
        struct listing_head head;
        int told_fd;
        index_close(idx);
        idx = NULL;
        pid_t child = start_writer(&told_fd);
        uint64_t last = kill_writer(child, told_fd, 1700 * i);
        open_index(false);
        for (uint64_t id = 2; id <= last; id++) {
            assert_node(id);
            assert_int_equal(index_get_item(idx, id, 1, &item), 0);
            assert_int_equal(index_get_listing(idx, id, &head), 0);
            assert_int_equal(walk_entries(id, 0, UINT64_MAX), 1);
        }
        /* the one that it may have been writing: whole or not at all */
        int err = index_get_node(idx, last + 1, &node);
        assert_int_equal(index_get_item(idx, last + 1, 1, &item), err);
        assert_int_equal(index_get_listing(idx, last + 1, &head), err);
    }
}

static void an_index_in_use_is_not_damage(void **state)
{
    bool damaged = true;
    int told_fd;
    uint64_t id;

    (void)state;
    index_close(idx);
    idx = NULL;
    pid_t child = start_writer(&told_fd);
    assert_int_equal(read(told_fd, &id, sizeof(id)), sizeof(id));
    expect_log(LOG_LEVEL_ERROR, "index: open: ");
    assert_true(index_open(index_folder, true, &idx, &damaged) < 0);
    assert_false(damaged);
    assert_null(idx);
    kill_writer(child, told_fd, 100);
    open_index(false);
    assert_node(100);
}

#define index_test(function)                                                   \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        index_test(nothing_is_there_at_first),
        index_test(nodes_come_back),
        index_test(items_come_back),
        index_test(items_are_walked_by_file_and_all),
        index_test(numbers_come_back),
        index_test(listings_are_walked_from_any_ordinal),
        index_test(a_dropped_listing_leaves_its_neighbours),
        index_test(names_of_every_length_are_kept),
        index_test(an_abandoned_batch_leaves_nothing),
        index_test(another_versions_values_are_errors),
        index_test(damage_is_moved_aside_each_time),
        index_test(an_index_in_use_is_not_damage),
        index_test(what_a_killed_process_wrote_is_there),
    };

    if (argc > 1)
        return write_until_killed(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
