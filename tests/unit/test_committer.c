/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <stdatomic.h>

#include "cache/item.h"
#include "tests/fakes/fake_mount.h"

enum { ITEM = 5000 };

static struct fake_mount mount;

static void restart(void)
{
    fake_mount_kill_worker(&mount);
    fake_mount_start(&mount);
}

/* A mount with an NVMe tier and no other. */
static int begin(void **state)
{
    watch_begin(state);
    fake_mount_open(&mount);
    mount.shared->config.free_space = 0;
    mount.shared->nvme_capacity_bytes = 8 << 20;
    mount.shared->capacity_bytes = 0;
    restart();
    return 0;
}

static int end(void **state)
{
    fake_mount_close(&mount);
    return watch_end(state);
}

static struct node put_node(uint64_t id)
{
    struct node node = {
        .id = id, .parent = 1, .serial = 1, .size = ITEM, .mode = S_IFREG};

    strcpy(node.name, "file");
    assert_int_equal(index_put_node(mount.index, &node), 0);
    return node;
}

/* Loads an item and hands it to the writer; the buffer as it was then. */
static struct shared_buffer *store(const struct node *node,
                                   struct shared_buffer *loaded)
{
    struct admission_key key = {.id = node->id,
                                .length = ITEM,
                                .version = node_version(node),
                                .path = "file"};
    struct shared_buffer *buffer;
    struct item_sums sums;

    assert_int_equal(cache_begin(mount.cache, &key, false, NULL, &buffer),
                     ADMISSION_LOAD);
    char *bytes = shared_buffer_bytes(mount.shared, buffer);
    memset(bytes, (int)node->id, ITEM);
    buffer->checksum = item_sum(bytes, ITEM, &sums);
    memcpy(shared_buffer_sums(mount.shared, buffer), sums.sum,
           sums.count * sizeof(sums.sum[0]));
    memcpy(loaded, buffer, sizeof(*loaded));
    admission_finish(cache_admission(mount.cache), buffer, 0);
    admission_put(cache_admission(mount.cache), buffer);
    assert_true(fake_mount_settle(&mount));
    return buffer;
}

static void assert_stored(uint64_t items)
{
    assert_int_equal(atomic_load(&mount.shared->nvme.items), items);
    assert_int_equal(atomic_load(&mount.shared->nvme.item_bytes), items * ITEM);
}

/* The worker died after it had written the record, and before the buffer was
 * free. */
static void a_stored_item_is_counted_once(void **state)
{
    struct shared_buffer loaded, *buffer;
    struct node node = put_node(7);

    (void)state;
    buffer = store(&node, &loaded);
    assert_stored(1);
    for (int i = 0; i < 3; i++) {
        fake_mount_kill_worker(&mount);
        memcpy(buffer, &loaded, sizeof(loaded));
        atomic_store(&buffer->users, 0);
        atomic_store(&buffer->state, BUFFER_PINNED);
        restart();
        assert_true(fake_mount_settle(&mount));
        assert_stored(1);
    }
    assert_true(cache_is_cached(mount.cache, 7, 0));
    assert_int_equal(cache_forget(mount.cache, 7, "file"), 0);
    assert_true(fake_mount_settle(&mount));
    assert_stored(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_stored_item_is_counted_once, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
