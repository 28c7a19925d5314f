/* SPDX-License-Identifier: Apache-2.0 */
/* The policy. It fits on a page; what makes it worth having is that nothing
 * else decides what is cached. */
#include "cache/minio.h"

enum {
    PAGE_BYTES = 4096,
    KERNEL_BYTES_PER_ITEM = 2048,
};

bool minio_admits(const struct minio_budget *budget, uint64_t cost_bytes)
{
    uint64_t taken = budget->used_bytes + budget->reserved_bytes;

    return taken <= budget->capacity_bytes &&
           cost_bytes <= budget->capacity_bytes - taken;
}

uint64_t minio_dram_cost(uint64_t length)
{
    uint64_t pages = (length + PAGE_BYTES - 1) / PAGE_BYTES;

    return pages * PAGE_BYTES + KERNEL_BYTES_PER_ITEM;
}
