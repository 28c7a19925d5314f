/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <errno.h>

#include "cache/node.h"

static struct node sample(void)
{
    struct node node = {
        .id = 0x1122334455667788,
        .parent = UINT64_MAX,
        .serial = 7,
        .size = 1ULL << 42,
        .blocks = 12345,
        .rdev = 0x801,
        .source_ino = UINT64_MAX - 1,
        .mtime = {-1, 999999999},
        .ctime = {1LL << 40, 1},
        .mode = S_IFREG | 04755,
        .uid = UINT32_MAX,
        .gid = 1000,
        .nlink = 3,
        .blksize = 4096,
        .flags = NODE_CHANGED,
    };

    strcpy(node.name, "sample \xff.jpg");
    return node;
}

static void assert_same_node(const struct node *a, const struct node *b)
{
    assert_int_equal(a->parent, b->parent);
    assert_int_equal(a->serial, b->serial);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->blocks, b->blocks);
    assert_int_equal(a->rdev, b->rdev);
    assert_int_equal(a->source_ino, b->source_ino);
    assert_int_equal(a->mtime.tv_sec, b->mtime.tv_sec);
    assert_int_equal(a->mtime.tv_nsec, b->mtime.tv_nsec);
    assert_int_equal(a->ctime.tv_sec, b->ctime.tv_sec);
    assert_int_equal(a->ctime.tv_nsec, b->ctime.tv_nsec);
    assert_int_equal(a->mode, b->mode);
    assert_int_equal(a->uid, b->uid);
    assert_int_equal(a->gid, b->gid);
    assert_int_equal(a->nlink, b->nlink);
    assert_int_equal(a->blksize, b->blksize);
    assert_int_equal(a->flags, b->flags);
    assert_string_equal(a->name, b->name);
}

static void survives_packing(void **state)
{
    char value[NODE_PACKED_BYTES];
    struct node node = sample(), again = {.id = node.id};

    (void)state;
    size_t bytes = node_pack(&node, value);
    assert_true(bytes <= sizeof(value));
    assert_int_equal(node_unpack(value, bytes, &again), 0);
    assert_int_equal(again.id, node.id);
    assert_same_node(&again, &node);
}

static void names_of_every_length_fit(void **state)
{
    struct node node = sample(), again;

    (void)state;
    for (size_t length = 0; length < NODE_NAME_BYTES; length++) {
        char value[NODE_PACKED_BYTES];
        memset(node.name, 'n', length);
        node.name[length] = '\0';
        size_t bytes = node_pack(&node, value);
        assert_true(bytes <= sizeof(value));
        memset(&again, 0xee, sizeof(again));
        assert_int_equal(node_unpack(value, bytes, &again), 0);
        assert_string_equal(again.name, node.name);
    }
}

static void refuses_what_it_cannot_read(void **state)
{
    char value[NODE_PACKED_BYTES] = {0};
    struct node node = sample(), again;
    size_t bytes = node_pack(&node, value);
    size_t fixed = bytes - strlen(node.name);

    (void)state;
    for (size_t cut = 0; cut < fixed; cut++)
        assert_int_equal(node_unpack(value, cut, &again), -EIO);
    assert_int_equal(node_unpack(value, fixed, &again), 0);
    assert_string_equal(again.name, "");
    assert_int_equal(node_unpack(value, fixed + NODE_NAME_BYTES - 1, &again),
                     0);
    assert_int_equal(node_unpack(value, fixed + NODE_NAME_BYTES, &again), -EIO);
    value[0]++;
    assert_int_equal(node_unpack(value, bytes, &again), -EIO);
    value[0] = 0;
    assert_int_equal(node_unpack(value, bytes, &again), -EIO);
}

static void version_follows_what_tells_bytes_apart(void **state)
{
    const struct node node = sample();
    const uint64_t version = node_version(&node);
    struct node other = node;

    (void)state;
#define CHANGES(field)                                                         \
    do {                                                                       \
        other = node;                                                          \
        other.field++;                                                         \
        if (node_version(&other) == version)                                   \
            fail_msg("the same with another " #field);                         \
    } while (0)
#define STAYS(field)                                                           \
    do {                                                                       \
        other = node;                                                          \
        other.field++;                                                         \
        if (node_version(&other) != version)                                   \
            fail_msg("another with another " #field);                          \
    } while (0)
    CHANGES(size);
    CHANGES(source_ino);
    CHANGES(mtime.tv_sec);
    CHANGES(mtime.tv_nsec);
    CHANGES(ctime.tv_sec);
    CHANGES(ctime.tv_nsec);
    STAYS(id);
    STAYS(parent);
    STAYS(serial);
    STAYS(blocks);
    STAYS(rdev);
    STAYS(mode);
    STAYS(uid);
    STAYS(gid);
    STAYS(nlink);
    STAYS(blksize);
    STAYS(flags);
    STAYS(name[0]);
    /* fields are not mixed up with each other */
    other = node;
    other.mtime = node.ctime;
    other.ctime = node.mtime;
    assert_int_not_equal(node_version(&other), version);
}

static const struct stat source_stat = {
    .st_ino = 99,
    .st_mode = S_IFBLK | 0640,
    .st_nlink = 2,
    .st_uid = 5,
    .st_gid = 6,
    .st_rdev = 0x812,
    .st_size = (off_t)5 << 32,
    .st_blksize = 65536,
    .st_blocks = 777,
    .st_atim = {3, 4},
    .st_mtim = {1700000000, 123456789},
    .st_ctim = {1700000001, 987654321},
};

static void reports_what_the_source_said(void **state)
{
    struct node node = sample();
    struct stat st;

    (void)state;
    node_set_stat(&node, &source_stat);
    memset(&st, 0xee, sizeof(st));
    node_get_stat(&node, &st);
    assert_int_equal(st.st_ino, node.id);
    assert_int_equal(st.st_mode, source_stat.st_mode);
    assert_int_equal(st.st_nlink, source_stat.st_nlink);
    assert_int_equal(st.st_uid, source_stat.st_uid);
    assert_int_equal(st.st_gid, source_stat.st_gid);
    assert_int_equal(st.st_rdev, source_stat.st_rdev);
    assert_int_equal(st.st_size, source_stat.st_size);
    assert_int_equal(st.st_blksize, source_stat.st_blksize);
    assert_int_equal(st.st_blocks, source_stat.st_blocks);
    assert_memory_equal(&st.st_mtim, &source_stat.st_mtim, sizeof(st.st_mtim));
    assert_memory_equal(&st.st_ctim, &source_stat.st_ctim, sizeof(st.st_ctim));
    assert_memory_equal(&st.st_atim, &source_stat.st_mtim, sizeof(st.st_atim));
}

static void setting_attributes_leaves_the_rest(void **state)
{
    struct node node = sample(), before = node;

    (void)state;
    node_set_stat(&node, &source_stat);
    assert_int_equal(node.id, before.id);
    assert_int_equal(node.parent, before.parent);
    assert_int_equal(node.serial, before.serial);
    assert_int_equal(node.flags, before.flags);
    assert_string_equal(node.name, before.name);
    assert_int_equal(node_version(&node), node_stat_version(&source_stat));
    assert_int_not_equal(node_version(&before),
                         node_stat_version(&source_stat));
}

/* Two reports of one node must not differ in a byte, whatever happened to it
 * in between. */
static void reports_are_equal_to_the_byte(void **state)
{
    char value[NODE_PACKED_BYTES];
    struct node node = sample(), again = {.id = node.id};
    struct stat first, second;

    (void)state;
    node_set_stat(&node, &source_stat);
    node_get_stat(&node, &first);
    assert_int_equal(node_unpack(value, node_pack(&node, value), &again), 0);
    again.serial++;
    again.flags = 0;
    node_get_stat(&again, &second);
    assert_memory_equal(&first, &second, sizeof(first));
}

static void settles_a_quarter_of_a_second_after_its_last_time(void **state)
{
    static const struct {
        struct timespec mtime, ctime;
        uint64_t left_ms;
    } table[] = {
        {{1000, 0}, {1000, 0}, 250},
        {{999, 900000000}, {999, 900000000}, 150},
        {{5, 0}, {999, 900000000}, 150}, /* utime() set it back */
        {{999, 750000000}, {999, 750000000}, 0},
        {{998, 0}, {998, 0}, 0},
        {{0, 0}, {0, 0}, 0},
        {{-5000, 0}, {1000, 0}, 250},
        {{1000, 100000000}, {1000, 100000000}, 350}, /* another's clock */
        {{2000, 0}, {2000, 0}, 0},
        {{2000, 0}, {1000, 0}, 250},
        {{INT64_MAX, 0}, {INT64_MAX, 0}, 0},
    };
    struct timespec now = {1000, 0};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct node node = {.mtime = table[i].mtime, .ctime = table[i].ctime};
        assert_int_equal(node_unsettled_ns(&node, now),
                         table[i].left_ms * 1000000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        watched_test(survives_packing),
        watched_test(names_of_every_length_fit),
        watched_test(refuses_what_it_cannot_read),
        watched_test(version_follows_what_tells_bytes_apart),
        watched_test(reports_what_the_source_said),
        watched_test(setting_attributes_leaves_the_rest),
        watched_test(reports_are_equal_to_the_byte),
        watched_test(settles_a_quarter_of_a_second_after_its_last_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
