/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "fs/listing.h"
#include "tests/fakes/fake_mount.h"
#include "util/clock.h"
#include "util/hash.h"

enum { BIG = 5000, THREADS = 4, LONG_MS = 20000 };

static struct fake_mount mount;
static struct inodes *inodes;
static struct listings *listings;
static _Atomic int woken;

static void wake(struct admission_waiter *waiter, void *data)
{
    (void)waiter;
    (void)data;
    atomic_fetch_add(&woken, 1);
}

static int begin(void **state)
{
    watch_begin(state);
    fake_mount_open(&mount);
    atomic_store(&woken, 0);
    inodes =
        inodes_create(mount.shared, mount.index, mount.cache, mount.backing);
    assert_non_null(inodes);
    assert_int_equal(inodes_open_root(inodes), 0);
    listings = listings_create(mount.shared, mount.index, inodes, mount.backing,
                               wake, NULL);
    assert_non_null(listings);
    return 0;
}

static int end(void **state)
{
    listings_destroy(listings);
    inodes_destroy(inodes);
    fake_mount_close(&mount);
    return watch_end(state);
}

/* Makes a folder with files "0" to count - 1, and looks it up; its id. They are
 * one file, since making inodes takes long. */
static uint64_t make_folder(const char *name, int count)
{
    struct node node;

    assert_int_equal(mkdirat(mount.dataset_fd, name, 0755), 0);
    AUTO_CLOSE int fd = openat(mount.dataset_fd, name, O_PATH | O_CLOEXEC);
    for (int i = 0; i < count; i++) {
        char file[16];
        snprintf(file, sizeof(file), "%d", i);
        if (i > 0) {
            assert_int_equal(linkat(fd, "0", fd, file, 0), 0);
            continue;
        }
        AUTO_CLOSE int made =
            openat(fd, file, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        assert_true(made >= 0);
    }
    assert_int_equal(inodes_lookup(inodes, HASH_ROOT_ID, name, &node), 0);
    return node.id;
}

/* What is found in a listing. */
struct found {
    const char *folder;
    uint64_t count;
    uint64_t sum; /* of the names, which are numbers */
    bool wrong;
};

static bool visit(uint64_t ordinal, const struct listing_entry *entry,
                  void *data)
{
    struct found *found = data;
    char path[512];
    int length =
        snprintf(path, sizeof(path), "%s/%s", found->folder, entry->name);

    found->wrong |= ordinal != found->count ||
                    entry->id != hash_path(path, (size_t)length) ||
                    entry->type != DT_REG;
    found->count++;
    found->sum += strtoull(entry->name, NULL, 10);
    return true;
}

/* The head's count is that of the entries; their number. */
static uint64_t count_entries(uint64_t directory, const char *folder)
{
    struct found found = {.folder = folder};
    struct listing_head head;

    assert_int_equal(index_each_entry(mount.index, directory, 0, visit, &found),
                     0);
    assert_false(found.wrong);
    assert_int_equal(found.sum,
                     found.count ? found.count * (found.count - 1) / 2 : 0);
    assert_int_equal(index_get_listing(mount.index, directory, &head), 0);
    assert_int_equal(head.count, found.count);
    assert_int_equal(head.serial, atomic_load(&mount.shared->serial));
    return found.count;
}

static void lists_folders_of_every_size(void **state)
{
    static const int sizes[] = {0, 1, 2047, 2048, 2049, BIG};

    (void)state;
    for (int i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof(name), "dir%d", sizes[i]);
        uint64_t id = make_folder(name, sizes[i]);
        assert_int_equal(listings_ensure(listings, id, false, NULL), 0);
        assert_int_equal(count_entries(id, name), sizes[i]);
        assert_int_equal(listings_ensure(listings, id, false, NULL), 0);
    }
}

static void names_every_kind(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(mount.dataset_fd, "d", 0755), 0);
    assert_int_equal(mkfifoat(mount.dataset_fd, "f", 0644), 0);
    assert_int_equal(symlinkat("x", mount.dataset_fd, "l"), 0);
    assert_int_equal(listings_ensure(listings, HASH_ROOT_ID, false, NULL), 0);
    struct listing_head head;
    assert_int_equal(index_get_listing(mount.index, HASH_ROOT_ID, &head), 0);
    assert_int_equal(head.count, 3);
}

static bool check_kind(uint64_t ordinal, const struct listing_entry *entry,
                       void *data)
{
    unsigned *seen = data;
    unsigned wanted = entry->name[0] == 'd'   ? DT_DIR
                      : entry->name[0] == 'f' ? DT_FIFO
                                              : DT_LNK;

    (void)ordinal;
    /* the root's entries have no slash in their paths */
    if (entry->type == wanted && entry->id == hash_path(entry->name, 1))
        *seen |= 1u << (entry->name[0] - 'a');
    return true;
}

static void entries_of_the_root_have_their_kinds(void **state)
{
    unsigned seen = 0;

    names_every_kind(state);
    assert_int_equal(
        index_each_entry(mount.index, HASH_ROOT_ID, 0, check_kind, &seen), 0);
    assert_int_equal(seen, 1u << 3 | 1u << 5 | 1u << 11);
}

static void what_is_no_folder_has_no_listing(void **state)
{
    struct node node;
    struct listing_head head;

    (void)state;
    temp_folder_write(mount.dataset, "file", "x", 1);
    assert_int_equal(inodes_lookup(inodes, HASH_ROOT_ID, "file", &node), 0);
    assert_int_equal(listings_ensure(listings, node.id, false, NULL), -ENOTDIR);
    assert_int_equal(listings_ensure(listings, 77, false, NULL), -ESTALE);
    uint64_t id = make_folder("gone", 0);
    assert_int_equal(unlinkat(mount.dataset_fd, "gone", AT_REMOVEDIR), 0);
    assert_int_equal(listings_ensure(listings, id, false, NULL), -ENOENT);
    assert_int_equal(index_get_listing(mount.index, id, &head), -ENOENT);
    assert_int_equal(index_get_listing(mount.index, node.id, &head), -ENOENT);
    /* and the next one to ask is not kept waiting */
    assert_int_equal(listings_ensure(listings, id, false, NULL), -ENOENT);
}

static bool count_one(uint64_t ordinal, const struct listing_entry *entry,
                      void *data)
{
    (void)ordinal;
    (void)entry;
    (*(uint64_t *)data)++;
    return true;
}

/* Within a mount a listing stays as it was first taken. */
static void is_taken_once_per_mount(void **state)
{
    uint64_t id = make_folder("dir", 10), count = 0;

    (void)state;
    assert_int_equal(listings_ensure(listings, id, false, NULL), 0);
    AUTO_CLOSE int file =
        openat(mount.dataset_fd, "dir/10", O_CREAT | O_WRONLY, 0644);
    assert_true(file >= 0);
    assert_int_equal(listings_ensure(listings, id, false, NULL), 0);
    assert_int_equal(count_entries(id, "dir"), 10);
    atomic_store(&mount.shared->serial, 2);
    assert_int_equal(listings_ensure(listings, id, false, NULL), 0);
    assert_int_equal(count_entries(id, "dir"), 11);
    /* fewer names: nothing of the longer listing is left */
    for (int i = 5; i <= 10; i++) {
        char name[16];
        snprintf(name, sizeof(name), "dir/%d", i);
        assert_int_equal(unlinkat(mount.dataset_fd, name, 0), 0);
    }
    atomic_store(&mount.shared->serial, 3);
    assert_int_equal(listings_ensure(listings, id, false, NULL), 0);
    assert_int_equal(count_entries(id, "dir"), 5);
    assert_int_equal(index_each_entry(mount.index, id, 0, count_one, &count),
                     0);
    assert_int_equal(count, 5);
}

/* Where the folder has not changed, its entries are not read again: here they
 * were replaced by one, and that stays. */
static void an_unchanged_folder_is_not_read_again(void **state)
{
    uint64_t id = make_folder("dir", 0);
    struct index_batch *batch = index_batch_create();
    struct listing_entry entry = {
        .id = hash_path("dir/0", 5), .type = DT_REG, .name = "0"};
    struct listing_head head;

    (void)state;
    assert_int_equal(listings_ensure(listings, id, false, NULL), 0);
    assert_int_equal(index_get_listing(mount.index, id, &head), 0);
    head.count = 1;
    index_batch_entry(batch, id, 0, &entry);
    index_batch_head(batch, id, &head);
    assert_int_equal(index_batch_commit(mount.index, batch), 0);
    atomic_store(&mount.shared->serial, 2);
    assert_int_equal(listings_ensure(listings, id, false, NULL), 0);
    assert_int_equal(count_entries(id, "dir"), 1);
}

/* What a worker left that died in the middle of a listing: entries and no
 * head. */
static void a_listing_without_its_head_is_made_again(void **state)
{
    uint64_t id = make_folder("dir", 3);
    struct index_batch *batch = index_batch_create();
    struct listing_entry entry = {.id = 77, .type = DT_DIR, .name = "rubbish"};

    (void)state;
    for (uint64_t i = 0; i < 5000; i++)
        index_batch_entry(batch, id, i, &entry);
    assert_int_equal(index_batch_commit(mount.index, batch), 0);
    assert_int_equal(listings_ensure(listings, id, false, NULL), 0);
    assert_int_equal(count_entries(id, "dir"), 3);
}

/* ---- threads ---- */

struct caller {
    uint64_t directory;
    int err;
};

static void *ensure(void *data)
{
    struct caller *caller = data;

    caller->err = listings_ensure(listings, caller->directory, false, NULL);
    return NULL;
}

static void threads_wait_for_the_one_that_lists(void **state)
{
    pthread_t threads[THREADS];
    struct caller callers[THREADS];
    uint64_t id = make_folder("dir", BIG);

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        callers[i].directory = id;
        assert_int_equal(pthread_create(&threads[i], NULL, ensure, &callers[i]),
                         0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(callers[i].err, 0);
    assert_int_equal(count_entries(id, "dir"), BIG);
}

/* Asks while another thread lists; how many waiters were taken. */
static int ask_meanwhile(uint64_t id, struct admission_waiter *waiters,
                         int most)
{
    int waiting = 0;

    for (;;) {
        int err = listings_ensure(listings, id, false, &waiters[waiting]);
        if (err == -EAGAIN) {
            if (++waiting == most)
                return waiting;
        } else {
            assert_int_equal(err, 0);
            return waiting;
        }
    }
}

static void waiters_are_woken_once(void **state)
{
    struct admission_waiter waiters[100];
    uint64_t id = make_folder("dir", BIG), end_ms = clock_now_ms() + LONG_MS;
    int waited = 0;

    (void)state;
    /* Who comes first is chance: the thread, or this one. */
    for (int round = 0; round < 20 && waited == 0; round++) {
        pthread_t thread;
        struct caller caller = {.directory = id};
        assert_int_equal(index_drop_listing(mount.index, id), 0);
        assert_int_equal(pthread_create(&thread, NULL, ensure, &caller), 0);
        clock_sleep_ns(1000000);
        waited = ask_meanwhile(id, waiters, 100);
        pthread_join(thread, NULL);
        assert_int_equal(caller.err, 0);
        while (atomic_load(&woken) < waited && clock_now_ms() < end_ms)
            clock_sleep_ns(1000000);
        assert_int_equal(atomic_load(&woken), waited);
    }
    assert_true(waited > 0);
    assert_int_equal(count_entries(id, "dir"), BIG);
}

#define listing_test(function)                                                 \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        listing_test(lists_folders_of_every_size),
        listing_test(entries_of_the_root_have_their_kinds),
        listing_test(what_is_no_folder_has_no_listing),
        listing_test(is_taken_once_per_mount),
        listing_test(an_unchanged_folder_is_not_read_again),
        listing_test(a_listing_without_its_head_is_made_again),
        listing_test(threads_wait_for_the_one_that_lists),
        listing_test(waiters_are_woken_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
