/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/inode_area.h"

#include <fcntl.h>

#include "util/hash.h"

enum { DEEP_NAME = 200, DEEP = 60, THREADS = 4, ROUNDS = 200 };

static void the_root_is_known(void **state)
{
    struct node node;
    struct stat st;
    char *path;

    (void)state;
    assert_int_equal(inodes_get_known(inodes, HASH_ROOT_ID, &node), 0);
    assert_int_equal(stat(mount.dataset, &st), 0);
    assert_int_equal(node.source_ino, st.st_ino);
    assert_true(S_ISDIR(node.mode));
    assert_true(inodes_is_fresh(inodes, &node));
    assert_int_equal(inodes_path_known(inodes, HASH_ROOT_ID, &path), 0);
    assert_string_equal(path, "");
    free(path);
    assert_int_equal(inodes_open_root(inodes), 0);
    atomic_store(&mount.shared->serial, 2);
    assert_false(inodes_is_fresh(inodes, &node));
    assert_int_equal(inodes_open_root(inodes), 0);
    assert_int_equal(inodes_get_known(inodes, HASH_ROOT_ID, &node), 0);
    assert_true(inodes_is_fresh(inodes, &node));
}

static void a_name_is_looked_up_once(void **state)
{
    struct node node, known;
    struct stat st;
    char *path, file[PATH_MAX + 64];

    (void)state;
    make_folder("dir");
    write_file("dir/file", 5000);
    struct node dir = look_up(HASH_ROOT_ID, "dir");
    assert_int_equal(dir.id, hash_path("dir", 3));
    assert_int_equal(inodes_lookup_known(inodes, dir.id, "file", &known),
                     -ENOENT);
    node = look_up(dir.id, "file");
    assert_int_equal(node.id, hash_path("dir/file", 8));
    assert_int_equal(node.parent, dir.id);
    assert_string_equal(node.name, "file");
    snprintf(file, sizeof(file), "%s/dir/file", mount.dataset);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(node_version(&node), node_stat_version(&st));

    assert_int_equal(inodes_lookup_known(inodes, dir.id, "file", &known), 0);
    assert_int_equal(known.id, node.id);
    assert_int_equal(inodes_get_known(inodes, node.id, &known), 0);
    assert_int_equal(known.size, 5000);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(inodes_path_known(inodes, node.id, &path), 0);
        assert_string_equal(path, "dir/file");
        free(path);
        new_inodes();
    }
}

static void what_is_not_there_is_not_found(void **state)
{
    char name[300];
    struct node node;
    char *path = NULL;

    (void)state;
    write_file("file", 1);
    assert_int_equal(inodes_lookup(inodes, HASH_ROOT_ID, "none", &node),
                     -ENOENT);
    assert_int_equal(inodes_get_known(inodes, 77, &node), -ENOENT);
    assert_int_equal(inodes_path_known(inodes, 77, &path), -ENOENT);
    assert_null(path);
    assert_int_equal(inodes_lookup(inodes, 77, "file", &node), -ESTALE);
    assert_int_equal(inodes_refresh(inodes, 77, &node), -ENOENT);
    struct node file = look_up(HASH_ROOT_ID, "file");
    assert_int_equal(inodes_lookup(inodes, file.id, "x", &node), -ENOTDIR);
    memset(name, 'n', 256);
    name[256] = '\0';
    assert_int_equal(inodes_lookup(inodes, HASH_ROOT_ID, name, &node),
                     -ENAMETOOLONG);
    name[255] = '\0';
    write_file(name, 1);
    look_up(HASH_ROOT_ID, name);
}

static void names_are_bytes(void **state)
{
    static const char *const names[] = {"\xff\xfe", " ", "a\nb", "\\x41",
                                        "..."};

    (void)state;
    for (int i = 0; i < 5; i++) {
        char *path;
        write_file(names[i], 1);
        struct node node = look_up(HASH_ROOT_ID, names[i]);
        assert_int_equal(inodes_path_known(inodes, node.id, &path), 0);
        assert_string_equal(path, names[i]);
        free(path);
    }
}

static void items_are_counted(void **state)
{
    static const struct {
        uint64_t size, items;
    } cases[] = {
        {0, 0},
        {1, 1},
        {FAKE_MOUNT_ITEM_BYTES, 1},
        {FAKE_MOUNT_ITEM_BYTES + 1, 2},
        {5ULL << 40, 5ULL << 20},
    };

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct node node = {.mode = S_IFREG, .size = cases[i].size};
        assert_int_equal(inodes_item_count(inodes, &node), cases[i].items);
        node.mode = S_IFDIR;
        assert_int_equal(inodes_item_count(inodes, &node), 0);
    }
    assert_int_equal(known_items(), 0);
    write_file("file", FAKE_MOUNT_ITEM_BYTES + 1);
    look_up(HASH_ROOT_ID, "file");
    assert_int_equal(known_items(), 2);
    look_up(HASH_ROOT_ID, "file");
    assert_int_equal(known_items(), 2);
    write_file("file", 10);
    look_up(HASH_ROOT_ID, "file");
    assert_int_equal(known_items(), 1);
    assert_true(fake_mount_settle(&mount));
}

/* ---- ids ---- */

static void two_paths_with_one_id_are_refused(void **state)
{
    struct node faked, node;

    (void)state;
    write_file("file", 100);
    faked = (struct node){.id = hash_path("file", 4),
                          .parent = 77,
                          .serial = 1,
                          .mode = S_IFREG,
                          .size = 5};
    strcpy(faked.name, "file");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(index_put_node(mount.index, &faked), 0);
        assert_int_equal(
            inodes_lookup_known(inodes, HASH_ROOT_ID, "file", &node), -ENOENT);
        expect_log(LOG_LEVEL_ERROR, "cannot be served");
        assert_int_equal(inodes_lookup(inodes, HASH_ROOT_ID, "file", &node),
                         -EIO);
        assert_int_equal(inodes_get_known(inodes, faked.id, &node), 0);
        assert_int_equal(node.size, 5); /* the first one is left as it is */
        faked.parent = HASH_ROOT_ID;
        strcpy(faked.name, "another");
    }
}

/* An index that leads in a circle must not hold a thread. */
static void a_loop_of_parents_ends(void **state)
{
    struct node a = {.id = 100, .parent = 101, .mode = S_IFDIR, .name = ""};
    struct node b = {.id = 101, .parent = 100, .mode = S_IFDIR, .name = ""};
    char *path = NULL;

    (void)state;
    assert_int_equal(index_put_node(mount.index, &a), 0);
    assert_int_equal(index_put_node(mount.index, &b), 0);
    assert_int_equal(inodes_path_known(inodes, 100, &path), -ELOOP);
    assert_null(path);
}

/* Makes a folder in each one, below PATH_MAX only for the first few; gives the
 * node of the last. */
static struct node go_deep(const char *name)
{
    struct node node = {.id = HASH_ROOT_ID};
    int fd = openat(mount.dataset_fd, ".", O_RDONLY | O_DIRECTORY);

    for (int i = 0; i < DEEP; i++) {
        assert_int_equal(mkdirat(fd, name, 0755), 0);
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY);
        assert_true(next >= 0);
        close(fd);
        fd = next;
        node = look_up(node.id, name);
    }
    int file = openat(fd, "file", O_CREAT | O_WRONLY, 0644);
    assert_true(file >= 0);
    assert_int_equal(write(file, "x", 1), 1);
    close(file);
    close(fd);
    return node;
}

static void paths_may_be_longer_than_path_max(void **state)
{
    char name[DEEP_NAME + 1];
    struct backing_file file;
    struct node again;

    (void)state;
    memset(name, 'd', DEEP_NAME);
    name[DEEP_NAME] = '\0';
    struct node deep = go_deep(name), node = look_up(deep.id, "file");
    for (int i = 0; i < 2; i++) {
        AUTO_FREE char *path = NULL;
        assert_int_equal(inodes_path_known(inodes, node.id, &path), 0);
        assert_int_equal(strlen(path), DEEP * (DEEP_NAME + 1) + 4);
        assert_string_equal(path + DEEP * (DEEP_NAME + 1), "file");
        assert_int_equal(node.id, hash_path(path, strlen(path)));
        assert_int_equal(backing_open(mount.backing, path, &file), 0);
        backing_close(&file);
        new_inodes();
    }
    assert_int_equal(inodes_refresh(inodes, node.id, &again), 0);
    assert_int_equal(again.size, 1);
    inodes_changed(inodes, &again, "a long path");
    assert_true(fake_mount_settle(&mount));
}

static void *look_up_all(void *data)
{
    bool *right = data;
    struct node dir, node;

    *right = true;
    for (int i = 0; i < 200; i++) {
        AUTO_FREE char *path = NULL;
        char name[16], wanted[32];
        snprintf(name, sizeof(name), "dir%d", i % 10);
        snprintf(wanted, sizeof(wanted), "%s/file", name);
        *right &= inodes_lookup(inodes, HASH_ROOT_ID, name, &dir) == 0 &&
                  inodes_lookup(inodes, dir.id, "file", &node) == 0 &&
                  inodes_lookup_known(inodes, dir.id, "file", &node) == 0 &&
                  inodes_path_known(inodes, node.id, &path) == 0 &&
                  strcmp(path, wanted) == 0;
    }
    return NULL;
}

static void threads_see_the_same(void **state)
{
    pthread_t threads[THREADS];
    bool right[THREADS];

    (void)state;
    for (int i = 0; i < 10; i++) {
        char name[32];
        snprintf(name, sizeof(name), "dir%d", i);
        make_folder(name);
        snprintf(name, sizeof(name), "dir%d/file", i);
        write_file(name, 1);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, look_up_all, &right[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_true(right[i]);
}

static char new_file[16];

static void *look_up_file(void *data)
{
    struct node node;

    *(int *)data = inodes_lookup(inodes, HASH_ROOT_ID, new_file, &node);
    return NULL;
}

/* Looks the file up in every thread at once. */
static void look_up_at_once(void)
{
    pthread_t threads[THREADS];
    int err[THREADS];

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, look_up_file, &err[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(err[i], 0);
}

/* Several threads may find one file unknown. */
static void a_new_file_is_counted_once(void **state)
{
    (void)state;
    for (unsigned round = 1; round <= ROUNDS; round++) {
        snprintf(new_file, sizeof(new_file), "file%u", round);
        write_file(new_file, 1);
        look_up_at_once();
        assert_int_equal(known_items(), round);
    }
}

static void a_changed_file_is_counted_once(void **state)
{
    (void)state;
    strcpy(new_file, "file");
    for (unsigned round = 1; round <= ROUNDS; round++) {
        write_file(new_file, round % 2 * FAKE_MOUNT_ITEM_BYTES + 1);
        look_up_at_once();
        assert_int_equal(known_items(), 1 + round % 2);
    }
    assert_true(fake_mount_settle(&mount));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        inode_test(the_root_is_known),
        inode_test(a_name_is_looked_up_once),
        inode_test(what_is_not_there_is_not_found),
        inode_test(names_are_bytes),
        inode_test(items_are_counted),
        inode_test(two_paths_with_one_id_are_refused),
        inode_test(a_loop_of_parents_ends),
        inode_test(paths_may_be_longer_than_path_max),
        inode_test(threads_see_the_same),
        inode_test(a_new_file_is_counted_once),
        inode_test(a_changed_file_is_counted_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
