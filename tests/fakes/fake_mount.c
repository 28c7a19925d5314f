/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/fake_mount.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "util/clock.h"

enum { SETTLE_MS = 20000 };

static void wake(struct admission_waiter *waiter, void *data)
{
    struct fake_mount *mount = data;

    (void)waiter;
    atomic_fetch_add(&mount->woken, 1);
}

static void refused(uint64_t id, uint32_t extent, int error, void *data)
{
    struct fake_mount *mount = data;

    (void)extent;
    atomic_store(&mount->refused_id, id);
    atomic_store(&mount->refused_error, error);
    atomic_fetch_add(&mount->refused, 1);
}

static void make_cache(struct fake_mount *mount)
{
    mount->cache = cache_create(mount->shared, mount->index, mount->folder_fd,
                                wake, refused, mount);
    assert_non_null(mount->cache);
}

static void end_cache(struct fake_mount *mount)
{
    if (mount->started)
        cache_stop(mount->cache);
    mount->started = false;
    cache_destroy(mount->cache);
}

void fake_mount_start(struct fake_mount *mount)
{
    assert_int_equal(cache_start(mount->cache), 0);
    mount->started = true;
}

void fake_mount_open(struct fake_mount *mount)
{
    struct config *config = calloc(1, sizeof(*config));
    bool damaged;

    memset(mount, 0, sizeof(*mount));
    assert_non_null(config);
    config->item_bytes = FAKE_MOUNT_ITEM_BYTES;
    temp_folder_make(NULL, mount->folder);
    snprintf(mount->dataset, sizeof(mount->dataset), "%s/dataset",
             mount->folder);
    snprintf(mount->index_folder, sizeof(mount->index_folder), "%s/index",
             mount->folder);
    assert_int_equal(mkdir(mount->dataset, 0755), 0);
    mount->dataset_fd = open(mount->dataset, O_PATH | O_CLOEXEC);
    mount->folder_fd = open(mount->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(mount->folder_fd >= 0);
    assert_true(mount->dataset_fd >= 0);
    assert_int_equal(
        shared_create(config, 1, &mount->shared_fd, &mount->shared), 0);
    free(config);
    mount->shared->capacity_bytes = 1 << 30;
    atomic_store(&mount->shared->serial, 1);
    assert_int_equal(
        index_open(mount->index_folder, true, &mount->index, &damaged), 0);
    mount->backing =
        backing_create(mount->dataset_fd, 0, &mount->shared->metrics);
    assert_non_null(mount->backing);
    make_cache(mount);
    fake_pinner_start(&mount->pinner, mount->shared);
    fake_mount_start(mount);
}

void fake_mount_close(struct fake_mount *mount)
{
    end_cache(mount);
    fake_pinner_stop(&mount->pinner);
    backing_destroy(mount->backing);
    index_close(mount->index);
    shared_detach(mount->shared);
    close(mount->shared_fd);
    close(mount->dataset_fd);
    close(mount->folder_fd);
    temp_folder_remove(mount->folder);
}

void fake_mount_kill_worker(struct fake_mount *mount)
{
    end_cache(mount);
    make_cache(mount);
}

static bool is_quiet(struct fake_mount *mount)
{
    struct shared_buffer *buffers = shared_buffers(mount->shared);

    for (int i = 0; i < SHARED_BUFFERS; i++)
        if (atomic_load(&buffers[i].state) != BUFFER_FREE)
            return false;
    return true;
}

bool fake_mount_settle(struct fake_mount *mount)
{
    uint64_t until = clock_now_ms() + SETTLE_MS;

    while (!is_quiet(mount)) {
        if (clock_now_ms() > until)
            return false;
        clock_sleep_ns(1000000);
    }
    return true;
}
