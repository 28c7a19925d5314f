/* SPDX-License-Identifier: Apache-2.0 */
/* The pinner's mappings by item: a hash table with open addressing, 32 bytes a
 * place, since there may be millions. For one thread. */
#ifndef FS_PINMAP_H
#define FS_PINMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/cleanup.h"

struct pinmap;

struct pinmap_entry {
    uint64_t id; /* 0: free */
    void *address;
    uint32_t extent;
    uint32_t length;
};

struct pinmap *pinmap_create(void);
void pinmap_destroy(struct pinmap *map);

/* -ENOMEM when the table cannot grow. The item must not be there yet. */
int pinmap_add(struct pinmap *map, uint64_t id, uint32_t extent, void *address,
               size_t length) MUST_CHECK;
bool pinmap_has(const struct pinmap *map, uint64_t id, uint32_t extent);

/* Removes an item and returns it; false when it is not there. */
bool pinmap_take(struct pinmap *map, uint64_t id, uint32_t extent,
                 struct pinmap_entry *entry);

/* Removes one item of a file, whichever. */
bool pinmap_take_any(struct pinmap *map, uint64_t id,
                     struct pinmap_entry *entry);

size_t pinmap_count(const struct pinmap *map);

#endif
