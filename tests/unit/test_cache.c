/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <errno.h>
#include <stdatomic.h>

#include "cache/minio.h"
#include "tests/fakes/fake_mount.h"
#include "util/clock.h"
#include "util/hash.h"

enum { ITEM = 5000, MANY = 500, FORGETTERS = 4 };

static struct fake_mount mount;

static int begin(void **state)
{
    watch_begin(state);
    fake_mount_open(&mount);
    return 0;
}

static int end(void **state)
{
    fake_mount_close(&mount);
    return watch_end(state);
}

/* The file's node, as a lookup leaves it. */
static struct node put_node(uint64_t id, time_t mtime)
{
    struct node node = {
        .id = id,
        .parent = 1,
        .serial = 1,
        .size = ITEM,
        .source_ino = id,
        .mtime = {mtime, 0},
        .mode = S_IFREG | 0644,
    };

    strcpy(node.name, "file");
    assert_int_equal(index_put_node(mount.index, &node), 0);
    return node;
}

static enum admission_outcome begin_item(const struct node *node,
                                         uint32_t extent,
                                         struct admission_key *key,
                                         struct shared_buffer **buffer)
{
    *key = (struct admission_key){
        .id = node->id,
        .extent = extent,
        .length = ITEM,
        .file_offset = (uint64_t)extent * FAKE_MOUNT_ITEM_BYTES,
        .version = node_version(node),
        .path = "file",
    };
    return cache_begin(mount.cache, key, false, NULL, buffer);
}

/* Loads an item and hands it to the pinner. */
static void load(const struct node *node, uint32_t extent)
{
    struct admission_key key;
    struct shared_buffer *buffer;

    assert_int_equal(begin_item(node, extent, &key, &buffer), ADMISSION_LOAD);
    char *bytes = shared_buffer_bytes(mount.shared, buffer);
    memset(bytes, (int)node->id, ITEM);
    buffer->checksum = hash_bytes(bytes, ITEM);
    admission_finish(cache_admission(mount.cache), buffer, 0);
    admission_put(cache_admission(mount.cache), buffer);
}

static void load_and_settle(const struct node *node, uint32_t extent)
{
    load(node, extent);
    assert_true(fake_mount_settle(&mount));
}

static void assert_account(uint64_t items)
{
    struct shared_account *account = &mount.shared->dram;

    assert_int_equal(atomic_load(&account->items), items);
    assert_int_equal(atomic_load(&account->item_bytes), items * ITEM);
    assert_int_equal(atomic_load(&account->used_bytes),
                     items * minio_dram_cost(ITEM));
    assert_int_equal(atomic_load(&mount.pinner.damage), 0);
}

/* The whole budget can be reserved again: nothing of it leaked. */
static void assert_no_reservation(void)
{
    struct node node = put_node(1 << 20, 1);
    struct admission_key key;
    struct shared_buffer *buffer, *other;
    uint64_t used = atomic_load(&mount.shared->dram.used_bytes);
    uint64_t capacity = mount.shared->capacity_bytes;

    mount.shared->capacity_bytes = used + minio_dram_cost(ITEM);
    assert_int_equal(begin_item(&node, 0, &key, &buffer), ADMISSION_LOAD);
    assert_int_equal(begin_item(&node, 1, &key, &other), ADMISSION_FULL);
    admission_finish(cache_admission(mount.cache), buffer, -EIO);
    mount.shared->capacity_bytes = capacity;
}

static void a_pinned_item_is_recorded_and_accounted(void **state)
{
    struct node node = put_node(7, 1);
    struct item item;

    (void)state;
    assert_false(cache_is_pinned(mount.cache, 7, 3));
    load_and_settle(&node, 3);
    assert_true(cache_is_pinned(mount.cache, 7, 3));
    assert_false(cache_is_pinned(mount.cache, 7, 2));
    assert_int_equal(index_get_item(mount.index, 7, 3, &item), 0);
    assert_int_equal(item.places, ITEM_IN_DRAM);
    assert_int_equal(item.serial, 1);
    assert_int_equal(item.length, ITEM);
    char bytes[ITEM];
    memset(bytes, 7, ITEM);
    assert_int_equal(item.checksum, hash_bytes(bytes, ITEM));
    assert_account(1);
    assert_no_reservation();
    assert_int_equal(atomic_load(&mount.refused), 0);
    /* another mount's pin is none */
    atomic_store(&mount.shared->serial, 2);
    assert_false(cache_is_pinned(mount.cache, 7, 3));
}

static void many_items_are_committed(void **state)
{
    struct node node = put_node(7, 1);

    (void)state;
    for (uint32_t i = 0; i < MANY; i++)
        load(&node, i);
    assert_true(fake_mount_settle(&mount));
    for (uint32_t i = 0; i < MANY; i++)
        assert_true(cache_is_pinned(mount.cache, 7, i));
    assert_account(MANY);
    assert_no_reservation();
}

static void a_refused_item_is_told(void **state)
{
    struct node node = put_node(7, 1);
    struct item item;

    (void)state;
    atomic_store(&mount.pinner.answer, -EBUSY);
    load_and_settle(&node, 3);
    assert_int_equal(atomic_load(&mount.refused), 1);
    assert_int_equal(atomic_load(&mount.refused_id), 7);
    assert_int_equal(atomic_load(&mount.refused_error), -EBUSY);
    assert_int_equal(index_get_item(mount.index, 7, 3, &item), -ENOENT);
    assert_account(0);
    assert_no_reservation();
    atomic_store(&mount.pinner.answer, 0);
    load_and_settle(&node, 3);
    assert_account(1);
}

static void a_changed_file_is_not_committed(void **state)
{
    struct node node = put_node(7, 1), marked = put_node(8, 1);
    struct item item;

    (void)state;
    atomic_store(&mount.pinner.holding, true);
    load(&node, 0);
    load(&marked, 0);
    put_node(7, 2);
    marked.flags = NODE_CHANGED;
    assert_int_equal(index_put_node(mount.index, &marked), 0);
    atomic_store(&mount.pinner.holding, false);
    assert_true(fake_mount_settle(&mount));
    for (uint64_t id = 7; id <= 8; id++) {
        assert_int_equal(index_get_item(mount.index, id, 0, &item), -ENOENT);
        assert_int_equal(fake_pinner_count(&mount.pinner, TASK_RELEASE, id), 1);
    }
    assert_account(0);
    assert_no_reservation();
    assert_int_equal(atomic_load(&mount.refused), 0);
}

static void a_file_without_a_node_is_not_committed(void **state)
{
    struct node node = {.id = 9};
    struct item item;

    (void)state;
    load_and_settle(&node, 0);
    assert_int_equal(index_get_item(mount.index, 9, 0, &item), -ENOENT);
    assert_account(0);
    assert_no_reservation();
}

/* ---- lost pins ---- */

static void a_lost_pin_is_loaded_again_and_counted_once(void **state)
{
    struct node node = put_node(7, 1);
    struct admission_key key;
    struct shared_buffer *buffer;

    (void)state;
    load_and_settle(&node, 0);
    assert_int_equal(begin_item(&node, 0, &key, &buffer), ADMISSION_LOAD);
    assert_true(key.pinned);
    admission_finish(cache_admission(mount.cache), buffer, -EIO);
    assert_account(1);
    load_and_settle(&node, 0);
    assert_account(1);
    assert_no_reservation();
    assert_true(cache_is_pinned(mount.cache, 7, 0));
    /* and is no longer there when the pinner cannot have it */
    atomic_store(&mount.pinner.answer, -EBUSY);
    load_and_settle(&node, 0);
    assert_account(0);
    assert_no_reservation();
    assert_false(cache_is_pinned(mount.cache, 7, 0));
    assert_int_equal(atomic_load(&mount.refused), 1);
}

static void repin(uint64_t id)
{
    struct admission_key key = {.id = id, .length = ITEM, .path = "file"};

    assert_true(admission_post(cache_admission(mount.cache), TASK_REPIN, &key));
}

static void pins_of_a_dead_pinner_are_taken_again(void **state)
{
    struct node node = put_node(7, 1);

    (void)state;
    load_and_settle(&node, 0);
    repin(7);
    assert_true(fake_mount_settle(&mount));
    assert_int_equal(fake_pinner_count(&mount.pinner, TASK_REPIN, 7), 1);
    assert_account(1);
    assert_true(cache_is_pinned(mount.cache, 7, 0));
    atomic_store(&mount.pinner.answer, -ESTALE);
    repin(7);
    assert_true(fake_mount_settle(&mount));
    assert_account(0);
    assert_no_reservation();
    assert_false(cache_is_pinned(mount.cache, 7, 0));
    assert_int_equal(atomic_load(&mount.refused), 1);
}

/* Pins an item while no committer runs; its buffer. */
static struct shared_buffer *pin_uncommitted(const struct node *node)
{
    struct admission_key key;
    struct shared_buffer *buffer;

    fake_mount_kill_worker(&mount);
    uint64_t pins = atomic_load(&mount.pinner.pins);
    assert_int_equal(begin_item(node, 0, &key, &buffer), ADMISSION_LOAD);
    memset(shared_buffer_bytes(mount.shared, buffer), 'x', ITEM);
    admission_finish(cache_admission(mount.cache), buffer, 0);
    uint64_t until = clock_now_ms() + 10000;
    while (atomic_load(&mount.pinner.pins) == pins && clock_now_ms() < until)
        clock_sleep_ns(1000000);
    assert_int_equal(atomic_load(&buffer->state), BUFFER_PINNED);
    return buffer;
}

/* Another worker over what the last one left. */
static void start_another(void)
{
    fake_mount_kill_worker(&mount);
    fake_mount_start(&mount);
    assert_true(fake_mount_settle(&mount));
}

/* What a pinner locked that has died since is not locked any more. */
static void an_answer_of_a_dead_pinner_is_asked_for_again(void **state)
{
    struct node node = put_node(7, 1);

    (void)state;
    pin_uncommitted(&node);
    atomic_fetch_add(&mount.shared->pinner_generation, 1);
    start_another();
    assert_int_equal(fake_pinner_count(&mount.pinner, TASK_PIN, 7), 2);
    assert_account(1);
    assert_no_reservation();
    assert_true(cache_is_pinned(mount.cache, 7, 0));
}

static void nothing_is_admitted_when_nobody_pins(void **state)
{
    struct node node = put_node(7, 1);
    struct admission_key key;
    struct shared_buffer *buffer;

    (void)state;
    load_and_settle(&node, 0);
    atomic_store(&mount.shared->orphaned, 1);
    assert_int_equal(begin_item(&node, 0, &key, &buffer), ADMISSION_FULL);
    assert_int_equal(begin_item(&node, 1, &key, &buffer), ADMISSION_FULL);
    assert_account(1);
}

/* ---- forgetting ---- */

/* With every buffer taken the pinner is asked when one is free again. */
static void a_release_waits_for_a_buffer(void **state)
{
    static struct shared_buffer *buffers[SHARED_BUFFERS];
    struct node node = put_node(7, 1), filler = put_node(9, 1);
    struct admission_key key;

    (void)state;
    load_and_settle(&node, 0);
    for (uint32_t i = 0; i < SHARED_BUFFERS; i++)
        assert_int_equal(begin_item(&filler, i, &key, &buffers[i]),
                         ADMISSION_LOAD);
    for (int i = 0; i < 3; i++)
        assert_int_equal(cache_forget(mount.cache, 7, "file"), 0);
    assert_account(0);
    assert_int_equal(fake_pinner_count(&mount.pinner, TASK_RELEASE, 7), 0);
    for (int i = 0; i < SHARED_BUFFERS; i++)
        admission_finish(cache_admission(mount.cache), buffers[i], -EIO);
    uint64_t until = clock_now_ms() + 10000;
    while (fake_pinner_count(&mount.pinner, TASK_RELEASE, 7) == 0 &&
           clock_now_ms() < until)
        clock_sleep_ns(1000000);
    assert_true(fake_mount_settle(&mount));
    assert_int_equal(fake_pinner_count(&mount.pinner, TASK_RELEASE, 7), 1);
    assert_no_reservation();
}

static void a_file_is_forgotten_whole(void **state)
{
    struct node node = put_node(7, 1), other = put_node(8, 1);

    (void)state;
    for (uint32_t i = 0; i < 20; i++)
        load(&node, i);
    load(&other, 0);
    assert_true(fake_mount_settle(&mount));
    assert_account(21);
    assert_int_equal(cache_forget(mount.cache, 7, "some/path"), 0);
    assert_true(fake_mount_settle(&mount));
    assert_account(1);
    assert_no_reservation();
    for (uint32_t i = 0; i < 20; i++)
        assert_false(cache_is_pinned(mount.cache, 7, i));
    assert_true(cache_is_pinned(mount.cache, 8, 0));
    assert_int_equal(fake_pinner_count(&mount.pinner, TASK_RELEASE, 7), 1);
    assert_int_equal(fake_pinner_count(&mount.pinner, TASK_RELEASE, 8), 0);
    /* again, for the pinner may have died with the first */
    assert_int_equal(cache_forget(mount.cache, 7, "some/path"), 0);
    assert_true(fake_mount_settle(&mount));
    assert_int_equal(fake_pinner_count(&mount.pinner, TASK_RELEASE, 7), 2);
    assert_account(1);
    assert_int_equal(atomic_load(&mount.refused), 0);
}

/* Items that only a mount before had are in no account. */
static void another_mounts_items_are_not_counted_off(void **state)
{
    struct node node = put_node(7, 1), other = put_node(8, 1);
    struct item item;

    (void)state;
    load_and_settle(&node, 0);
    load_and_settle(&other, 0);
    atomic_store(&mount.shared->serial, 2);
    assert_int_equal(cache_forget(mount.cache, 7, "file"), 0);
    assert_account(2);
    assert_int_equal(index_get_item(mount.index, 7, 0, &item), -ENOENT);
    assert_true(fake_mount_settle(&mount));
}

static void *forget(void *data)
{
    int *err = data;

    *err = cache_forget(mount.cache, 7, "file");
    return NULL;
}

/* Every reader that meets a changed file has it forgotten. */
static void threads_forget_a_file_once(void **state)
{
    struct node node = put_node(7, 1), other = put_node(8, 1);
    pthread_t threads[FORGETTERS];
    int err[FORGETTERS];

    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        load(&node, i);
        load(&other, i);
    }
    assert_true(fake_mount_settle(&mount));
    assert_account(2 * MANY);
    for (int i = 0; i < FORGETTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, forget, &err[i]), 0);
    for (int i = 0; i < FORGETTERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < FORGETTERS; i++)
        assert_int_equal(err[i], 0);
    assert_true(fake_mount_settle(&mount));
    assert_account(MANY);
}

static _Atomic bool committing;

static void *forget_for_ever(void *data)
{
    int *err = data;

    *err = 0;
    while (atomic_load(&committing) && *err == 0) {
        *err = cache_forget(mount.cache, 7, "file");
        clock_sleep_ns(1000);
    }
    return NULL;
}

/* Between an item's record and its account it is forgotten, too. */
static void what_is_just_being_committed_is_forgotten_whole(void **state)
{
    struct node node = put_node(7, 1);
    pthread_t threads[FORGETTERS];
    int err[FORGETTERS];

    (void)state;
    atomic_store(&committing, true);
    for (int i = 0; i < FORGETTERS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, forget_for_ever, &err[i]), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        struct admission_key key;
        struct shared_buffer *buffer;
        if (begin_item(&node, i, &key, &buffer) != ADMISSION_LOAD)
            continue;
        admission_finish(cache_admission(mount.cache), buffer, 0);
        admission_put(cache_admission(mount.cache), buffer);
        clock_sleep_ns(1000000);
    }
    atomic_store(&committing, false);
    for (int i = 0; i < FORGETTERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < FORGETTERS; i++)
        assert_int_equal(err[i], 0);
    assert_true(fake_mount_settle(&mount));
    assert_int_equal(cache_forget(mount.cache, 7, "file"), 0);
    assert_true(fake_mount_settle(&mount));
    assert_account(0);
}

/* The answer to a task comes after its item was forgotten. */
static void what_was_forgotten_is_not_counted_off_again(void **state)
{
    struct node node = put_node(7, 1), other = put_node(8, 1);

    (void)state;
    load_and_settle(&node, 0);
    load_and_settle(&other, 0);
    atomic_store(&mount.pinner.holding, true);
    repin(7);
    put_node(7, 2);
    assert_int_equal(cache_forget(mount.cache, 7, "file"), 0);
    assert_account(1);
    atomic_store(&mount.pinner.answer, -ESTALE);
    atomic_store(&mount.pinner.holding, false);
    assert_true(fake_mount_settle(&mount));
    assert_account(1);
    assert_true(cache_is_pinned(mount.cache, 8, 0));
}

static void nor_when_its_pin_was_lost(void **state)
{
    struct node node = put_node(7, 1), other = put_node(8, 1);

    (void)state;
    load_and_settle(&node, 0);
    load_and_settle(&other, 0);
    atomic_store(&mount.pinner.holding, true);
    load(&node, 0);
    put_node(7, 2);
    assert_int_equal(cache_forget(mount.cache, 7, "file"), 0);
    assert_account(1);
    atomic_store(&mount.pinner.answer, -EBUSY);
    atomic_store(&mount.pinner.holding, false);
    assert_true(fake_mount_settle(&mount));
    assert_account(1);
    assert_no_reservation();
}

/* ---- deaths of the worker ---- */

static void put_item(uint64_t id)
{
    struct index_batch *batch = index_batch_create();
    struct item item = {
        .id = id, .places = ITEM_IN_DRAM, .serial = 1, .length = ITEM};

    index_batch_item(batch, &item, NULL);
    assert_int_equal(index_batch_commit(mount.index, batch), 0);
}

/* Where the death came: 0 before the record, 1 before the account, 2 within
 * it, 3 after it. */
static void an_item_is_counted_once_whenever_the_worker_dies(void **state)
{
    struct node node = put_node(7, 1);
    struct shared *shared = mount.shared;

    (void)state;
    for (int when = 0; when < 4; when++) {
        struct shared_buffer *buffer = pin_uncommitted(&node);
        if (when >= 1)
            put_item(7);
        if (when >= 2) {
            shared->intent.used_bytes = minio_dram_cost(ITEM);
            shared->intent.item_bytes = ITEM;
            shared->intent.items = 1;
            shared->intent.buffer = (uint32_t)(buffer - shared_buffers(shared));
            atomic_store(&shared->intent.valid, 1);
            atomic_store(&shared->dram.used_bytes, minio_dram_cost(ITEM));
        }
        if (when == 3) {
            atomic_store(&shared->dram.item_bytes, ITEM);
            atomic_store(&shared->dram.items, 1);
            buffer->accounted = 1;
            atomic_store(&shared->intent.valid, 0);
        }
        start_another();
        assert_account(1);
        assert_no_reservation();
        assert_true(cache_is_pinned(mount.cache, 7, 0));
        assert_int_equal(cache_forget(mount.cache, 7, "file"), 0);
        assert_true(fake_mount_settle(&mount));
        assert_account(0);
    }
}

/* Its pages are locked already: it must be counted, room or not. */
static void a_pinned_item_is_kept_when_nothing_more_fits(void **state)
{
    struct node node = put_node(7, 1);

    (void)state;
    pin_uncommitted(&node);
    atomic_store(&mount.shared->map_exhausted, 1);
    start_another();
    assert_account(1);
    assert_true(cache_is_pinned(mount.cache, 7, 0));
}

#define cache_test(function)                                                   \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cache_test(a_pinned_item_is_recorded_and_accounted),
        cache_test(many_items_are_committed),
        cache_test(a_refused_item_is_told),
        cache_test(a_changed_file_is_not_committed),
        cache_test(a_file_without_a_node_is_not_committed),
        cache_test(a_lost_pin_is_loaded_again_and_counted_once),
        cache_test(pins_of_a_dead_pinner_are_taken_again),
        cache_test(an_answer_of_a_dead_pinner_is_asked_for_again),
        cache_test(nothing_is_admitted_when_nobody_pins),
        cache_test(a_release_waits_for_a_buffer),
        cache_test(a_file_is_forgotten_whole),
        cache_test(another_mounts_items_are_not_counted_off),
        cache_test(threads_forget_a_file_once),
        cache_test(what_is_just_being_committed_is_forgotten_whole),
        cache_test(what_was_forgotten_is_not_counted_off_again),
        cache_test(nor_when_its_pin_was_lost),
        cache_test(an_item_is_counted_once_whenever_the_worker_dies),
        cache_test(a_pinned_item_is_kept_when_nothing_more_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
