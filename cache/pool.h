/* SPDX-License-Identifier: Apache-2.0 */
/* Hands out runs of pages of the shared pool: next fit over a bitmap. Which
 * runs are taken is known from the buffers, so the bitmap is private and made
 * again by a new worker. The caller serialises the calls. */
#ifndef CACHE_POOL_H
#define CACHE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool;

struct pool *pool_create(size_t bytes);
void pool_destroy(struct pool *pool);

/* False when no run of that length is free. */
bool pool_take(struct pool *pool, size_t bytes, uint64_t *offset);

/* Marks a run that a predecessor took; false when it does not lie in the pool
 * or is taken already. */
bool pool_claim(struct pool *pool, uint64_t offset, size_t bytes);
void pool_give(struct pool *pool, uint64_t offset, size_t bytes);

#endif
