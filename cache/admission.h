/* SPDX-License-Identifier: Apache-2.0 */
/* The item buffers of the shared area: one load per item at a time, and the
 * bytes of an item from its load until its pin.
 *
 * A caller that wants an item begins, and is told what it has to do. Whoever is
 * told to load must finish. Later callers for the same item are kept as
 * waiters and woken by a callback when the load has ended; nobody waits in a
 * thread. Callable from every thread of the worker. */
#ifndef CACHE_ADMISSION_H
#define CACHE_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>

#include "cache/tier.h"
#include "util/shared.h"

struct admission;

/* Embedded by who may have to wait; in one list at a time. */
struct admission_waiter {
    struct admission_waiter *next;
};

/* An item, and what is needed to pin it. */
struct admission_key {
    uint64_t id;
    uint32_t extent;
    uint32_t length;
    uint64_t file_offset;
    uint64_t version;
    const char *path; /* borrowed for the call */
    bool pinned;      /* the account has it: a lost pin, or a predecessor's */
    bool stored;      /* the NVMe tier has it: only DRAM may take it too */
};

enum admission_outcome {
    ADMISSION_READY, /* *buffer holds the bytes; admission_put it */
    ADMISSION_LOAD,  /* *buffer is the caller's to fill and to finish */
    ADMISSION_WAIT,  /* the waiter is woken when the load has ended */
    ADMISSION_FULL,  /* no tier has room for the item */
    ADMISSION_BUSY,  /* no buffer is free, another version is in one, or room
                        is being made */
};

typedef void (*admission_wake_cb)(struct admission_waiter *waiter, void *data);

/* An item goes to the DRAM tier, or if that is full to the NVMe tier. Takes
 * over the buffers that a dead predecessor left: LOADING ones are freed.
 * pin_delay_ms: how long a loaded item is left to its reader before the pinner
 * takes its pages. */
struct admission *admission_create(struct shared *shared, struct tier *dram,
                                   struct tier *nvme, unsigned pin_delay_ms,
                                   admission_wake_cb wake, void *data);
void admission_destroy(struct admission *admission);

/* waiter NULL: ADMISSION_BUSY instead of ADMISSION_WAIT. */
enum admission_outcome admission_begin(struct admission *admission,
                                       const struct admission_key *key,
                                       struct admission_waiter *waiter,
                                       struct shared_buffer **buffer);

/* Whether the item is in a buffer now. */
bool admission_has(struct admission *admission, uint64_t id, uint32_t extent);

/* As begin, but only ever READY or BUSY: never reserves, never waits. */
enum admission_outcome admission_find(struct admission *admission, uint64_t id,
                                      uint32_t extent, uint64_t version,
                                      struct shared_buffer **buffer);

/* Ends a load. On success (err 0) the buffer goes to its tier and the caller
 * has a use of it, to be put; on failure it is freed. */
void admission_finish(struct admission *admission, struct shared_buffer *buffer,
                      int err);
void admission_put(struct admission *admission, struct shared_buffer *buffer);

/* Posts a task without bytes (REPIN, RELEASE) to the pinner. False when no
 * buffer is free. */
bool admission_post(struct admission *admission, enum buffer_task task,
                    const struct admission_key *key);

/* The buffers that pinner or writer have answered, at most count of them; each
 * must be retired. Only one thread may collect. */
size_t admission_collect(struct admission *admission,
                         struct shared_buffer **buffers, size_t count);

/* Frees an answered buffer (once its last user has put it). committed: its
 * room now belongs to the cached item; else the reservation is given back. */
void admission_retire(struct admission *admission, struct shared_buffer *buffer,
                      bool committed);

/* Hands an answered buffer to the pinner again. */
void admission_repost(struct admission *admission,
                      struct shared_buffer *buffer);

/* Waits until a buffer has become free, or timeout_ms. */
void admission_wait_free(struct admission *admission, long timeout_ms);

/* Whether the pinner has tasks without bytes to do. */
bool admission_has_tasks(struct admission *admission);

/* Until when (clock_now_ns) a buffer that is loaded now is left to its reader,
 * and the earliest such time of all buffers with an item that the pinner has
 * not answered; UINT64_MAX when there is none. */
uint64_t admission_pin_deadline(const struct admission *admission);
uint64_t admission_oldest(struct admission *admission);

#endif
