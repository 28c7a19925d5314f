/* SPDX-License-Identifier: Apache-2.0 */
/* The memory area (a memfd) that supervisor, worker and pinner share. All that
 * a replacement needs to carry on after a SIGKILL lies here:
 *
 *   header | slots | calls | buffers | retries | pool
 *
 * - A slot is where a thread of the worker receives a request. It is cleared
 *   before the next one is received, so a request that is still there was not
 *   finished.
 * - A call is a request that was handed on, since it may have to wait. Whoever
 *   replies frees it.
 * - A buffer is one item on its way from the source into the page cache. Its
 *   state is the command; there are no rings to repair:
 *
 *       FREE -> LOADING -> LOADED -> PINNING -> PINNED  -> FREE
 *                                            `-> REFUSED -> FREE
 *
 *   The worker moves it to LOADED, the pinner to PINNED or REFUSED, the worker
 *   writes index and account and frees it.
 *
 * Every process maps the area, populates it and locks it before it touches
 * /dev/fuse: a page fault during the kernel's copy, with a SIGKILL pending, is
 * an EIO to the reader. Each takes lengths and states from the others only
 * after a check. */
#ifndef UTIL_SHARED_H
#define UTIL_SHARED_H

#include <stddef.h>

#include "util/buffers.h"
#include "util/config.h"
#include "util/event.h"
#include "util/metrics.h"

struct shared {
    uint32_t layout;
    uint32_t slots;
    size_t area_bytes;
    size_t pool_bytes;
    struct config config;

    _Atomic uint32_t state;       /* enum shared_state */
    _Atomic uint64_t serial;      /* of this mount, from the index */
    uint64_t capacity_bytes;      /* of the DRAM tier */
    uint64_t nvme_capacity_bytes; /* 0: there is none */
    char nvme_why_none[128];      /* "": as configured */
    uint64_t started_ns;
    uint32_t device_major;
    uint32_t device_minor;
    _Atomic uint32_t mounted;  /* the public mount is in place */
    _Atomic uint32_t orphaned; /* only copies in other namespaces are left */

    _Atomic int32_t supervisor_pid;
    _Atomic int32_t worker_pid;
    _Atomic int32_t pinner_pid;
    _Atomic uint32_t worker_generation;
    _Atomic uint32_t worker_ready; /* generation + 1 that answers */
    _Atomic uint32_t pinner_generation;
    _Atomic uint32_t sweep_again;   /* a pin was committed meanwhile */
    _Atomic uint32_t pinner_failed; /* it crashes and crashes: none is left */
    _Atomic uint32_t swept_generation; /* pins were handed to that pinner */

    _Atomic uint32_t failed; /* the worker cannot start: message, exit_code */
    int32_t exit_code;
    char message[1024];

    _Atomic uint32_t init_length;
    char init[SHARED_INIT_BYTES];

    struct event worker_event; /* the pinner answered, or a new pinner came */
    struct event pinner_event; /* a buffer became LOADED */
    struct event store_event;  /* the same, for the NVMe tier's writer */
    _Atomic uint64_t pinner_until_ns; /* the pinner looks by itself then */
    struct shared_account dram;
    struct shared_intent intent;
    struct shared_account nvme;       /* a copy of what the index says */
    _Atomic uint64_t nvme_disk_bytes; /* size of the segment files */
    _Atomic uint32_t nvme_limit;      /* enum shared_nvme_limit */
    _Atomic uint32_t nvme_failing;    /* reads of the disk fail */
    _Atomic uint32_t index_degraded;  /* it is kept in memory */
    _Atomic uint32_t retaken;         /* the list of an earlier mount is done */
    _Atomic uint32_t dram_refused;    /* the policy refused an item: full */
    _Atomic uint32_t map_exhausted;   /* no further mapping or lock */
    struct metrics metrics;
};

/* Makes the area for config (copied) with that many receive slots, as a memfd
 * with CLOEXEC. 0 or -errno. */
int shared_create(const struct config *config, unsigned slots, int *fd,
                  struct shared **shared) MUST_CHECK;

/* Maps an area made by another process, populates and locks it. 0, -errno, or
 * -EPROTO when its layout is another version's. */
int shared_attach(int fd, struct shared **shared) MUST_CHECK;
void shared_detach(struct shared *shared);

/* Nothing can be pinned any more: items are neither admitted nor loaded whole.
 */
bool shared_is_closed(struct shared *shared);

char *shared_slot(struct shared *shared, unsigned slot);
struct shared_call *shared_calls(struct shared *shared);
struct shared_buffer *shared_buffers(struct shared *shared);
struct shared_retry *shared_retries(struct shared *shared);
char *shared_pool(struct shared *shared);

/* Bytes of pool that a buffer for such an item needs. */
size_t shared_run_bytes(enum buffer_task task, size_t length,
                        size_t path_length);

/* The item's bytes and its path; NULL when the run does not lie in the pool or
 * is too small for what the buffer says. */
char *shared_buffer_bytes(struct shared *shared,
                          const struct shared_buffer *buffer);
const char *shared_buffer_path(struct shared *shared,
                               const struct shared_buffer *buffer);
/* Checksums of the item's chunks, filled when it has been loaded. */
uint64_t *shared_buffer_sums(struct shared *shared,
                             const struct shared_buffer *buffer);

#endif
