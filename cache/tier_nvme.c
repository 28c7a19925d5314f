/* SPDX-License-Identifier: Apache-2.0 */
/* The NVMe tier: a writer thread takes loaded buffers to their places in the
 * segments, in batches: sorted, written as few long writes, synced once. Only
 * then does the committer learn of them, so that a record is never of bytes
 * that a power cut could take.
 *
 * Disks fail: a write that fails ends the taking of items for a while, reads
 * that fail one after the other make us leave the disk alone for a while. In
 * both cases the dataset is read instead. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cache/item.h"
#include "cache/segments.h"
#include "cache/tier.h"
#include "util/clock.h"
#include "util/log.h"

enum {
    BATCH = 128,   /* buffers that share a sync */
    RUN_IOV = 128, /* of one write */
    IDLE_MS = 1000,
    LOOK_MS = 5000,    /* between looks at the cache directory */
    READ_FAILURES = 8, /* in a row: the disk is left alone */
    PROBE_MS = 5000,
    DISK_AGAIN_MS = 60000,
};

struct tier_nvme {
    struct tier tier;
    struct shared *shared;
    struct segments *segments;
    int folder_fd;
    pthread_t writer;
    _Atomic bool stopping;
    _Atomic uint32_t read_failures;
    _Atomic uint64_t probe_ms; /* when a failing disk was last asked */
    uint64_t write_failed_ms;  /* the writer's own, as the next */
    uint64_t looked_ms;
};

static struct tier_nvme *nvme_of(struct tier *tier)
{
    return (struct tier_nvme *)tier;
}

/* ---- room and records ---- */

static int nvme_reserve(struct tier *tier, uint64_t length,
                        struct tier_place *place)
{
    return segments_take(nvme_of(tier)->segments, segments_cost(length), place);
}

static bool nvme_restore(struct tier *tier, uint64_t length,
                         const struct tier_place *place)
{
    return segments_claim(nvme_of(tier)->segments, segments_cost(length),
                          place);
}

static void nvme_abort(struct tier *tier, uint64_t length,
                       const struct tier_place *place)
{
    segments_give(nvme_of(tier)->segments, segments_cost(length), place);
}

static void nvme_record(struct tier *tier, struct index_batch *batch,
                        const struct shared_buffer *buffer, struct item *item)
{
    item->places |= ITEM_ON_NVME;
    item->segment = buffer->segment;
    item->segment_offset = buffer->segment_offset;
    segments_add(nvme_of(tier)->segments, batch, item);
}

static void nvme_commit(struct tier *tier, struct shared_buffer *buffer)
{
    segments_settle(nvme_of(tier)->segments, buffer->segment);
}

static void nvme_forget(struct tier *tier, struct index_batch *batch,
                        const struct item *item)
{
    segments_remove(nvme_of(tier)->segments, batch, item);
}

static void nvme_drop(struct tier *tier, const struct item *item)
{
    (void)tier;
    (void)item;
}

static bool nvme_has(struct tier *tier, const struct item *item)
{
    return (item->places & ITEM_ON_NVME) &&
           segments_has(nvme_of(tier)->segments, item);
}

/* ---- reading ---- */

/* Whether a disk that fails is to be left alone for now. */
static bool is_resting(struct tier_nvme *nvme)
{
    uint64_t now = clock_now_ms();
    uint64_t last = atomic_load(&nvme->probe_ms);

    if (atomic_load(&nvme->read_failures) < READ_FAILURES)
        return false;
    return now - last < PROBE_MS ||
           !atomic_compare_exchange_strong(&nvme->probe_ms, &last, now);
}

static void note_read(struct tier_nvme *nvme, int err)
{
    struct shared *shared = nvme->shared;

    if (err == 0) {
        if (atomic_load(&nvme->read_failures) != 0)
            atomic_store(&nvme->read_failures, 0);
        if (atomic_load(&shared->nvme_failing) &&
            atomic_exchange(&shared->nvme_failing, 0))
            log_info("the disk of the NVMe tier answers again");
        return;
    }
    atomic_fetch_add(&shared->metrics.nvme_errors, 1);
    if (atomic_fetch_add(&nvme->read_failures, 1) + 1 != READ_FAILURES)
        return;
    atomic_store(&nvme->probe_ms, clock_now_ms());
    if (!atomic_exchange(&shared->nvme_failing, 1))
        log_warn("the disk of the NVMe tier fails (%s): its items are read "
                 "from the dataset until it answers again",
                 strerror(-err));
}

static int nvme_read(struct tier *tier, const struct item *item,
                     const struct item_sums *sums, uint64_t offset,
                     size_t length, char *buffer, size_t *start)
{
    struct tier_nvme *nvme = nvme_of(tier);
    uint64_t first = offset / ITEM_CHUNK_BYTES;
    uint64_t from = first * ITEM_CHUNK_BYTES;
    uint64_t to = (offset + length + ITEM_CHUNK_BYTES - 1) / ITEM_CHUNK_BYTES *
                  ITEM_CHUNK_BYTES;

    if (to > item->length)
        to = item->length;
    if (offset + length > item->length)
        return -EBADMSG; /* the record is not of such an item */
    if (is_resting(nvme))
        return -EIO;
    struct segment_file *file = segments_use(nvme->segments, item->segment);
    if (!file)
        return -ENOENT;
    int err = segment_read(file, buffer, segments_cost(to - from),
                           item->segment_offset + from);
    segments_unuse(nvme->segments, item->segment);
    if (err == -ENODATA)
        return -EBADMSG; /* the file is shorter than the index says */
    note_read(nvme, err);
    if (err != 0)
        return err;
    atomic_fetch_add(&nvme->shared->metrics.nvme_read_bytes, to - from);
    *start = offset - from;
    return item_chunks_match(buffer, to - from, (uint32_t)first, sums)
               ? 0
               : -EBADMSG;
}

/* ---- writing ---- */

static size_t collect(struct tier_nvme *nvme, struct shared_buffer **batch)
{
    struct shared_buffer *buffers = shared_buffers(nvme->shared);
    size_t count = 0;

    for (size_t i = 0; i < SHARED_BUFFERS && count < BATCH; i++) {
        uint32_t loaded = BUFFER_LOADED;
        if (atomic_load(&buffers[i].state) == BUFFER_LOADED &&
            buffers[i].task == TASK_STORE &&
            atomic_compare_exchange_strong(&buffers[i].state, &loaded,
                                           BUFFER_PINNING))
            batch[count++] = &buffers[i];
    }
    return count;
}

static int by_place(const void *a, const void *b)
{
    const struct shared_buffer *x = *(struct shared_buffer *const *)a;
    const struct shared_buffer *y = *(struct shared_buffer *const *)b;

    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return x->segment_offset < y->segment_offset   ? -1
           : x->segment_offset > y->segment_offset ? 1
                                                   : 0;
}

/* How many buffers from the first on lie one behind the other. */
static size_t run_length(struct shared_buffer *const *batch, size_t count)
{
    size_t n = 1;

    while (n < count && n < RUN_IOV && batch[n]->segment == batch[0]->segment &&
           batch[n]->segment_offset == batch[n - 1]->segment_offset +
                                           segments_cost(batch[n - 1]->length))
        n++;
    return n;
}

static int write_run(struct tier_nvme *nvme, struct segment_file *file,
                     struct shared_buffer *const *batch, size_t count)
{
    struct iovec iov[RUN_IOV];
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++) {
        char *bytes = shared_buffer_bytes(nvme->shared, batch[i]);
        size_t cost = segments_cost(batch[i]->length);
        if (!bytes)
            return -EPROTO;
        /* What another item left in the last page is not to be stored. */
        memset(bytes + batch[i]->length, 0, cost - batch[i]->length);
        iov[i] = (struct iovec){bytes, cost};
        total += cost;
    }
    int err = segment_write(file, iov, (int)count, batch[0]->segment_offset);
    if (err == 0)
        atomic_fetch_add(&nvme->shared->metrics.nvme_written_bytes, total);
    return err;
}

/* Buffers of one segment: all written and synced, or an error for all. */
static int write_segment(struct tier_nvme *nvme,
                         struct shared_buffer *const *batch, size_t count)
{
    struct segment_file *file = segments_use(nvme->segments, batch[0]->segment);
    int err = file ? 0 : -ENOENT;

    for (size_t done = 0; err == 0 && done < count;) {
        size_t n = run_length(batch + done, count - done);
        err = write_run(nvme, file, batch + done, n);
        done += n;
    }
    if (err == 0)
        err = segment_sync(file);
    if (file)
        segments_unuse(nvme->segments, batch[0]->segment);
    return err;
}

static void note_write(struct tier_nvme *nvme, int err)
{
    struct shared *shared = nvme->shared;
    uint32_t why = err == -ENOSPC || err == -EDQUOT ? NVME_LIMIT_FREE_SPACE
                                                    : NVME_LIMIT_DISK;

    if (err == 0)
        return;
    nvme->write_failed_ms = clock_now_ms();
    atomic_fetch_add(&shared->metrics.nvme_errors, 1);
    if (atomic_exchange(&shared->nvme_limit, why) != why)
        log_warn("the NVMe tier takes nothing for now: %s", strerror(-err));
}

static void answer(struct tier_nvme *nvme, struct shared_buffer *const *batch,
                   size_t count, int err)
{
    for (size_t i = 0; i < count; i++) {
        batch[i]->error = err;
        atomic_store(&batch[i]->state,
                     err == 0 ? BUFFER_PINNED : BUFFER_REFUSED);
    }
    event_signal(&nvme->shared->worker_event);
}

static bool write_batch(struct tier_nvme *nvme)
{
    struct shared_buffer *batch[BATCH];
    size_t count = collect(nvme, batch);

    qsort(batch, count, sizeof(struct shared_buffer *), by_place);
    for (size_t done = 0; done < count;) {
        size_t n = 1;
        while (done + n < count &&
               batch[done + n]->segment == batch[done]->segment)
            n++;
        int err = write_segment(nvme, batch + done, n);
        note_write(nvme, err);
        answer(nvme, batch + done, n, err);
        done += n;
    }
    return count > 0;
}

/* ---- looking after the disk ---- */

/* The folder that is open must be the one that a next mount would find: the
 * disk may have been unmounted under us, or the folder removed. */
static void look_at_folder(struct tier_nvme *nvme)
{
    struct shared *shared = nvme->shared;
    struct stat ours, there;
    uint64_t now = clock_now_ms();

    if (now - nvme->looked_ms < LOOK_MS)
        return;
    nvme->looked_ms = now;
    bool lost = fstat(nvme->folder_fd, &ours) != 0 || ours.st_nlink == 0 ||
                stat(shared->config.cache_dir, &there) != 0 ||
                there.st_dev != ours.st_dev;
    uint32_t limit = atomic_load(&shared->nvme_limit);
    if (lost && limit != NVME_LIMIT_LOST) {
        atomic_store(&shared->nvme_limit, NVME_LIMIT_LOST);
        log_warn("the cache directory %s is gone, or is on another disk than "
                 "at the mount: nothing more is stored",
                 shared->config.cache_dir);
    } else if (!lost && limit == NVME_LIMIT_LOST) {
        atomic_store(&shared->nvme_limit, NVME_LIMIT_NONE);
    } else if (limit == NVME_LIMIT_DISK &&
               now - nvme->write_failed_ms > DISK_AGAIN_MS) {
        atomic_store(&shared->nvme_limit, NVME_LIMIT_NONE);
    }
}

static void *writer_main(void *data)
{
    struct tier_nvme *nvme = data;

    pthread_setname_np(pthread_self(), "store");
    while (!atomic_load(&nvme->stopping)) {
        uint32_t seen = event_read(&nvme->shared->store_event);
        segments_tend(nvme->segments);
        if (!write_batch(nvme))
            event_wait(&nvme->shared->store_event, seen, IDLE_MS);
        look_at_folder(nvme);
    }
    return NULL;
}

int tier_nvme_start(struct tier *tier)
{
    struct tier_nvme *nvme = nvme_of(tier);

    return -pthread_create(&nvme->writer, NULL, writer_main, nvme);
}

void tier_nvme_stop(struct tier *tier)
{
    struct tier_nvme *nvme = nvme_of(tier);

    atomic_store(&nvme->stopping, true);
    event_signal(&nvme->shared->store_event);
    pthread_join(nvme->writer, NULL);
}

int tier_nvme_clear(struct tier *tier)
{
    return segments_clear(nvme_of(tier)->segments);
}

static void nvme_destroy(struct tier *tier)
{
    segments_destroy(nvme_of(tier)->segments);
    free(tier);
}

static const struct tier_ops nvme_ops = {
    .name = "nvme",
    .reserve = nvme_reserve,
    .restore = nvme_restore,
    .abort = nvme_abort,
    .record = nvme_record,
    .commit = nvme_commit,
    .forget = nvme_forget,
    .drop = nvme_drop,
    .has = nvme_has,
    .read = nvme_read,
    .destroy = nvme_destroy,
};

struct tier *tier_nvme_create(struct shared *shared, struct index *index,
                              int folder_fd)
{
    struct tier_nvme *nvme = calloc(1, sizeof(*nvme));
    if (!nvme)
        return NULL;
    nvme->tier.ops = &nvme_ops;
    nvme->shared = shared;
    nvme->folder_fd = folder_fd;
    nvme->looked_ms = clock_now_ms();
    if (segments_create(shared, index, folder_fd, &nvme->segments) != 0) {
        free(nvme);
        return NULL;
    }
    segments_want(nvme->segments);
    segments_tend(nvme->segments);
    return &nvme->tier;
}
