/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <time.h>

#include "cache/pool.h"

enum { PAGE = 4096, PAGES = 61, STEPS = 200000 };

static struct pool *pool;

static int begin(void **state)
{
    watch_begin(state);
    pool = pool_create(PAGES * PAGE + 100); /* the rest is no page */
    return pool ? 0 : -1;
}

static int end(void **state)
{
    pool_destroy(pool);
    return watch_end(state);
}

static void gives_each_page_once(void **state)
{
    bool seen[PAGES] = {false};
    uint64_t offset;

    (void)state;
    for (int i = 0; i < PAGES; i++) {
        assert_true(pool_take(pool, PAGE, &offset));
        assert_int_equal(offset % PAGE, 0);
        assert_true(offset / PAGE < PAGES);
        assert_false(seen[offset / PAGE]);
        seen[offset / PAGE] = true;
    }
    offset = 77;
    assert_false(pool_take(pool, 1, &offset));
    assert_int_equal(offset, 77);
    pool_give(pool, 30 * PAGE, PAGE);
    assert_true(pool_take(pool, 1, &offset));
    assert_int_equal(offset, 30 * PAGE);
    assert_false(pool_take(pool, 1, &offset));
}

static void refuses_impossible_sizes(void **state)
{
    uint64_t offset;

    (void)state;
    assert_false(pool_take(pool, 0, &offset));
    assert_false(pool_take(pool, PAGES * PAGE + 1, &offset));
    assert_false(pool_take(pool, SIZE_MAX - PAGE, &offset));
    assert_true(pool_take(pool, PAGES * PAGE, &offset));
    assert_int_equal(offset, 0);
    pool_give(pool, 0, PAGES * PAGE);
    assert_true(pool_take(pool, PAGES * PAGE - PAGE + 1, &offset));
    assert_int_equal(offset, 0);
}

static void needs_one_run(void **state)
{
    uint64_t offset;

    (void)state;
    for (int i = 0; i < PAGES; i++)
        assert_true(pool_take(pool, PAGE, &offset));
    for (uint64_t i = 0; i < PAGES; i += 2)
        pool_give(pool, i * PAGE, PAGE);
    /* 31 pages are free, and no two side by side */
    assert_false(pool_take(pool, 2 * PAGE, &offset));
    pool_give(pool, 21 * PAGE, PAGE);
    assert_false(pool_take(pool, 4 * PAGE, &offset));
    assert_true(pool_take(pool, 3 * PAGE, &offset));
    assert_int_equal(offset, 20 * PAGE);
    for (int i = 0; i < 29; i++)
        assert_true(pool_take(pool, PAGE, &offset));
    assert_false(pool_take(pool, PAGE, &offset));
}

/* The run may lie across the place where the last search ended. */
static void finds_a_run_across_the_last_end(void **state)
{
    uint64_t first, second, offset;

    (void)state;
    assert_true(pool_take(pool, 20 * PAGE, &first));
    assert_true(pool_take(pool, 20 * PAGE, &second));
    pool_give(pool, first, 20 * PAGE);
    pool_give(pool, second, 20 * PAGE);
    assert_true(pool_take(pool, 60 * PAGE, &offset));
}

static void claims_what_is_free(void **state)
{
    uint64_t offset;

    (void)state;
    assert_true(pool_claim(pool, 10 * PAGE, 3 * PAGE));
    assert_false(pool_claim(pool, 10 * PAGE, PAGE));
    assert_false(pool_claim(pool, 12 * PAGE, 2 * PAGE));
    assert_false(pool_claim(pool, 8 * PAGE, 3 * PAGE));
    assert_true(pool_claim(pool, 13 * PAGE, 1));
    assert_true(pool_claim(pool, (PAGES - 1) * PAGE, PAGE));
    assert_true(pool_take(pool, 46 * PAGE, &offset));
    assert_int_equal(offset, 14 * PAGE);
    assert_true(pool_take(pool, 10 * PAGE, &offset));
    assert_int_equal(offset, 0);
    assert_false(pool_take(pool, PAGE, &offset));
}

static void claims_nothing_that_cannot_be(void **state)
{
    uint64_t offset;

    (void)state;
    assert_false(pool_claim(pool, 0, 0));
    assert_false(pool_claim(pool, 1, PAGE));
    assert_false(pool_claim(pool, PAGES * PAGE, PAGE));
    assert_false(pool_claim(pool, (PAGES - 1) * PAGE, PAGE + 1));
    assert_false(pool_claim(pool, 0, PAGES * PAGE + 1));
    assert_false(pool_claim(pool, UINT64_MAX - PAGE + 1, PAGE));
    assert_false(pool_claim(pool, UINT64_MAX & ~(uint64_t)(PAGE - 1), PAGE));
    assert_false(pool_claim(pool, 0, UINT32_MAX));
    assert_true(pool_take(pool, PAGES * PAGE, &offset));
}

/* The model: an array of owners, one per page. */
struct model {
    int owner[PAGES]; /* 0: free */
    struct run {
        uint64_t first, pages;
    } runs[PAGES + 1]; /* by owner */
};

static bool model_has_room(const struct model *model, uint64_t pages)
{
    uint64_t run = 0;

    for (int i = 0; i < PAGES; i++) {
        run = model->owner[i] == 0 ? run + 1 : 0;
        if (run == pages)
            return true;
    }
    return false;
}

static bool model_is_free(const struct model *model, uint64_t first,
                          uint64_t pages)
{
    if (first + pages > PAGES)
        return false;
    for (uint64_t i = first; i < first + pages; i++)
        if (model->owner[i] != 0)
            return false;
    return true;
}

static void model_set(struct model *model, int owner, uint64_t first,
                      uint64_t pages)
{
    model->runs[owner] = (struct run){first, pages};
    for (uint64_t i = first; i < first + pages; i++)
        model->owner[i] = owner;
}

static void model_give(struct model *model, int owner)
{
    struct run *run = &model->runs[owner];

    pool_give(pool, run->first * PAGE, run->pages * PAGE);
    for (uint64_t i = run->first; i < run->first + run->pages; i++)
        model->owner[i] = 0;
    run->pages = 0;
}

/* One random step for owner. */
static void step(struct model *model, int owner, unsigned random)
{
    uint64_t pages = 1 + random % 9, first = random / 16 % PAGES, offset;

    if (model->runs[owner].pages != 0) {
        model_give(model, owner);
    } else if (random & 1u << 16) {
        bool claimed = pool_claim(pool, first * PAGE, pages * PAGE);
        assert_int_equal(claimed, model_is_free(model, first, pages));
        if (claimed)
            model_set(model, owner, first, pages);
    } else if (pool_take(pool, pages * PAGE - random % 5, &offset)) {
        assert_int_equal(offset % PAGE, 0);
        assert_true(model_is_free(model, offset / PAGE, pages));
        model_set(model, owner, offset / PAGE, pages);
    } else {
        assert_false(model_has_room(model, pages));
    }
}

static void behaves_like_an_array_of_owners(void **state)
{
    unsigned seed = (unsigned)time(NULL);
    static struct model model;

    (void)state;
    print_message("seed %u\n", seed);
    srand48(seed);
    memset(&model, 0, sizeof(model));
    for (int i = 0; i < STEPS; i++) {
        unsigned random = (unsigned)mrand48();
        step(&model, 1 + (int)((unsigned)lrand48() % PAGES), random);
    }
    for (int owner = 1; owner <= PAGES; owner++)
        if (model.runs[owner].pages != 0)
            model_give(&model, owner);
    uint64_t offset;
    assert_true(pool_take(pool, PAGES * PAGE, &offset));
}

#define pool_test(function)                                                    \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        pool_test(gives_each_page_once),
        pool_test(refuses_impossible_sizes),
        pool_test(needs_one_run),
        pool_test(finds_a_run_across_the_last_end),
        pool_test(claims_what_is_free),
        pool_test(claims_nothing_that_cannot_be),
        pool_test(behaves_like_an_array_of_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
