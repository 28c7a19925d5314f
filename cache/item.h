/* SPDX-License-Identifier: Apache-2.0 */
/* An item: a file of up to item-bytes, or an aligned part of a longer one; and
 * the checksums of its chunks. Pure functions. */
#ifndef CACHE_ITEM_H
#define CACHE_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/shared.h"

/* Where an item is, as bits: it may be at both places. */
enum item_place { ITEM_IN_DRAM = 1, ITEM_ON_NVME = 2 };

/* Checksums are of parts of an item, so that a part can be read and verified
 * by itself. */
enum {
    ITEM_CHUNK_BYTES = 128 << 10,
    ITEM_CHUNKS = 512, /* of the longest item */
};

struct item {
    uint64_t id;
    uint32_t extent;
    uint32_t places;
    uint32_t length;
    uint32_t segment; /* on NVMe: which segment, and where in it */
    uint64_t segment_offset;
    uint64_t serial;   /* in DRAM: of the mount that pinned it */
    uint64_t version;  /* of the file that the bytes are from */
    uint64_t checksum; /* of its one chunk, or of its chunks' checksums */
};

/* XXH3-64 of each chunk. */
struct item_sums {
    uint32_t count;
    uint64_t sum[ITEM_CHUNKS];
};

/* A segment file of the NVMe tier. Its number is never used again. */
struct segment {
    uint32_t number;
    uint64_t bytes;      /* of the file */
    uint64_t used_bytes; /* all before this offset was given out */
    uint64_t item_bytes; /* of the items that the index has in it */
    uint64_t items;
};

/* How many items of up to item_bytes a file of size bytes has; those that have
 * no 32-bit number are not cached. */
uint32_t item_count(uint64_t size, uint64_t item_bytes);

/* How many chunks an item of length bytes has. */
uint32_t item_chunk_count(size_t length);

/* Fills sums from an item's bytes and returns the item's checksum. */
uint64_t item_sum(const char *bytes, size_t length, struct item_sums *sums);

/* The checksum of an item with these sums. */
uint64_t item_sum_of(const struct item_sums *sums);

/* Whether the bytes of whole chunks, from chunk number first on, are those of
 * the sums. bytes ends at a chunk's border or at the item's end. */
bool item_chunks_match(const char *bytes, size_t length, uint32_t first,
                       const struct item_sums *sums);

/* The record of an item in a buffer; sums are in the buffer's run. */
void item_of_buffer(struct shared *shared, const struct shared_buffer *buffer,
                    struct item *item, struct item_sums *sums);

#endif
