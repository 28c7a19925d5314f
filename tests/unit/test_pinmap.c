/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <time.h>

#include "fs/pinmap.h"

enum { IDS = 97, EXTENTS = 13, STEPS = 300000, MANY = 10000 };

static struct pinmap *map;

static int begin(void **state)
{
    watch_begin(state);
    map = pinmap_create();
    return map ? 0 : -1;
}

static int end(void **state)
{
    pinmap_destroy(map);
    return watch_end(state);
}

/* An address that names its item. */
static void *address_of(uint64_t id, uint32_t extent)
{
    return (char *)(uintptr_t)(id * 4096) + extent;
}

static void add(uint64_t id, uint32_t extent)
{
    assert_int_equal(
        pinmap_add(map, id, extent, address_of(id, extent), extent + 1), 0);
}

static void assert_entry(const struct pinmap_entry *entry, uint64_t id)
{
    assert_int_equal(entry->id, id);
    assert_ptr_equal(entry->address, address_of(id, entry->extent));
    assert_int_equal(entry->length, entry->extent + 1);
}

static void holds_what_was_added(void **state)
{
    struct pinmap_entry entry;

    (void)state;
    assert_int_equal(pinmap_count(map), 0);
    assert_false(pinmap_has(map, 5, 0));
    assert_false(pinmap_take(map, 5, 0, &entry));
    assert_false(pinmap_take_any(map, 5, &entry));
    add(5, 0);
    add(5, 7);
    assert_int_equal(pinmap_count(map), 2);
    assert_true(pinmap_has(map, 5, 0));
    assert_false(pinmap_has(map, 5, 1));
    assert_false(pinmap_has(map, 6, 0));
    assert_true(pinmap_take(map, 5, 7, &entry));
    assert_int_equal(entry.extent, 7);
    assert_entry(&entry, 5);
    assert_false(pinmap_take(map, 5, 7, &entry));
    assert_true(pinmap_take_any(map, 5, &entry));
    assert_entry(&entry, 5);
    assert_int_equal(pinmap_count(map), 0);
    add(5, 7);
    assert_int_equal(pinmap_count(map), 1);
}

static void takes_every_id_but_zero(void **state)
{
    static const uint64_t ids[] = {1, UINT64_MAX, 1ULL << 63, 1ULL << 20, 2};
    struct pinmap_entry entry;

    (void)state;
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(
            pinmap_add(map, ids[i], UINT32_MAX, &entry, UINT32_MAX), 0);
    for (size_t i = 0; i < 5; i++) {
        assert_true(pinmap_take(map, ids[i], UINT32_MAX, &entry));
        assert_ptr_equal(entry.address, &entry);
        assert_int_equal(entry.length, UINT32_MAX);
    }
}

static void many_extents_of_one_file(void **state)
{
    struct pinmap_entry entry;
    static bool seen[MANY];

    (void)state;
    add(77, 0);
    for (uint32_t i = 0; i < MANY; i++)
        add(78, i);
    assert_int_equal(pinmap_count(map), MANY + 1);
    for (uint32_t i = 1; i < MANY; i += 2) {
        assert_true(pinmap_take(map, 78, i, &entry));
        assert_int_equal(entry.extent, i);
    }
    while (pinmap_take_any(map, 78, &entry)) {
        assert_entry(&entry, 78);
        assert_int_equal(entry.extent % 2, 0);
        assert_false(seen[entry.extent]);
        seen[entry.extent] = true;
    }
    assert_int_equal(pinmap_count(map), 1);
    assert_true(pinmap_has(map, 77, 0));
}

static void grows_without_losing_any(void **state)
{
    struct pinmap_entry entry;

    (void)state;
    for (uint64_t i = 1; i <= 100000; i++)
        add(i * 0x100000001b3u, 0);
    assert_int_equal(pinmap_count(map), 100000);
    for (uint64_t i = 1; i <= 100000; i++) {
        assert_true(pinmap_take(map, i * 0x100000001b3u, 0, &entry));
        assert_entry(&entry, i * 0x100000001b3u);
    }
    assert_int_equal(pinmap_count(map), 0);
}

/* Which items the map should have; few ids, whose homes lie close together, so
 * that runs collide, wrap around and are moved back. */
struct model {
    uint64_t ids[IDS];
    bool has[IDS][EXTENTS];
    size_t count;
};

static bool has_any(const struct model *model, unsigned i)
{
    for (int extent = 0; extent < EXTENTS; extent++)
        if (model->has[i][extent])
            return true;
    return false;
}

static void step(struct model *model, unsigned i, uint32_t extent,
                 unsigned random)
{
    struct pinmap_entry entry;
    uint64_t id = model->ids[i];
    bool *has = &model->has[i][extent];

    assert_int_equal(pinmap_has(map, id, extent), *has);
    if (random % 16 == 0) {
        bool any = has_any(model, i);
        assert_int_equal(pinmap_take_any(map, id, &entry), any);
        if (!any)
            return;
        assert_entry(&entry, id);
        assert_true(model->has[i][entry.extent]);
        model->has[i][entry.extent] = false;
        model->count--;
    } else if (*has) {
        assert_true(pinmap_take(map, id, extent, &entry));
        assert_int_equal(entry.extent, extent);
        assert_entry(&entry, id);
        *has = false;
        model->count--;
    } else {
        assert_false(pinmap_take(map, id, extent, &entry));
        add(id, extent);
        *has = true;
        model->count++;
    }
    assert_int_equal(pinmap_count(map), model->count);
}

static void check_all(const struct model *model)
{
    for (unsigned i = 0; i < IDS; i++)
        for (uint32_t extent = 0; extent < EXTENTS; extent++)
            assert_int_equal(pinmap_has(map, model->ids[i], extent),
                             model->has[i][extent]);
}

static void behaves_like_a_table_of_flags(void **state)
{
    unsigned seed = (unsigned)time(NULL);
    static struct model model;

    (void)state;
    print_message("seed %u\n", seed);
    srand48(seed);
    memset(&model, 0, sizeof(model));
    for (unsigned i = 0; i < IDS; i++)
        model.ids[i] = i + 1 + ((uint64_t)(i % 3) << 40);
    for (int i = 0; i < STEPS; i++) {
        unsigned random = (unsigned)lrand48();
        step(&model, random % IDS, (uint32_t)lrand48() % EXTENTS,
             (unsigned)lrand48());
        if (i % 10000 == 0)
            check_all(&model);
    }
    check_all(&model);
}

#define map_test(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        map_test(holds_what_was_added),
        map_test(takes_every_id_but_zero),
        map_test(many_extents_of_one_file),
        map_test(grows_without_losing_any),
        map_test(behaves_like_a_table_of_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
