/* SPDX-License-Identifier: Apache-2.0 */
/* Linear probing with deletion by moving back. The hash takes only the id, so
 * that the extents of a file lie in one run of places. */
#include "fs/pinmap.h"

#include <assert.h>
#include <errno.h>

enum { FIRST_PLACES = 1024 };

struct pinmap {
    struct pinmap_entry *places;
    size_t size; /* a power of two, at most 3/4 used */
    size_t count;
};

static size_t home(const struct pinmap *map, uint64_t id)
{
    return (size_t)((id * 0x9e3779b97f4a7c15u) >> 20) & (map->size - 1);
}

struct pinmap *pinmap_create(void)
{
    struct pinmap *map = calloc(1, sizeof(*map));

    if (!map)
        return NULL;
    map->size = FIRST_PLACES;
    map->places = calloc(map->size, sizeof(*map->places));
    if (!map->places) {
        free(map);
        return NULL;
    }
    return map;
}

void pinmap_destroy(struct pinmap *map)
{
    free(map->places);
    free(map);
}

static void put(struct pinmap *map, const struct pinmap_entry *entry)
{
    size_t i = home(map, entry->id);

    while (map->places[i].id != 0)
        i = (i + 1) & (map->size - 1);
    map->places[i] = *entry;
}

static int grow(struct pinmap *map)
{
    struct pinmap larger = {.size = map->size * 2, .count = map->count};

    larger.places = calloc(larger.size, sizeof(*larger.places));
    if (!larger.places)
        return -ENOMEM;
    for (size_t i = 0; i < map->size; i++)
        if (map->places[i].id != 0)
            put(&larger, &map->places[i]);
    free(map->places);
    *map = larger;
    return 0;
}

int pinmap_add(struct pinmap *map, uint64_t id, uint32_t extent, void *address,
               size_t length)
{
    struct pinmap_entry entry = {id, address, extent, (uint32_t)length};

    assert(id != 0 && !pinmap_has(map, id, extent));
    if (map->count >= map->size / 4 * 3) {
        int err = grow(map);
        if (err != 0)
            return err;
    }
    put(map, &entry);
    map->count++;
    return 0;
}

/* The place of an item (of any extent, if any), or map->size. */
static size_t find(const struct pinmap *map, uint64_t id, uint32_t extent,
                   bool any)
{
    for (size_t i = home(map, id); map->places[i].id != 0;
         i = (i + 1) & (map->size - 1))
        if (map->places[i].id == id && (any || map->places[i].extent == extent))
            return i;
    return map->size;
}

/* Empties a place, and moves back what had been pushed past it. */
static void remove_at(struct pinmap *map, size_t hole)
{
    size_t mask = map->size - 1;

    for (size_t i = (hole + 1) & mask; map->places[i].id != 0;
         i = (i + 1) & mask) {
        size_t wanted = home(map, map->places[i].id);
        if (((i - wanted) & mask) < ((i - hole) & mask))
            continue;
        map->places[hole] = map->places[i];
        hole = i;
    }
    map->places[hole].id = 0;
    map->count--;
}

static bool take(struct pinmap *map, size_t at, struct pinmap_entry *entry)
{
    if (at == map->size)
        return false;
    *entry = map->places[at];
    remove_at(map, at);
    return true;
}

bool pinmap_has(const struct pinmap *map, uint64_t id, uint32_t extent)
{
    return find(map, id, extent, false) != map->size;
}

bool pinmap_take(struct pinmap *map, uint64_t id, uint32_t extent,
                 struct pinmap_entry *entry)
{
    return take(map, find(map, id, extent, false), entry);
}

bool pinmap_take_any(struct pinmap *map, uint64_t id,
                     struct pinmap_entry *entry)
{
    return take(map, find(map, id, 0, true), entry);
}

size_t pinmap_count(const struct pinmap *map)
{
    return map->count;
}
