/* SPDX-License-Identifier: Apache-2.0 */
/* The cache as the read path sees it: the index, the tiers and the buffers
 * between source and tier, with the thread that writes down what pinner and
 * writer have answered. Callable from every thread of the worker unless said
 * otherwise. */
#ifndef CACHE_CACHE_H
#define CACHE_CACHE_H

#include "cache/admission.h"
#include "cache/index.h"

struct cache;

/* An item that could not be pinned: -EBUSY (a job has its pages mapped) or
 * another error. Called from the cache's own thread. */
typedef void (*cache_refused_cb)(uint64_t id, uint32_t extent, int error,
                                 void *data);

/* index and shared are borrowed until cache_destroy; so is folder_fd, the
 * dataset's cache folder. */
struct cache *cache_create(struct shared *shared, struct index *index,
                           int folder_fd, admission_wake_cb wake,
                           cache_refused_cb refused, void *data);
void cache_destroy(struct cache *cache);

int cache_start(struct cache *cache) MUST_CHECK;
void cache_stop(struct cache *cache);

struct admission *cache_admission(struct cache *cache);

/* Where an item with that record is now, of ITEM_IN_DRAM and ITEM_ON_NVME. */
uint32_t cache_places(struct cache *cache, const struct item *item);

/* Reads the index; 0: nowhere. item and sums may be NULL. On NVMe counts for
 * that version of the file only. */
uint32_t cache_find(struct cache *cache, uint64_t id, uint32_t extent,
                    uint64_t version, struct item *item,
                    struct item_sums *sums);

/* Whether the item is pinned in this mount; whether it is in any tier. Both
 * read the index. */
bool cache_is_pinned(struct cache *cache, uint64_t id, uint32_t extent);
bool cache_is_cached(struct cache *cache, uint64_t id, uint32_t extent);

/* As admission_begin, with pinned and stored filled in from the index. Full
 * when the item is on NVMe, unless promote. */
enum admission_outcome cache_begin(struct cache *cache,
                                   struct admission_key *key, bool promote,
                                   struct admission_waiter *waiter,
                                   struct shared_buffer **buffer);

/* Reads a range of an item that is on NVMe, and verifies it: buffer is page
 * aligned and has room for length, two chunks and a page; the range begins at
 * *start of it. An item with other bytes than the record says is dropped and
 * counted. Not 0: read it from elsewhere. */
int cache_read_stored(struct cache *cache, const struct item *item,
                      const struct item_sums *sums, uint64_t offset,
                      size_t length, char *buffer, size_t *start) MUST_CHECK;

/* The item is no longer at these places; its record stays if it is at another.
 * Does not unpin. */
int cache_drop_item(struct cache *cache, uint64_t id, uint32_t extent,
                    uint32_t places) MUST_CHECK;

/* The source has another version of a file: forgets its items and has the
 * pinner let go of them and ask for the new attributes. Waits for no buffer. */
int cache_forget(struct cache *cache, uint64_t id, const char *path) MUST_CHECK;

/* The records and accounts of a file's items alone: the caller has the pinner
 * let go. */
int cache_forget_records(struct cache *cache, uint64_t id) MUST_CHECK;

/* Removes all segments of the NVMe tier. */
int cache_clear_stored(struct cache *cache) MUST_CHECK;

#endif
