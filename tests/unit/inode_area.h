/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes over a fake mount: a dataset in a folder of its own, with an index and
 * a cache. */
#ifndef TESTS_INODE_AREA_H
#define TESTS_INODE_AREA_H

#include "tests/unit/test_main.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "fs/inode.h"
#include "tests/fakes/fake_mount.h"

static struct fake_mount mount;
static struct inodes *inodes;

static inline int begin(void **state)
{
    watch_begin(state);
    fake_mount_open(&mount);
    inodes =
        inodes_create(mount.shared, mount.index, mount.cache, mount.backing);
    assert_non_null(inodes);
    assert_int_equal(inodes_open_root(inodes), 0);
    return 0;
}

static inline int end(void **state)
{
    inodes_destroy(inodes);
    fake_mount_close(&mount);
    log_set_level(LOG_LEVEL_INFO);
    return watch_end(state);
}

/* Forgets the paths that are remembered, as a new worker would have none. */
static inline void new_inodes(void)
{
    inodes_destroy(inodes);
    inodes =
        inodes_create(mount.shared, mount.index, mount.cache, mount.backing);
    assert_non_null(inodes);
}

static inline void write_file(const char *name, size_t length)
{
    AUTO_FREE char *bytes = calloc(1, length + 1);

    assert_non_null(bytes);
    temp_folder_write(mount.dataset, name, bytes, length);
}

static inline void make_folder(const char *name)
{
    char path[PATH_MAX + 128];

    snprintf(path, sizeof(path), "%s/%s", mount.dataset, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static inline struct node look_up(uint64_t parent, const char *name)
{
    struct node node;

    assert_int_equal(inodes_lookup(inodes, parent, name, &node), 0);
    return node;
}

static inline uint64_t known_items(void)
{
    return atomic_load(&mount.shared->metrics.known_items);
}

#define inode_test(function)                                                   \
    cmocka_unit_test_setup_teardown(function, begin, end)

#endif
