/* SPDX-License-Identifier: Apache-2.0 */
/* A thread in the place of the pinner process: it answers what is LOADED as it
 * is told to, and pins nothing. */
#ifndef FAKES_FAKE_PINNER_H
#define FAKES_FAKE_PINNER_H

#include <limits.h>
#include <stdbool.h>

#include "util/shared.h"

enum { FAKE_PINNER_SEEN = 8192 };

/* What it was given. */
struct fake_pinner_task {
    enum buffer_task task;
    uint64_t id;
    uint32_t extent;
    char path[64]; /* cut */
};

struct fake_pinner {
    struct shared *shared;
    pthread_t thread;
    _Atomic bool stopping;
    _Atomic bool holding;    /* takes nothing, as if it were dead */
    _Atomic int answer;      /* 0: PINNED, else REFUSED with that error */
    _Atomic uint64_t damage; /* buffers whose bytes or path were wrong */
    _Atomic uint64_t pins;   /* PIN tasks answered so far */
    _Atomic uint64_t repins;
    _Atomic uint64_t releases;

    pthread_mutex_t lock;
    /* guarded by lock: */
    size_t seen_count;
    struct fake_pinner_task seen[FAKE_PINNER_SEEN];
};

void fake_pinner_start(struct fake_pinner *pinner, struct shared *shared);
void fake_pinner_stop(struct fake_pinner *pinner);

/* How often that task was given for the file. */
size_t fake_pinner_count(struct fake_pinner *pinner, enum buffer_task task,
                         uint64_t id);

#endif
