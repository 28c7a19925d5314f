/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of the shared area hold: calls, item buffers, retries and the
 * account. See util/shared.h for who changes what. */
#ifndef UTIL_BUFFERS_H
#define UTIL_BUFFERS_H

#include <stdint.h>

enum {
    SHARED_LAYOUT = 2,
    SHARED_SLOTS = 16,
    /* libfuse reads up to its largest request and one page of header. */
    SHARED_SLOT_BYTES = (1 << 20) + 8192,
    SHARED_CALLS = 65536, /* max_background is a 16-bit number */
    SHARED_CALL_BYTES = 512,
    SHARED_BUFFERS = 4096,
    SHARED_RETRIES = 4096,
    SHARED_PAGE = 4096,
    SHARED_CHUNK_BYTES = 128 << 10, /* a checksum is of so many bytes */
    SHARED_INIT_BYTES = 4096,
};

enum shared_state {
    SHARED_STARTING,
    SHARED_READY,
    SHARED_STOPPING,
};

enum call_state { CALL_FREE, CALL_WAITING };

struct shared_call {
    _Atomic uint32_t state;
    uint32_t length;
    char request[SHARED_CALL_BYTES - 8];
};

enum buffer_state {
    BUFFER_FREE,
    BUFFER_LOADING,
    BUFFER_LOADED,
    BUFFER_PINNING,
    BUFFER_PINNED, /* of TASK_STORE: written and synced */
    BUFFER_REFUSED,
};

enum buffer_task {
    TASK_PIN,     /* drop the pages, read them from this buffer, lock them */
    TASK_REPIN,   /* a predecessor's pin: lock the pages, wherever they are */
    TASK_RELEASE, /* let go of every extent, ask for the new attributes */
    TASK_STORE,   /* the worker's own: write it to the NVMe tier */
};

struct shared_buffer {
    _Atomic uint32_t state; /* enum buffer_state */
    _Atomic uint32_t users; /* threads that answer from it */
    _Atomic uint32_t task;  /* enum buffer_task */
    uint64_t id;            /* node id of the file */
    uint32_t extent;        /* which extent of the file */
    uint32_t length;        /* bytes of the item */
    uint64_t file_offset;   /* where the item begins in the file */
    uint64_t pool_offset;   /* run in the pool: item, checksums, path */
    uint32_t run_bytes;
    uint32_t path_length; /* a NUL follows the path */
    uint32_t pinner;      /* generation of the pinner that answered */
    uint32_t accounted;   /* the account has the item already */
    uint32_t is_copy;     /* TASK_PIN: the item is on NVMe too */
    int32_t error;        /* REFUSED: -EBUSY (pages in use) or another */
    uint32_t segment;     /* TASK_STORE: where it is, or is to be, written */
    uint64_t segment_offset;
    uint64_t checksum;
    uint64_t version;  /* of the file that the bytes are from */
    uint64_t ready_ns; /* the pinner leaves it alone until then */
};

/* An item that could not be pinned because a job has its pages mapped. */
struct shared_retry {
    uint64_t id; /* 0: free */
    uint32_t extent;
    uint32_t delay_ms;
    uint64_t due_ns;
};

/* What a tier holds. */
struct shared_account {
    /* DRAM: pages and the kernel's cost per item. NVMe: blocks, also those of
     * items that are no longer wanted. */
    _Atomic uint64_t used_bytes;
    _Atomic uint64_t item_bytes;
    _Atomic uint64_t items;
    _Atomic uint64_t copies; /* DRAM: of the items, those on NVMe too */
};

/* Why the NVMe tier takes nothing more. */
enum shared_nvme_limit {
    NVME_LIMIT_NONE,
    NVME_LIMIT_CAPACITY,
    NVME_LIMIT_FREE_SPACE, /* --free-space of the disk is reached */
    NVME_LIMIT_DISK,       /* the disk failed to write */
    NVME_LIMIT_LOST,       /* the cache directory is another one now */
};

/* The DRAM account's next values, written before the account changes. A new
 * worker applies a valid intent again, which changes nothing if it was applied.
 */
struct shared_intent {
    _Atomic uint32_t valid;
    uint32_t buffer; /* freed with it; SHARED_BUFFERS: none */
    uint64_t used_bytes;
    uint64_t item_bytes;
    uint64_t items;
    uint64_t copies;
};

#endif
