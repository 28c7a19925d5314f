/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/inode_area.h"

#include "util/clock.h"
#include "util/hash.h"

static void put_item(uint64_t id)
{
    struct index_batch *batch = index_batch_create();
    struct item item = {
        .id = id, .places = ITEM_IN_DRAM, .serial = 1, .length = 10};

    index_batch_item(batch, &item, NULL);
    assert_int_equal(index_batch_commit(mount.index, batch), 0);
}

static bool has_item(uint64_t id)
{
    struct item item;

    return index_get_item(mount.index, id, 0, &item) == 0;
}

static void a_refresh_takes_over_attributes(void **state)
{
    struct node node, again;
    char path[PATH_MAX + 64];

    (void)state;
    write_file("file", 100);
    node = look_up(HASH_ROOT_ID, "file");
    put_item(node.id);
    assert_int_equal(inodes_refresh(inodes, node.id, &again), 0);
    assert_int_equal(node_version(&again), node_version(&node));
    assert_true(has_item(node.id));

    write_file("file", 200);
    assert_int_equal(inodes_refresh(inodes, node.id, &again), 0);
    assert_int_equal(again.size, 200);
    assert_false(has_item(node.id));
    assert_true(fake_mount_settle(&mount));
    assert_int_equal(fake_pinner_count(&mount.pinner, TASK_RELEASE, node.id),
                     1);
    assert_int_equal(inodes_get_known(inodes, node.id, &again), 0);
    assert_int_equal(again.size, 200);

    snprintf(path, sizeof(path), "%s/file", mount.dataset);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(inodes_refresh(inodes, node.id, &again), -ENOENT);
}

/* A file of another mount is compared at its first lookup, and what still holds
 * is kept. */
static void a_new_mount_compares(void **state)
{
    struct node same, other, node;

    (void)state;
    write_file("same", 100);
    write_file("other", 100);
    same = look_up(HASH_ROOT_ID, "same");
    other = look_up(HASH_ROOT_ID, "other");
    put_item(same.id);
    put_item(other.id);
    write_file("other", 200);
    atomic_store(&mount.shared->serial, 2);
    assert_int_equal(inodes_lookup_known(inodes, HASH_ROOT_ID, "same", &node),
                     -ENOENT);
    same = look_up(HASH_ROOT_ID, "same");
    other = look_up(HASH_ROOT_ID, "other");
    assert_true(inodes_is_fresh(inodes, &same));
    assert_int_equal(inodes_lookup_known(inodes, HASH_ROOT_ID, "same", &node),
                     0);
    assert_int_equal(inodes_lookup_known(inodes, HASH_ROOT_ID, "other", &node),
                     0);
    assert_int_equal(node.size, 200);
    assert_true(has_item(same.id));
    assert_false(has_item(other.id));
    assert_true(fake_mount_settle(&mount));
}

/* Until what was written just now is old enough to be believed. */
static void wait_settled(const struct node *node)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t left = node_unsettled_ns(node, now);
    assert_true(left > 0);
    clock_sleep_ns(left);
}

static bool is_marked(uint64_t id)
{
    struct node node;

    assert_int_equal(inodes_get_known(inodes, id, &node), 0);
    return node.flags & NODE_CHANGED;
}

static void a_changed_file_is_marked_until_confirmed(void **state)
{
    struct node node, again;

    (void)state;
    write_file("file", 100);
    node = look_up(HASH_ROOT_ID, "file");
    put_item(node.id);
    write_file("file", 200);
    inodes_changed(inodes, &node, "file");
    assert_int_equal(atomic_load(&mount.shared->metrics.changed_files), 1);
    assert_false(has_item(node.id));
    assert_int_equal(inodes_get_known(inodes, node.id, &again), 0);
    assert_true(again.flags & NODE_CHANGED);
    assert_false(inodes_is_fresh(inodes, &again));
    assert_int_equal(inodes_lookup_known(inodes, HASH_ROOT_ID, "file", &again),
                     -ENOENT);
    /* every reader that meets it has the pinner asked again */
    inodes_changed(inodes, &node, "file");
    assert_int_equal(atomic_load(&mount.shared->metrics.changed_files), 1);
    assert_true(fake_mount_settle(&mount));
    assert_int_equal(fake_pinner_count(&mount.pinner, TASK_RELEASE, node.id),
                     2);

    again = look_up(HASH_ROOT_ID, "file");
    assert_int_equal(again.size, 200);
    assert_true(again.flags & NODE_CHANGED);
    assert_int_equal(inodes_refresh(inodes, node.id, &again), 0);
    assert_true(again.flags & NODE_CHANGED);

    /* the writer may still be at it, and the kernel has the old pages */
    assert_true(inodes_must_drop(&again));
    inodes_dropped(inodes, node.id, node_version(&again));
    assert_int_equal(inodes_get_known(inodes, node.id, &again), 0);
    assert_false(inodes_must_drop(&again));
    inodes_confirm(inodes, &again);
    assert_true(is_marked(node.id));
    wait_settled(&again);
    inodes_confirm(inodes, &again);
    assert_false(is_marked(node.id));
    assert_int_equal(inodes_get_known(inodes, node.id, &again), 0);
    assert_int_equal(again.size, 200);
    inodes_confirm(inodes, &again);
    inodes_dropped(inodes, node.id, node_version(&again));
    assert_int_equal(inodes_get_known(inodes, node.id, &again), 0);
    assert_false(again.flags & NODE_DROPPED);
    /* It may change again: in this mount the source is asked each time. */
    assert_false(inodes_is_fresh(inodes, &again));
    again = look_up(HASH_ROOT_ID, "file");
    assert_false(inodes_is_fresh(inodes, &again));
    atomic_store(&mount.shared->serial, 2);
    again = look_up(HASH_ROOT_ID, "file");
    assert_true(inodes_is_fresh(inodes, &again));
    assert_true(fake_mount_settle(&mount));
}

/* What was dropped of one version says nothing of another, whose pages may have
 * come in between. */
static void a_mark_needs_its_own_pages_dropped(void **state)
{
    struct node first, second;

    (void)state;
    write_file("file", 100);
    look_up(HASH_ROOT_ID, "file");
    write_file("file", 200);
    first = look_up(HASH_ROOT_ID, "file");
    write_file("file", 300);
    second = look_up(HASH_ROOT_ID, "file");
    inodes_dropped(inodes, first.id, node_version(&first));
    wait_settled(&second);
    inodes_confirm(inodes, &second);
    assert_true(is_marked(second.id));
    inodes_dropped(inodes, second.id, node_version(&second));
    inodes_confirm(inodes, &second);
    assert_false(is_marked(second.id));
    assert_true(fake_mount_settle(&mount));
}

/* Who still has the old record must not take the new one for changed, nor the
 * new one's mark for told. */
static void an_old_record_says_nothing_of_a_newer_one(void **state)
{
    struct node old, node, now;

    (void)state;
    write_file("file", 100);
    old = look_up(HASH_ROOT_ID, "file");
    write_file("file", 200);
    node = look_up(HASH_ROOT_ID, "file");
    inodes_dropped(inodes, node.id, node_version(&node));
    wait_settled(&node);
    inodes_confirm(inodes, &node);
    node.flags &= ~(uint32_t)NODE_CHANGED;
    put_item(node.id);
    inodes_changed(inodes, &old, "file");
    assert_int_equal(inodes_get_known(inodes, node.id, &now), 0);
    assert_false(now.flags & NODE_CHANGED);
    assert_int_equal(now.size, 200);
    assert_true(has_item(node.id));

    inodes_changed(inodes, &node, "file");
    old.flags |= NODE_CHANGED;
    inodes_confirm(inodes, &old);
    assert_int_equal(inodes_get_known(inodes, node.id, &now), 0);
    assert_true(now.flags & NODE_CHANGED);
    assert_true(fake_mount_settle(&mount));
}

static void unlink_file(const char *name)
{
    char path[PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/%s", mount.dataset, name);
    assert_int_equal(unlink(path), 0);
}

static void a_file_may_become_a_folder(void **state)
{
    (void)state;
    write_file("thing", 100);
    struct node node = look_up(HASH_ROOT_ID, "thing");
    put_item(node.id);
    unlink_file("thing");
    make_folder("thing");
    write_file("thing/file", 1);
    node = look_up(HASH_ROOT_ID, "thing");
    assert_true(S_ISDIR(node.mode));
    assert_false(has_item(node.id));
    assert_int_equal(known_items(), 0);
    look_up(node.id, "file");
    assert_true(fake_mount_settle(&mount));
}

static void a_removed_file_gives_its_room_back(void **state)
{
    struct node node, gone;

    (void)state;
    write_file("file", 100);
    write_file("other", 100);
    node = look_up(HASH_ROOT_ID, "file");
    gone = look_up(HASH_ROOT_ID, "other");
    put_item(node.id);
    put_item(gone.id);
    unlink_file("file");
    unlink_file("other");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(inodes_lookup(inodes, HASH_ROOT_ID, "file", &node),
                         -ENOENT);
        assert_int_equal(inodes_refresh(inodes, gone.id, &gone), -ENOENT);
    }
    assert_int_equal(inodes_lookup(inodes, HASH_ROOT_ID, "never", &node),
                     -ENOENT);
    uint64_t id = hash_path("file", 4);
    assert_false(has_item(id));
    assert_false(has_item(gone.id));
    assert_int_equal(known_items(), 0);
    assert_true(fake_mount_settle(&mount));
    assert_int_equal(fake_pinner_count(&mount.pinner, TASK_RELEASE, id), 1);

    write_file("file", 200);
    node = look_up(HASH_ROOT_ID, "file");
    assert_int_equal(node.size, 200);
    assert_true(is_marked(id)); /* the kernel may have pages of the old one */
    assert_int_equal(known_items(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        inode_test(a_refresh_takes_over_attributes),
        inode_test(a_new_mount_compares),
        inode_test(a_changed_file_is_marked_until_confirmed),
        inode_test(a_mark_needs_its_own_pages_dropped),
        inode_test(an_old_record_says_nothing_of_a_newer_one),
        inode_test(a_file_may_become_a_folder),
        inode_test(a_removed_file_gives_its_room_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
