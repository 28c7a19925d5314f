/* SPDX-License-Identifier: Apache-2.0 */
/* The table of segments: where in which segment there is room, and which items
 * lie in it. Segments only ever fill up; one whose last item is gone is removed
 * whole, and a new one with a new number takes its room. Callable from every
 * thread, except where it says otherwise; only making and removing segments
 * waits for a disk. */
#ifndef CACHE_SEGMENTS_H
#define CACHE_SEGMENTS_H

#include "cache/index.h"
#include "cache/segment.h"
#include "cache/tier.h"

struct segments;

/* What an item of length bytes takes of a segment. */
uint64_t segments_cost(uint64_t length);

/* Size of a new segment: an eighth of the capacity, from 1 MiB to 1 GiB, but
 * room for an item at least; no more than left_bytes of the capacity. */
uint64_t segments_size(uint64_t capacity_bytes, uint64_t item_bytes,
                       uint64_t left_bytes);

/* Opens the segments that the index has; drops the newest while they are larger
 * than the capacity, and files that the index does not know. All borrowed. */
int segments_create(struct shared *shared, struct index *index, int folder_fd,
                    struct segments **segments) MUST_CHECK;
void segments_destroy(struct segments *segments);

/* Room for an item of that cost. -EAGAIN: a segment must be made first;
 * -ENOSPC: the capacity is used up. */
int segments_take(struct segments *segments, uint64_t cost,
                  struct tier_place *place) MUST_CHECK;
/* As taken by a predecessor; false when that segment is gone. */
bool segments_claim(struct segments *segments, uint64_t cost,
                    const struct tier_place *place) MUST_CHECK;
/* It was not used after all. */
void segments_give(struct segments *segments, uint64_t cost,
                   const struct tier_place *place);

/* The file of a segment, to be given back; NULL when it is gone. */
struct segment_file *segments_use(struct segments *segments, uint32_t number);
void segments_unuse(struct segments *segments, uint32_t number);

bool segments_has(struct segments *segments, const struct item *item);

/* An item's record is about to be written, or removed, with the batch: counts
 * it and adds the segment's record. */
void segments_add(struct segments *segments, struct index_batch *batch,
                  const struct item *item);
void segments_remove(struct segments *segments, struct index_batch *batch,
                     const struct item *item);
/* The item is written and recorded: its room is no longer on its way. */
void segments_settle(struct segments *segments, uint32_t number);

/* Asks for a segment if none has much room. */
void segments_want(struct segments *segments);

/* For one thread, the writer's. Makes a segment if one is wanted and the disk
 * has room; removes those that hold nothing. */
void segments_tend(struct segments *segments);

/* Removes all. */
int segments_clear(struct segments *segments) MUST_CHECK;

#endif
