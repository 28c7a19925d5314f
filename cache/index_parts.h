/* SPDX-License-Identifier: Apache-2.0 */
/* What index.c and index_stores.c share; nobody else includes this. */
#ifndef CACHE_INDEX_PARTS_H
#define CACHE_INDEX_PARTS_H

#include <limits.h>

#include "cache/index.h"
#include "cache/store.h"

/* The stores that are read now. Who reads holds a use of it. */
struct view {
    unsigned uses;
    struct store *disk; /* NULL: cannot even be read */
    struct store *over; /* NULL: the disk takes writes */
};

struct index {
    char folder[PATH_MAX];
    _Atomic uint64_t over_bytes;
    _Atomic bool degraded;
    _Atomic bool full; /* memory is, and that was logged */

    pthread_mutex_t over_lock; /* writing to memory, or from it to disk */
    pthread_mutex_t lock;
    /* guarded by lock: */
    struct view *view;
};

struct index_batch {
    struct store_ops ops;
};

/* Keys are big endian. */
struct pair_key {
    uint64_t first;
    uint64_t second;
} __attribute__((packed));

struct item_key {
    uint64_t id;
    uint32_t extent;
} __attribute__((packed));

/* Ordinal of a listing's head: after every entry. */
#define HEAD_ORDINAL UINT64_MAX

/* Logs an error that is not the expected -ENOENT, and returns it. */
int index_report(const char *what, int err, const char *error);

/* What is read now; a use of it, to be put. */
struct view *index_view_get(struct index *index);
void index_view_put(struct index *index, struct view *view);

#endif
