/* SPDX-License-Identifier: Apache-2.0 */
/* One byte per page instead of one bit: 16 KiB for the usual pool, and the
 * search for a run is a memchr over zeros and ones. */
#include "cache/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

struct pool {
    size_t pages;
    size_t next; /* where the last search ended */
    unsigned char taken[];
};

static size_t pages_of(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE;
}

struct pool *pool_create(size_t bytes)
{
    struct pool *pool = calloc(1, sizeof(*pool) + bytes / PAGE);

    if (pool)
        pool->pages = bytes / PAGE;
    return pool;
}

void pool_destroy(struct pool *pool)
{
    free(pool);
}

/* The first free run of count pages in [from, to), or to. */
static size_t find_run(const struct pool *pool, size_t from, size_t to,
                       size_t count)
{
    while (from + count <= to) {
        const unsigned char *begin = pool->taken + from;
        const unsigned char *block = memchr(begin, 1, count);
        if (!block)
            return from;
        const unsigned char *open =
            memchr(block, 0, to - (size_t)(block - pool->taken));
        if (!open)
            return to;
        from = (size_t)(open - pool->taken);
    }
    return to;
}

bool pool_take(struct pool *pool, size_t bytes, uint64_t *offset)
{
    size_t count = pages_of(bytes);
    if (count == 0 || count > pool->pages)
        return false;

    size_t first = find_run(pool, pool->next, pool->pages, count);
    if (first == pool->pages)
        first = find_run(pool, 0, pool->pages, count);
    if (first == pool->pages)
        return false;
    memset(pool->taken + first, 1, count);
    pool->next = first + count;
    *offset = (uint64_t)first * PAGE;
    return true;
}

bool pool_claim(struct pool *pool, uint64_t offset, size_t bytes)
{
    size_t first = offset / PAGE, count = pages_of(bytes);

    if (offset % PAGE != 0 || count == 0 || first > pool->pages ||
        count > pool->pages - first || memchr(pool->taken + first, 1, count))
        return false;
    memset(pool->taken + first, 1, count);
    return true;
}

void pool_give(struct pool *pool, uint64_t offset, size_t bytes)
{
    assert(offset / PAGE + pages_of(bytes) <= pool->pages);
    memset(pool->taken + offset / PAGE, 0, pages_of(bytes));
}
