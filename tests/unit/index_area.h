/* SPDX-License-Identifier: Apache-2.0 */
/* An index in a folder of its own, on a disk that can be made to fail: by a
 * limit on the size of files, which a process may set for itself and lift. */
#ifndef TESTS_INDEX_AREA_H
#define TESTS_INDEX_AREA_H

#include "tests/unit/test_main.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "cache/index.h"
#include "tests/fakes/temp_folder.h"

static char folder[PATH_MAX];
static char index_folder[PATH_MAX + 16];
static struct index *idx;

static inline void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static inline void open_index(void)
{
    bool damaged = true;

    assert_int_equal(index_open(index_folder, true, &idx, &damaged), 0);
    assert_false(damaged);
}

static inline void close_index(void)
{
    index_close(idx);
    idx = NULL;
}

static inline int begin(void **state)
{
    watch_begin(state);
    signal(SIGXFSZ, SIG_IGN);
    temp_folder_make(NULL, folder);
    snprintf(index_folder, sizeof(index_folder), "%s/index", folder);
    open_index();
    return 0;
}

static inline int end(void **state)
{
    limit_files(RLIM_INFINITY);
    if (idx)
        close_index();
    temp_folder_remove(folder);
    return watch_end(state);
}

static inline void put_node(uint64_t id, int64_t size)
{
    struct node node = {.id = id, .parent = 1, .size = (uint64_t)size};

    snprintf(node.name, sizeof(node.name), "n%llu", (unsigned long long)id);
    assert_int_equal(index_put_node(idx, &node), 0);
}

/* -1: there is none. */
static inline void assert_node(uint64_t id, int64_t size)
{
    struct node node;
    int err = index_get_node(idx, id, &node);

    assert_int_equal(err, size < 0 ? -ENOENT : 0);
    if (size >= 0)
        assert_int_equal(node.size, size);
}

/* What a walk met, in its order. */
static char met[256];

static inline bool meet(uint64_t a, uint64_t b)
{
    size_t n = strlen(met);

    snprintf(met + n, sizeof(met) - n, "%llu:%llu ", (unsigned long long)a,
             (unsigned long long)b);
    return true;
}

static inline bool visit_node(const struct node *node, void *data)
{
    (void)data;
    return meet(node->id, node->size);
}

static inline void assert_nodes(const char *wanted)
{
    met[0] = '\0';
    assert_int_equal(index_each_node(idx, visit_node, NULL), 0);
    assert_string_equal(met, wanted);
}

static inline void assert_number(const char *name, uint64_t wanted)
{
    uint64_t number;

    assert_int_equal(index_get_number(idx, name, &number), 0);
    assert_int_equal(number, wanted);
}

/* The next write finds a disk that takes nothing. */
static inline void break_disk(void)
{
    expect_log(LOG_LEVEL_WARN, "the cache directory cannot be written");
    limit_files(0);
}

static inline void mend_disk(void)
{
    limit_files(RLIM_INFINITY);
    assert_int_equal(index_heal(idx), 0);
    assert_false(index_is_degraded(idx));
}

#define index_test(function)                                                   \
    cmocka_unit_test_setup_teardown(function, begin, end)

#endif
