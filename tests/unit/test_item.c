/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/item.h"

#include "tests/unit/test_main.h"
#include "util/hash.h"

static char bytes[3 * ITEM_CHUNK_BYTES + 100];

static int fill(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 31 + i / 251);
    return 0;
}

static void chunks_are_counted(void **state)
{
    static const struct {
        size_t length;
        uint32_t count;
    } cases[] = {{0, 0},
                 {1, 1},
                 {ITEM_CHUNK_BYTES, 1},
                 {ITEM_CHUNK_BYTES + 1, 2},
                 {4 << 20, 32},
                 {64 << 20, ITEM_CHUNKS}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(item_chunk_count(cases[i].length), cases[i].count);
}

static void one_chunk_is_its_own_sum(void **state)
{
    struct item_sums sums;

    (void)state;
    assert_int_equal(item_sum(bytes, 1000, &sums), hash_bytes(bytes, 1000));
    assert_int_equal(sums.count, 1);
}

static void each_chunk_has_a_sum(void **state)
{
    struct item_sums sums;
    uint64_t all = item_sum(bytes, sizeof(bytes), &sums);

    (void)state;
    assert_int_equal(sums.count, 4);
    assert_int_equal(all, item_sum_of(&sums));
    assert_true(item_chunks_match(bytes, sizeof(bytes), 0, &sums));
    assert_true(item_chunks_match(bytes + ITEM_CHUNK_BYTES,
                                  2 * ITEM_CHUNK_BYTES, 1, &sums));
    assert_true(item_chunks_match(bytes + 3 * ITEM_CHUNK_BYTES, 100, 3, &sums));
    /* at another place, of another length, beyond the end */
    assert_false(item_chunks_match(bytes, ITEM_CHUNK_BYTES, 1, &sums));
    assert_false(item_chunks_match(bytes + 3 * ITEM_CHUNK_BYTES, 99, 3, &sums));
    assert_false(item_chunks_match(bytes, sizeof(bytes), 1, &sums));
    sums.sum[2]++;
    assert_int_not_equal(all, item_sum_of(&sums));
    assert_false(item_chunks_match(bytes, sizeof(bytes), 0, &sums));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_counted),
        cmocka_unit_test(one_chunk_is_its_own_sum),
        cmocka_unit_test(each_chunk_has_a_sum),
    };

    return cmocka_run_group_tests(tests, fill, NULL);
}
