/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "cache/record.h"

static struct item_sums make_sums(uint32_t count)
{
    struct item_sums sums = {.count = count};

    for (uint32_t i = 0; i < count; i++)
        sums.sum[i] = 0x0102030405060708ull * (i + 1);
    return sums;
}

static void items_come_back(void **state)
{
    static const struct {
        struct item item;
        uint32_t sums;
    } table[] = {
        {{.places = ITEM_IN_DRAM, .length = 1, .serial = 1}, 0},
        {{.places = ITEM_IN_DRAM, .length = 5, .version = 7, .checksum = 9}, 1},
        {{.places = ITEM_ON_NVME,
          .length = 300000,
          .segment = 3,
          .segment_offset = 1ull << 40},
         3},
        {{.places = ITEM_IN_DRAM | ITEM_ON_NVME,
          .length = UINT32_MAX,
          .segment = UINT32_MAX,
          .segment_offset = UINT64_MAX,
          .serial = UINT64_MAX,
          .version = UINT64_MAX,
          .checksum = UINT64_MAX},
         ITEM_CHUNKS},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct item *wanted = &table[i].item;
        struct item_sums sums = make_sums(table[i].sums), found;
        struct item item = {.id = 11, .extent = 12};
        char value[RECORD_BYTES];
        size_t bytes =
            record_pack_item(wanted, table[i].sums ? &sums : NULL, value);

        assert_true(bytes <= RECORD_BYTES);
        memset(&found, 0xff, sizeof(found));
        assert_int_equal(record_unpack_item(value, bytes, &item, &found), 0);
        assert_int_equal(item.id, 11);
        assert_int_equal(item.extent, 12);
        assert_int_equal(item.places, wanted->places);
        assert_int_equal(item.length, wanted->length);
        assert_int_equal(item.segment, wanted->segment);
        assert_int_equal(item.segment_offset, wanted->segment_offset);
        assert_int_equal(item.serial, wanted->serial);
        assert_int_equal(item.version, wanted->version);
        assert_int_equal(item.checksum, wanted->checksum);
        assert_int_equal(found.count, table[i].sums);
        assert_memory_equal(found.sum, sums.sum, table[i].sums * 8);
        assert_int_equal(record_unpack_item(value, bytes, &item, NULL), 0);
    }
}

static void segments_come_back(void **state)
{
    static const struct segment table[] = {
        {.bytes = 0},
        {.bytes = 1 << 20, .used_bytes = 4096, .item_bytes = 1, .items = 1},
        {.bytes = UINT64_MAX,
         .used_bytes = UINT64_MAX - 1,
         .item_bytes = UINT64_MAX - 2,
         .items = UINT64_MAX - 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct segment segment = {.number = 5};
        char value[RECORD_BYTES];
        size_t bytes = record_pack_segment(&table[i], value);

        assert_int_equal(record_unpack_segment(value, bytes, &segment), 0);
        assert_int_equal(segment.number, 5);
        assert_int_equal(segment.bytes, table[i].bytes);
        assert_int_equal(segment.used_bytes, table[i].used_bytes);
        assert_int_equal(segment.item_bytes, table[i].item_bytes);
        assert_int_equal(segment.items, table[i].items);
    }
}

static void listings_come_back(void **state)
{
    struct listing_head head = {UINT64_MAX, 3, {-5, 999999999}, {7, 8}, 9};
    struct listing_head found;
    struct listing_entry entry = {.id = UINT64_MAX, .type = DT_LNK}, read;
    char value[RECORD_BYTES];
    size_t bytes = record_pack_head(&head, value);

    (void)state;
    assert_int_equal(record_unpack_head(value, bytes, &found), 0);
    assert_int_equal(found.serial, UINT64_MAX);
    assert_int_equal(found.count, 3);
    assert_int_equal(found.mtime.tv_sec, -5);
    assert_int_equal(found.mtime.tv_nsec, 999999999);
    assert_int_equal(found.ctime.tv_sec, 7);
    assert_int_equal(found.ctime.tv_nsec, 8);
    assert_int_equal(found.source_ino, 9);

    for (size_t length = 1; length < NODE_NAME_BYTES; length += 127) {
        memset(entry.name, 'n', length);
        entry.name[length] = '\0';
        bytes = record_pack_entry(&entry, value);
        assert_int_equal(record_unpack_entry(value, bytes, &read), 0);
        assert_int_equal(read.id, UINT64_MAX);
        assert_int_equal(read.type, DT_LNK);
        assert_string_equal(read.name, entry.name);
    }
}

static void numbers_come_back(void **state)
{
    static const uint64_t table[] = {0, 1, 1ull << 33, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char value[RECORD_BYTES];
        uint64_t number = 77;
        size_t bytes = record_pack_number(table[i], value);
        assert_int_equal(record_unpack_number(value, bytes, &number), 0);
        assert_int_equal(number, table[i]);
    }
}

/* One of each, by number; its length. */
static size_t pack_any(int kind, char *value)
{
    struct item item = {.places = ITEM_ON_NVME, .length = 400000};
    struct item_sums sums = make_sums(4);
    struct segment segment = {.bytes = 9};
    struct listing_head head = {.count = 1};
    struct listing_entry entry = {.id = 1, .type = DT_REG, .name = "name"};

    return kind == 0   ? record_pack_item(&item, &sums, value)
           : kind == 1 ? record_pack_segment(&segment, value)
           : kind == 2 ? record_pack_head(&head, value)
           : kind == 3 ? record_pack_entry(&entry, value)
                       : record_pack_number(1, value);
}

static int unpack_any(int kind, const char *value, size_t bytes)
{
    struct item item;
    struct item_sums sums;
    struct segment segment;
    struct listing_head head;
    struct listing_entry entry;
    uint64_t number;

    return kind == 0   ? record_unpack_item(value, bytes, &item, &sums)
           : kind == 1 ? record_unpack_segment(value, bytes, &segment)
           : kind == 2 ? record_unpack_head(value, bytes, &head)
           : kind == 3 ? record_unpack_entry(value, bytes, &entry)
                       : record_unpack_number(value, bytes, &number);
}

/* In memory of just that length, so that a sanitizer sees what is read. */
static int unpack_exact(int kind, const char *value, size_t bytes)
{
    AUTO_FREE char *exact = malloc(bytes ? bytes : 1);

    assert_non_null(exact);
    memcpy(exact, value, bytes);
    return unpack_any(kind, exact, bytes);
}

static void what_is_cut_or_of_another_version_is_refused(void **state)
{
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        char value[RECORD_BYTES];
        size_t bytes = pack_any(kind, value);

        assert_int_equal(unpack_exact(kind, value, bytes), 0);
        assert_int_equal(unpack_exact(kind, value, 0), -EIO);
        assert_int_equal(unpack_exact(kind, value, 1), -EIO);
        /* a name has no length of its own */
        assert_int_equal(unpack_exact(kind, value, bytes - 1),
                         kind == 3 ? 0 : -EIO);
        value[0] ^= 0x40;
        assert_int_equal(unpack_exact(kind, value, bytes), -EIO);
    }
}

/* Whatever the disk gives back, nothing beyond a value is read or written. */
static void rubbish_is_survived(void **state)
{
    (void)state;
    srandom(1);
    for (int round = 0; round < 20000; round++) {
        char value[RECORD_BYTES];
        int kind = round % 5;
        size_t bytes = pack_any(kind, value);
        size_t kept = round % 3 ? bytes : (size_t)random() % (bytes + 1);

        for (int i = 0; i < 3; i++)
            value[(size_t)random() % bytes] = (char)random();
        int err = unpack_exact(kind, value, kept);
        assert_true(err == 0 || err == -EIO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        watched_test(items_come_back),
        watched_test(segments_come_back),
        watched_test(listings_come_back),
        watched_test(numbers_come_back),
        watched_test(what_is_cut_or_of_another_version_is_refused),
        watched_test(rubbish_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
