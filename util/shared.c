/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of the shared area. The parts are found from the sizes in its header,
 * so that a process never has to be told an address. */
#include "util/shared.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    POOL_BYTES = 64 << 20, /* enough for the loads and pins in flight */
    POOL_MIN_ITEMS = 4,
};

static_assert(sizeof(struct shared_call) == SHARED_CALL_BYTES, "call size");

static size_t page_round(size_t bytes)
{
    return (bytes + SHARED_PAGE - 1) & ~(size_t)(SHARED_PAGE - 1);
}

static size_t header_bytes(void)
{
    return page_round(sizeof(struct shared));
}

static size_t calls_offset(const struct shared *shared)
{
    return header_bytes() + (size_t)shared->slots * SHARED_SLOT_BYTES;
}

static size_t buffers_offset(const struct shared *shared)
{
    return calls_offset(shared) + (size_t)SHARED_CALLS * SHARED_CALL_BYTES;
}

static size_t retries_offset(const struct shared *shared)
{
    return buffers_offset(shared) +
           page_round(SHARED_BUFFERS * sizeof(struct shared_buffer));
}

static size_t pool_offset(const struct shared *shared)
{
    return retries_offset(shared) +
           page_round(SHARED_RETRIES * sizeof(struct shared_retry));
}

static int map_area(int fd, size_t bytes, struct shared **shared)
{
    void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (area == MAP_FAILED)
        return -errno;
    if (madvise(area, bytes, MADV_POPULATE_WRITE) != 0 ||
        mlock2(area, bytes, 0) != 0) {
        int err = -errno;
        munmap(area, bytes);
        return err;
    }
    *shared = area;
    return 0;
}

int shared_create(const struct config *config, unsigned slots, int *fd,
                  struct shared **shared)
{
    assert(slots > 0 && slots <= SHARED_SLOTS);
    struct shared sizes = {.slots = slots};
    size_t pool = POOL_BYTES;
    /* Room for a few of the largest items, each with its path. */
    size_t least = POOL_MIN_ITEMS * (config->item_bytes + (1 << 20));
    if (pool < least)
        pool = page_round(least);
    size_t bytes = pool_offset(&sizes) + pool;

    int area_fd = memfd_create("coordlfs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (area_fd < 0)
        return -errno;
    int err = ftruncate(area_fd, (off_t)bytes) != 0 ? -errno : 0;
    if (err == 0)
        err = map_area(area_fd, bytes, shared);
    if (err != 0) {
        close(area_fd);
        return err;
    }
    (*shared)->layout = SHARED_LAYOUT;
    (*shared)->slots = slots;
    (*shared)->area_bytes = bytes;
    (*shared)->pool_bytes = pool;
    (*shared)->config = *config;
    *fd = area_fd;
    return 0;
}

int shared_attach(int fd, struct shared **shared)
{
    struct stat st;
    struct shared *area;

    if (fstat(fd, &st) != 0)
        return -errno;
    if ((size_t)st.st_size < header_bytes())
        return -EPROTO;
    int err = map_area(fd, (size_t)st.st_size, &area);
    if (err != 0)
        return err;
    if (area->layout != SHARED_LAYOUT ||
        area->area_bytes != (size_t)st.st_size || area->slots == 0 ||
        area->slots > SHARED_SLOTS ||
        pool_offset(area) + area->pool_bytes != area->area_bytes) {
        munmap(area, (size_t)st.st_size);
        return -EPROTO;
    }
    *shared = area;
    return 0;
}

void shared_detach(struct shared *shared)
{
    munmap(shared, shared->area_bytes);
}

bool shared_is_closed(struct shared *shared)
{
    return atomic_load(&shared->orphaned) ||
           atomic_load(&shared->pinner_failed);
}

char *shared_slot(struct shared *shared, unsigned slot)
{
    assert(slot < shared->slots);
    return (char *)shared + header_bytes() + (size_t)slot * SHARED_SLOT_BYTES;
}

struct shared_call *shared_calls(struct shared *shared)
{
    return (struct shared_call *)((char *)shared + calls_offset(shared));
}

struct shared_buffer *shared_buffers(struct shared *shared)
{
    return (struct shared_buffer *)((char *)shared + buffers_offset(shared));
}

struct shared_retry *shared_retries(struct shared *shared)
{
    return (struct shared_retry *)((char *)shared + retries_offset(shared));
}

char *shared_pool(struct shared *shared)
{
    return (char *)shared + pool_offset(shared);
}

static bool has_item(enum buffer_task task)
{
    return task == TASK_PIN || task == TASK_STORE;
}

static size_t sums_bytes(size_t length)
{
    return (length + SHARED_CHUNK_BYTES - 1) / SHARED_CHUNK_BYTES *
           sizeof(uint64_t);
}

/* Bytes of the run before the path: whole pages, as O_DIRECT reads them, and
 * the chunks' checksums. */
static size_t run_item_bytes(enum buffer_task task, size_t length)
{
    return has_item(task) ? page_round(length) + sums_bytes(length) : 0;
}

size_t shared_run_bytes(enum buffer_task task, size_t length,
                        size_t path_length)
{
    return page_round(run_item_bytes(task, length) + path_length + 1);
}

char *shared_buffer_bytes(struct shared *shared,
                          const struct shared_buffer *buffer)
{
    size_t offset = buffer->pool_offset, run = buffer->run_bytes;

    if (offset > shared->pool_bytes || run > shared->pool_bytes - offset ||
        run_item_bytes(buffer->task, buffer->length) + buffer->path_length + 1 >
            run)
        return NULL;
    return shared_pool(shared) + offset;
}

const char *shared_buffer_path(struct shared *shared,
                               const struct shared_buffer *buffer)
{
    const char *bytes = shared_buffer_bytes(shared, buffer);

    return bytes ? bytes + run_item_bytes(buffer->task, buffer->length) : NULL;
}

uint64_t *shared_buffer_sums(struct shared *shared,
                             const struct shared_buffer *buffer)
{
    char *bytes = shared_buffer_bytes(shared, buffer);

    return bytes && has_item(buffer->task)
               ? (uint64_t *)(bytes + page_round(buffer->length))
               : NULL;
}
