/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's inside without a kernel: a dataset and an index in a temporary
 * folder, the shared area, the cache with its thread, and a fake pinner. A step
 * that fails fails the test; for the test's own thread. */
#ifndef FAKES_FAKE_MOUNT_H
#define FAKES_FAKE_MOUNT_H

#include "cache/backing.h"
#include "cache/cache.h"
#include "tests/fakes/fake_pinner.h"
#include "tests/fakes/temp_folder.h"

enum { FAKE_MOUNT_ITEM_BYTES = 1 << 20 };

struct fake_mount {
    char folder[PATH_MAX];
    char dataset[PATH_MAX + 16];
    char index_folder[PATH_MAX + 16];
    int dataset_fd;
    int folder_fd; /* the cache folder */
    int shared_fd;
    struct shared *shared;
    struct index *index;
    struct backing *backing;
    struct cache *cache;
    bool started; /* the cache's thread */
    struct fake_pinner pinner;

    _Atomic uint64_t woken;
    _Atomic uint64_t refused; /* calls of the cache's refused callback */
    _Atomic uint64_t refused_id;
    _Atomic int refused_error;
};

/* An empty dataset, serial 1, 1 GiB of budget. */
void fake_mount_open(struct fake_mount *mount);
void fake_mount_close(struct fake_mount *mount);

/* Ends the cache, and makes another over what it left, as after the death of a
 * worker. Its thread is not started: nothing is committed before cache_start.
 * The pinner lives on. */
void fake_mount_kill_worker(struct fake_mount *mount);

/* Starts the cache's thread. */
void fake_mount_start(struct fake_mount *mount);

/* Waits until no buffer is in use; false after 20 s. */
bool fake_mount_settle(struct fake_mount *mount);

#endif
