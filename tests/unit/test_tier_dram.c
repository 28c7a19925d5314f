/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "cache/minio.h"
#include "cache/tier.h"

enum { COST = 4096 + 2048, STEPS = 100000, THREADS = 4, PLACES = 50 };

static struct config config = {.item_bytes = 4 << 20};
static struct shared *area;
static int area_fd;
static struct tier *tier;

/* One area for all tests: only what the tier writes is made new. */
static int begin(void **state)
{
    watch_begin(state);
    memset(&area->dram, 0, sizeof(area->dram));
    memset(&area->intent, 0, sizeof(area->intent));
    memset(shared_buffers(area), 0,
           SHARED_BUFFERS * sizeof(struct shared_buffer));
    atomic_store(&area->dram_refused, 0);
    atomic_store(&area->map_exhausted, 0);
    area->capacity_bytes = 10 * COST;
    tier = tier_dram_create(area);
    return tier ? 0 : -1;
}

static int end(void **state)
{
    tier->ops->destroy(tier);
    return watch_end(state);
}

static int group_begin(void **state)
{
    (void)state;
    return shared_create(&config, 1, &area_fd, &area);
}

static int group_end(void **state)
{
    (void)state;
    shared_detach(area);
    close(area_fd);
    return 0;
}

static int reserve(uint64_t length)
{
    struct tier_place place;

    return tier->ops->reserve(tier, length, &place);
}

static void restore(uint64_t length)
{
    assert_true(tier->ops->restore(tier, length, &(struct tier_place){0}));
}

static void give_back(uint64_t length)
{
    tier->ops->abort(tier, length, &(struct tier_place){0});
}

static void drop(uint32_t length)
{
    tier->ops->drop(tier, &(struct item){.length = length});
}

static void assert_account(uint64_t used, uint64_t bytes, uint64_t items)
{
    assert_int_equal(atomic_load(&area->dram.used_bytes), used);
    assert_int_equal(atomic_load(&area->dram.item_bytes), bytes);
    assert_int_equal(atomic_load(&area->dram.items), items);
}

/* What the worker does after a restart. */
static void new_tier(void)
{
    tier->ops->destroy(tier);
    tier = tier_dram_create(area);
    assert_non_null(tier);
}

static struct shared_buffer *buffer_of(int i, uint32_t length)
{
    struct shared_buffer *buffer = &shared_buffers(area)[i];

    buffer->length = length;
    buffer->accounted = 0;
    return buffer;
}

/* Reservations that are still granted; they are given back. */
static int room(void)
{
    int found = 0;

    while (reserve(1) == 0)
        found++;
    for (int i = 0; i < found; i++)
        give_back(1);
    return found;
}

static void reserves_up_to_its_budget(void **state)
{
    (void)state;
    assert_string_equal(tier->ops->name, "dram");
    assert_int_equal(reserve(4096), 0);
    assert_int_equal(room(), 9);
    assert_int_equal(atomic_load(&area->dram_refused), 1);
    assert_int_equal(reserve(4097), 0);
    assert_int_equal(room(), 7);
    give_back(4097);
    give_back(4096);
    assert_int_equal(room(), 10);
    assert_int_equal(reserve(1ULL << 40), -ENOSPC);
    assert_account(0, 0, 0);
}

static void commits_what_was_reserved(void **state)
{
    struct shared_buffer *buffer = buffer_of(7, 100);

    (void)state;
    assert_int_equal(reserve(100), 0);
    tier->ops->commit(tier, buffer);
    assert_account(COST, 100, 1);
    assert_int_equal(buffer->accounted, 1);
    assert_int_equal(atomic_load(&area->intent.valid), 0);
    assert_int_equal(room(), 9);
    new_tier();
    assert_account(COST, 100, 1);
    assert_int_equal(room(), 9);
    drop(100);
    assert_account(0, 0, 0);
    assert_int_equal(room(), 10);
    /* there is nothing to drop */
    drop(100);
    assert_account(0, 0, 0);
}

static void a_drop_ends_being_full(void **state)
{
    (void)state;
    assert_int_equal(reserve(1), 0);
    tier->ops->commit(tier, buffer_of(0, 1));
    assert_int_equal(room(), 9);
    assert_int_equal(atomic_load(&area->dram_refused), 1);
    drop(1);
    assert_int_equal(atomic_load(&area->dram_refused), 0);
}

static void refuses_when_the_pinner_can_map_no_more(void **state)
{
    (void)state;
    atomic_store(&area->map_exhausted, 1);
    assert_int_equal(reserve(1), -ENOSPC);
    assert_int_equal(atomic_load(&area->dram_refused), 1);
    atomic_store(&area->map_exhausted, 0);
    assert_int_equal(reserve(1), 0);
    give_back(1);
}

static void refuses_when_nothing_can_be_pinned_any_more(void **state)
{
    _Atomic uint32_t *reasons[] = {&area->orphaned, &area->pinner_failed};

    (void)state;
    for (int i = 0; i < 2; i++) {
        atomic_store(reasons[i], 1);
        assert_int_equal(reserve(1), -ENOSPC);
        atomic_store(reasons[i], 0);
        assert_int_equal(room(), 10);
    }
}

/* A worker's buffers come back to its successor, whatever the policy says. */
static void restores_what_was_granted(void **state)
{
    (void)state;
    atomic_store(&area->map_exhausted, 1);
    area->capacity_bytes = COST;
    restore(100);
    restore(200);
    tier->ops->commit(tier, buffer_of(0, 100));
    give_back(200);
    assert_account(COST, 100, 1);
    atomic_store(&area->map_exhausted, 0);
    area->capacity_bytes = 10 * COST;
    assert_int_equal(room(), 9);
}

static void never_counts_below_nothing(void **state)
{
    (void)state;
    restore(100);
    tier->ops->commit(tier, buffer_of(0, 100));
    drop(101);
    drop(5000);
    assert_account(COST, 100, 1);
    drop(100);
    drop(0);
    assert_account(0, 0, 0);
}

static void refuses_all_without_a_budget(void **state)
{
    (void)state;
    area->capacity_bytes = 0;
    assert_int_equal(reserve(0), -ENOSPC);
    /* a smaller budget than what is in the account already */
    atomic_store(&area->dram.used_bytes, 10 * COST);
    area->capacity_bytes = 5 * COST;
    assert_int_equal(reserve(1), -ENOSPC);
}

/* ---- deaths ---- */

/* The account held two items of 100 bytes; buffer 3, of 5000, was the third. */
static void stage_a_death(bool valid, unsigned applied)
{
    uint64_t cost = minio_dram_cost(5000);

    buffer_of(3, 5000);
    area->intent.used_bytes = 2 * COST + cost;
    area->intent.item_bytes = 200 + 5000;
    area->intent.items = 3;
    area->intent.buffer = 3;
    atomic_store(&area->intent.valid, valid);
    atomic_store(&area->dram.used_bytes, 2 * COST + (applied & 1 ? cost : 0));
    atomic_store(&area->dram.item_bytes, 200 + (applied & 2 ? 5000 : 0));
    atomic_store(&area->dram.items, 2 + (applied & 4 ? 1 : 0));
    shared_buffers(area)[3].accounted = applied & 8 ? 1 : 0;
}

static void a_death_anywhere_in_a_commit_is_made_good(void **state)
{
    (void)state;
    for (unsigned applied = 0; applied < 16; applied++) {
        stage_a_death(true, applied);
        for (int lives = 0; lives < 3; lives++) {
            new_tier();
            assert_account(2 * COST + minio_dram_cost(5000), 5200, 3);
            assert_int_equal(shared_buffers(area)[3].accounted, 1);
            assert_int_equal(atomic_load(&area->intent.valid), 0);
        }
    }
}

static void a_death_before_the_intent_changes_nothing(void **state)
{
    (void)state;
    stage_a_death(false, 0);
    new_tier();
    assert_account(2 * COST, 200, 2);
    assert_int_equal(shared_buffers(area)[3].accounted, 0);
    /* the next worker commits it again, once */
    area->capacity_bytes = 100 * COST;
    assert_int_equal(reserve(5000), 0);
    tier->ops->commit(tier, &shared_buffers(area)[3]);
    assert_account(2 * COST + minio_dram_cost(5000), 5200, 3);
}

/* An old intent must not come back with the next death. */
static void an_intent_is_applied_once(void **state)
{
    (void)state;
    area->capacity_bytes = 100 * COST;
    stage_a_death(true, 5);
    new_tier();
    assert_int_equal(reserve(1), 0);
    tier->ops->commit(tier, buffer_of(4, 1));
    drop(5000);
    new_tier();
    assert_account(3 * COST, 201, 3);
    assert_int_equal(shared_buffers(area)[4].accounted, 1);
}

static void an_intent_without_a_buffer_is_applied(void **state)
{
    static const uint32_t places[] = {SHARED_BUFFERS, SHARED_BUFFERS + 1,
                                      UINT32_MAX};

    (void)state;
    for (int i = 0; i < 3; i++) {
        stage_a_death(true, 0);
        area->intent.buffer = places[i];
        new_tier();
        assert_account(2 * COST + minio_dram_cost(5000), 5200, 3);
        for (int j = 0; j < SHARED_BUFFERS; j++)
            assert_int_equal(shared_buffers(area)[j].accounted, 0);
    }
}

/* ---- any order ---- */

/* What each place has: 0 nothing, 1 a reservation, 2 a cached item. */
struct model {
    int has[PLACES];
    uint32_t length[PLACES];
    uint64_t cost[3];
    uint64_t bytes, items;
};

static void move(struct model *model, int i, int to)
{
    uint64_t cost = minio_dram_cost(model->length[i]);

    if (model->has[i] == 2) {
        model->bytes -= model->length[i];
        model->items--;
    }
    model->cost[model->has[i]] -= cost;
    model->cost[to] += cost;
    model->has[i] = to;
    if (to == 2) {
        model->bytes += model->length[i];
        model->items++;
    }
}

static void step(struct model *model, int i, unsigned random)
{
    if (model->has[i] == 1 && random % 2 == 0) {
        tier->ops->commit(tier, buffer_of(i, model->length[i]));
        move(model, i, 2);
    } else if (model->has[i] == 1) {
        give_back(model->length[i]);
        move(model, i, 0);
    } else if (model->has[i] == 2) {
        drop(model->length[i]);
        move(model, i, 0);
    } else {
        model->length[i] = random % 20000;
        uint64_t cost = minio_dram_cost(model->length[i]);
        int err = reserve(model->length[i]);
        assert_int_equal(err, model->cost[1] + model->cost[2] + cost <=
                                      area->capacity_bytes
                                  ? 0
                                  : -ENOSPC);
        if (err == 0)
            move(model, i, 1);
    }
}

static void never_holds_more_than_its_budget(void **state)
{
    unsigned seed = (unsigned)time(NULL);
    struct model model = {.items = 0};

    (void)state;
    print_message("seed %u\n", seed);
    srand48(seed);
    area->capacity_bytes = 20 * COST;
    for (int i = 0; i < STEPS; i++) {
        step(&model, (int)((unsigned)lrand48() % PLACES), (unsigned)lrand48());
        assert_account(model.cost[2], model.bytes, model.items);
        assert_true(model.cost[1] + model.cost[2] <= area->capacity_bytes);
    }
}

static _Atomic bool exceeded;

static void *hammer(void *data)
{
    int place = *(int *)data;

    for (uint32_t i = 0; i < STEPS / 10; i++) {
        uint32_t length = i % 30000;
        if (reserve(length) != 0)
            continue;
        if (i % 3 == 0) {
            give_back(length);
            continue;
        }
        tier->ops->commit(tier, buffer_of(place, length));
        if (atomic_load(&area->dram.used_bytes) > area->capacity_bytes)
            atomic_store(&exceeded, true);
        drop(length);
    }
    return NULL;
}

static void threads_do_not_lose_count(void **state)
{
    pthread_t threads[THREADS];
    int places[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        places[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &places[i]),
                         0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_false(atomic_load(&exceeded));
    assert_account(0, 0, 0);
    assert_int_equal(room(), 10);
}

#define tier_test(function)                                                    \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        tier_test(reserves_up_to_its_budget),
        tier_test(commits_what_was_reserved),
        tier_test(a_drop_ends_being_full),
        tier_test(refuses_when_the_pinner_can_map_no_more),
        tier_test(refuses_when_nothing_can_be_pinned_any_more),
        tier_test(restores_what_was_granted),
        tier_test(never_counts_below_nothing),
        tier_test(refuses_all_without_a_budget),
        tier_test(a_death_anywhere_in_a_commit_is_made_good),
        tier_test(a_death_before_the_intent_changes_nothing),
        tier_test(an_intent_is_applied_once),
        tier_test(an_intent_without_a_buffer_is_applied),
        tier_test(never_holds_more_than_its_budget),
        tier_test(threads_do_not_lose_count),
    };
    return cmocka_run_group_tests(tests, group_begin, group_end);
}
