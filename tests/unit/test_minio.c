/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include "cache/minio.h"

static const struct {
    uint64_t capacity, used, reserved, cost;
    bool admitted;
} admit_cases[] = {
    {0, 0, 0, 0, true},
    {0, 0, 0, 1, false},
    {100, 0, 0, 100, true},
    {100, 0, 0, 101, false},
    {100, 60, 0, 40, true},
    {100, 60, 0, 41, false},
    {100, 0, 60, 40, true},
    {100, 0, 60, 41, false},
    {100, 30, 30, 40, true},
    {100, 30, 30, 41, false},
    {100, 50, 50, 0, true},
    {100, 50, 50, 1, false},
    /* a smaller budget than what is held already */
    {100, 101, 0, 0, false},
    {100, 90, 20, 0, false},
    {0, 1, 0, 0, false},
    {UINT64_MAX, 0, 0, UINT64_MAX, true},
    {UINT64_MAX, 1, 0, UINT64_MAX, false},
    {1000, 10, 10, UINT64_MAX, false},
};

static void admits_what_fits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(admit_cases) / sizeof(admit_cases[0]); i++) {
        const struct minio_budget budget = {
            .capacity_bytes = admit_cases[i].capacity,
            .used_bytes = admit_cases[i].used,
            .reserved_bytes = admit_cases[i].reserved,
        };
        if (minio_admits(&budget, admit_cases[i].cost) !=
            admit_cases[i].admitted)
            fail_msg("row %zu", i);
    }
}

static const struct {
    uint64_t length, cost;
} cost_cases[] = {
    {0, 2048},
    {1, 4096 + 2048},
    {4095, 4096 + 2048},
    {4096, 4096 + 2048},
    {4097, 8192 + 2048},
    {110 * 1024, 112 * 1024 + 2048},
    {4 << 20, (4 << 20) + 2048},
    {(1ULL << 40) + 1, (1ULL << 40) + 4096 + 2048},
};

static void costs_whole_pages_and_the_kernels_part(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cost_cases) / sizeof(cost_cases[0]); i++)
        assert_int_equal(minio_dram_cost(cost_cases[i].length),
                         cost_cases[i].cost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        watched_test(admits_what_fits),
        watched_test(costs_whole_pages_and_the_kernels_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
