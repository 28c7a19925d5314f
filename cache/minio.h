/* SPDX-License-Identifier: Apache-2.0 */
/* The MinIO policy of CoorDL (Mohan et al., VLDB 2021, section 4.1): items are
 * admitted as they are first read until the cache is full, and never evicted.
 * In an epoch every item is read exactly once in random order, so a resident
 * item is worth as much as any other; replacing one only costs its hit.
 *
 * Pure functions. */
#ifndef CACHE_MINIO_H
#define CACHE_MINIO_H

#include <stdbool.h>
#include <stdint.h>

struct minio_budget {
    uint64_t capacity_bytes;
    uint64_t used_bytes;     /* by items that are cached */
    uint64_t reserved_bytes; /* by items on their way in */
};

/* Whether an item that takes cost_bytes may be admitted. */
bool minio_admits(const struct minio_budget *budget, uint64_t cost_bytes);

/* What an item of length bytes costs in the pinned page cache: whole pages,
 * and what the kernel keeps per pinned file (a mapping, an inode, a dentry:
 * about 2 KB measured over 1.28 million files). */
uint64_t minio_dram_cost(uint64_t length);

#endif
