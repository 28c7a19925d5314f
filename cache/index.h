/* SPDX-License-Identifier: Apache-2.0 */
/* The index: what is known of the source and what is cached, in RocksDB.
 *
 * nodes     node id -> parent, name and attributes: the only map from the
 *           kernel's node ids back to paths
 * listings  directory id, ordinal -> entry; a head record, written last, says
 *           that the listing is whole and of which version
 * items     node id, extent -> places, length, version, checksums
 * segments  number -> size and use of a segment file of the NVMe tier
 * meta      serial of the last mount, bytes of an item, number of known items,
 *           next segment
 *
 * Every function is callable from every thread. Values have a version byte; an
 * unreadable one gives -EIO. Writes are not synced, but for index_put_number:
 * the index must survive the death of a process, and after a power cut it is a
 * cache. Errors: -errno, logged here, except the expected -ENOENT. */
#ifndef CACHE_INDEX_H
#define CACHE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "cache/item.h"
#include "cache/node.h"
#include "util/cleanup.h"

enum { INDEX_FORMAT = 2 };

/* Version and length of a whole listing. */
struct listing_head {
    uint64_t serial;
    uint64_t count;
    struct timespec mtime;
    struct timespec ctime;
    uint64_t source_ino;
};

struct listing_entry {
    uint64_t id;
    uint32_t type; /* DT_* */
    char name[NODE_NAME_BYTES];
};

struct index;
struct index_batch;

/* Opens the index in folder, making it where there is none. A damaged index is
 * moved aside (*damaged is set, a warning logged) and an empty one made; one of
 * an older format is started anew. If it cannot be written that is an error
 * (must_write), or it is degraded. */
int index_open(const char *folder, bool must_write, struct index **index,
               bool *damaged) MUST_CHECK;
void index_close(struct index *index);

/* The disk takes no writes: records are kept in memory. heal tries the disk
 * again, 0 when all is there; for one thread. */
bool index_is_degraded(struct index *index);
int index_heal(struct index *index) MUST_CHECK;

/* Items are of up to that many bytes from now on. Where they were of another
 * length, the records of all items and segments go, in one step, and the known
 * items are counted anew: extents stand for other bytes. *dropped: they did. */
int index_set_item_bytes(struct index *index, uint64_t item_bytes,
                         bool *dropped) MUST_CHECK;

int index_get_node(struct index *index, uint64_t id,
                   struct node *node) MUST_CHECK;
int index_put_node(struct index *index, const struct node *node) MUST_CHECK;

int index_get_item(struct index *index, uint64_t id, uint32_t extent,
                   struct item *item) MUST_CHECK;
/* The same with the chunks' checksums; count is 0 where there are none. */
int index_get_item_sums(struct index *index, uint64_t id, uint32_t extent,
                        struct item *item, struct item_sums *sums) MUST_CHECK;
int index_get_number(struct index *index, const char *name,
                     uint64_t *number) MUST_CHECK;
int index_put_number(struct index *index, const char *name,
                     uint64_t number) MUST_CHECK;

/* A batch is written as a whole, or not at all; commit destroys it. */
struct index_batch *index_batch_create(void);
void index_batch_destroy(struct index_batch *batch);
void index_batch_node(struct index_batch *batch, const struct node *node);
/* sums may be NULL. */
void index_batch_item(struct index_batch *batch, const struct item *item,
                      const struct item_sums *sums);
void index_batch_drop_item(struct index_batch *batch, uint64_t id,
                           uint32_t extent);
void index_batch_number(struct index_batch *batch, const char *name,
                        uint64_t number);
void index_batch_segment(struct index_batch *batch,
                         const struct segment *segment);
void index_batch_drop_segment(struct index_batch *batch, uint32_t number);
void index_batch_entry(struct index_batch *batch, uint64_t directory,
                       uint64_t ordinal, const struct listing_entry *entry);
void index_batch_head(struct index_batch *batch, uint64_t directory,
                      const struct listing_head *head);
int index_batch_commit(struct index *index,
                       struct index_batch *batch) MUST_CHECK;

int index_get_listing(struct index *index, uint64_t directory,
                      struct listing_head *head) MUST_CHECK;
/* Removes head and entries, the head first. */
int index_drop_listing(struct index *index, uint64_t directory) MUST_CHECK;

/* Calls visit for the entries from ordinal on, until it returns false. */
typedef bool (*index_entry_cb)(uint64_t ordinal,
                               const struct listing_entry *entry, void *data);
int index_each_entry(struct index *index, uint64_t directory, uint64_t ordinal,
                     index_entry_cb visit, void *data) MUST_CHECK;

/* Calls visit for every item (id 0), or for the items of one node. */
typedef bool (*index_item_cb)(const struct item *item, void *data);
int index_each_item(struct index *index, uint64_t id, index_item_cb visit,
                    void *data) MUST_CHECK;

/* Calls visit for every node, in the order of ids. */
typedef bool (*index_node_cb)(const struct node *node, void *data);
int index_each_node(struct index *index, index_node_cb visit,
                    void *data) MUST_CHECK;

/* Calls visit for every segment, by number. */
typedef bool (*index_segment_cb)(const struct segment *segment, void *data);
int index_each_segment(struct index *index, index_segment_cb visit,
                       void *data) MUST_CHECK;

#endif
