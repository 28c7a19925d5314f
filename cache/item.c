/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/item.h"

#include <assert.h>
#include <string.h>

#include "util/hash.h"

_Static_assert((int)ITEM_CHUNK_BYTES == (int)SHARED_CHUNK_BYTES,
               "a buffer has room for the checksums of its chunks");

static size_t chunk_bytes(size_t length, size_t offset)
{
    size_t left = length - offset;

    return left < ITEM_CHUNK_BYTES ? left : ITEM_CHUNK_BYTES;
}

uint32_t item_count(uint64_t size, uint64_t item_bytes)
{
    uint64_t count = size / item_bytes + (size % item_bytes != 0);

    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

uint32_t item_chunk_count(size_t length)
{
    return (uint32_t)((length + ITEM_CHUNK_BYTES - 1) / ITEM_CHUNK_BYTES);
}

uint64_t item_sum_of(const struct item_sums *sums)
{
    return sums->count == 1 ? sums->sum[0]
                            : hash_bytes((const char *)sums->sum,
                                         sums->count * sizeof(sums->sum[0]));
}

uint64_t item_sum(const char *bytes, size_t length, struct item_sums *sums)
{
    assert(item_chunk_count(length) <= ITEM_CHUNKS);
    sums->count = item_chunk_count(length);
    for (uint32_t i = 0; i < sums->count; i++) {
        size_t offset = (size_t)i * ITEM_CHUNK_BYTES;
        sums->sum[i] = hash_bytes(bytes + offset, chunk_bytes(length, offset));
    }
    return item_sum_of(sums);
}

bool item_chunks_match(const char *bytes, size_t length, uint32_t first,
                       const struct item_sums *sums)
{
    uint32_t count = item_chunk_count(length);

    if (first + count > sums->count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        size_t offset = (size_t)i * ITEM_CHUNK_BYTES;
        if (hash_bytes(bytes + offset, chunk_bytes(length, offset)) !=
            sums->sum[first + i])
            return false;
    }
    return true;
}

void item_of_buffer(struct shared *shared, const struct shared_buffer *buffer,
                    struct item *item, struct item_sums *sums)
{
    *item = (struct item){
        .id = buffer->id,
        .extent = buffer->extent,
        .length = buffer->length,
        .version = buffer->version,
        .checksum = buffer->checksum,
    };
    sums->count = item_chunk_count(buffer->length);
    if (sums->count <= ITEM_CHUNKS)
        memcpy(sums->sum, shared_buffer_sums(shared, buffer),
               sums->count * sizeof(sums->sum[0]));
    else
        sums->count = 0;
}
