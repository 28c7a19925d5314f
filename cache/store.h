/* SPDX-License-Identifier: Apache-2.0 */
/* One RocksDB database with the index's families: on disk, on disk for reading
 * alone, or in memory. The only file that knows RocksDB is store.c. Callable
 * from every thread. */
#ifndef CACHE_STORE_H
#define CACHE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/cleanup.h"

struct store;

enum store_kind { STORE_DISK, STORE_READ_ONLY, STORE_MEMORY };

enum store_family {
    STORE_NODES,
    STORE_LISTINGS,
    STORE_ITEMS,
    STORE_SEGMENTS,
    STORE_META,
    STORE_FAMILIES,
};

/* Why a call failed, as RocksDB says it. */
enum { STORE_ERROR_BYTES = 256 };

/* Opens, and makes it where there is none (not for reading alone). -EBADMSG:
 * damaged, so moving it aside would help; -EIO: another reason, such as a full
 * disk. The caller has a use of it. */
int store_open(enum store_kind kind, const char *folder, struct store **store,
               char error[STORE_ERROR_BYTES]) MUST_CHECK;
void store_ref(struct store *store);
/* Closes it with the last use; true if that was it. */
bool store_unref(struct store *store);
/* Whether the caller's use is the only one. */
bool store_is_last(struct store *store);

/* Removes a database that nobody has open. */
void store_destroy(const char *folder);

/* What a store takes, without what was replaced and dropped in it. */
uint64_t store_bytes(struct store *store);
/* What its disk has room for; UINT64_MAX where that is not known. */
uint64_t store_room(const char *folder);

/* A value, valid until it is freed. */
struct store_value {
    const char *bytes;
    size_t length;
    void *slice;
};

/* -ENOENT: no such key. */
int store_get(struct store *store, enum store_family family, const void *key,
              size_t key_bytes, struct store_value *value,
              char error[STORE_ERROR_BYTES]) MUST_CHECK;
void store_value_free(struct store_value *value);

/* Records in the order of their keys. scan: a long walk, that is not to take
 * the place of others in the block cache. */
struct store_iterator *store_iterate(struct store *store,
                                     enum store_family family, const void *from,
                                     size_t from_bytes, bool scan);
bool store_valid(struct store_iterator *iterator);
void store_next(struct store_iterator *iterator);
const char *store_key(struct store_iterator *iterator, size_t *bytes);
const char *store_item(struct store_iterator *iterator, size_t *bytes);
/* -EIO when the walk ended by an error. */
int store_end(struct store_iterator *iterator, char error[STORE_ERROR_BYTES]);

/* A list of changes, written as a whole or not at all. All 0 at first. */
struct store_ops {
    char *bytes;
    size_t used;
    size_t room;
    bool failed; /* no memory for one of them */
    bool sync;   /* they must survive a power cut */
};

void store_put(struct store_ops *ops, enum store_family family, const void *key,
               size_t key_bytes, const void *value, size_t bytes);
void store_drop(struct store_ops *ops, enum store_family family,
                const void *key, size_t key_bytes);
/* From a key on, up to but without another. */
void store_drop_range(struct store_ops *ops, enum store_family family,
                      const void *from, const void *to, size_t key_bytes);
void store_ops_free(struct store_ops *ops);

/* keep_dropped: a dropped key becomes an empty value, for a store that lies
 * over another. */
int store_write(struct store *store, const struct store_ops *ops,
                bool keep_dropped, char error[STORE_ERROR_BYTES]) MUST_CHECK;

#endif
