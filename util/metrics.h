/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of `status`. They live in the shared area, so that they survive the
 * death of the process that counts; every process adds to them atomically. */
#ifndef UTIL_METRICS_H
#define UTIL_METRICS_H

#include <stdint.h>

/* X(name): all start at 0 with the mount and only grow, except known_items. */
#define METRICS_LIST(X)                                                        \
    X(known_items)         /* items of the files that the index knows */       \
    X(served_buffer_reads) /* READs answered from an item buffer */            \
    X(served_buffer_bytes)                                                     \
    X(served_dram_reads) /* READs answered with pinned bytes */                \
    X(served_dram_bytes)                                                       \
    X(served_nvme_reads) /* READs answered by the NVMe tier */                 \
    X(served_nvme_bytes)                                                       \
    X(served_source_reads) /* READs answered by range from the source */       \
    X(served_source_bytes)                                                     \
    X(source_read_bytes) /* bytes that the source delivered */                 \
    X(source_read_items) /* items loaded whole */                              \
    X(nvme_read_bytes)                                                         \
    X(nvme_written_bytes)                                                      \
    X(nvme_errors)                                                             \
    X(source_errors)                                                           \
    X(corrupt_items)                                                           \
    X(admissions_skipped) /* no buffer was free and the list was full */       \
    X(pins_lost)          /* the kernel dropped a pinned page */               \
    X(pins_refused)       /* pages in use by a job could not be moved */       \
    X(changed_files)      /* the source's version differed from the index's */ \
    X(replayed_requests)  /* left by a dead worker */                          \
    X(interrupted_requests)                                                    \
    X(worker_restarts)                                                         \
    X(pinner_restarts)

#define METRICS_FIELD(name) _Atomic uint64_t name;
struct metrics {
    METRICS_LIST(METRICS_FIELD)
};
#undef METRICS_FIELD

#endif
