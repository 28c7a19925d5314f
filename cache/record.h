/* SPDX-License-Identifier: Apache-2.0 */
/* The packed form of the index's values but nodes (cache/node.h): a version
 * byte, little endian. pack fills value and returns its length; unpack gives
 * -EIO for what it cannot read. Pure functions. */
#ifndef CACHE_RECORD_H
#define CACHE_RECORD_H

#include "cache/index.h"

/* Room for every value. */
enum { RECORD_BYTES = 64 + ITEM_CHUNKS * 8 };

/* sums may be NULL. */
size_t record_pack_item(const struct item *item, const struct item_sums *sums,
                        char *value);
/* Fills all but id and extent; sums may be NULL. */
int record_unpack_item(const char *value, size_t bytes, struct item *item,
                       struct item_sums *sums) MUST_CHECK;

size_t record_pack_segment(const struct segment *segment, char *value);
/* Fills all but the number. */
int record_unpack_segment(const char *value, size_t bytes,
                          struct segment *segment) MUST_CHECK;

size_t record_pack_head(const struct listing_head *head, char *value);
int record_unpack_head(const char *value, size_t bytes,
                       struct listing_head *head) MUST_CHECK;

size_t record_pack_entry(const struct listing_entry *entry, char *value);
int record_unpack_entry(const char *value, size_t bytes,
                        struct listing_entry *entry) MUST_CHECK;

size_t record_pack_number(uint64_t number, char *value);
int record_unpack_number(const char *value, size_t bytes,
                         uint64_t *number) MUST_CHECK;

#endif
