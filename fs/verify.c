/* SPDX-License-Identifier: Apache-2.0 */
/* One thread, one item at a time: readers come first. What is pinned comes back
 * from the kernel, what is on NVMe is read there. */
#include "fs/verify.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "cache/item.h"
#include "fs/cached.h"
#include "util/clock.h"
#include "util/pages.h"

enum { PROGRESS_MS = 200 };

struct verify {
    struct worker *worker;
    struct tasks_output output;
    char *buffer; /* of one item and a page */
    size_t buffer_bytes;
    uint64_t items, bytes, bad, lost;
    uint64_t sent_ms;
};

static void send_progress(struct verify *verify)
{
    struct shared *shared = verify->worker->shared;
    uint64_t items =
        atomic_load(&shared->dram.items) + atomic_load(&shared->nvme.items);
    uint64_t total = atomic_load(&shared->dram.item_bytes) +
                     atomic_load(&shared->nvme.item_bytes);

    if (clock_now_ms() - verify->sent_ms < PROGRESS_MS)
        return;
    verify->sent_ms = clock_now_ms();
    tasks_send(&verify->output,
               json_pack("{s:I, s:I, s:I, s:I, s:b}", "files",
                         (json_int_t)verify->items, "bytes",
                         (json_int_t)verify->bytes, "total_files",
                         (json_int_t)items, "total_bytes", (json_int_t)total,
                         "scanned", 1));
}

static void report_bad(struct verify *verify, const struct item *item,
                       const char *where)
{
    char text[64];

    verify->bad++;
    snprintf(text, sizeof(text), "other bytes than its checksum, %s", where);
    tasks_fail_text(&verify->output, item->id, text);
}

/* Whether the index still has the item as it was: else it was dropped while we
 * looked at it. */
static bool is_unchanged(struct verify *verify, const struct item *item)
{
    struct item now;

    return index_get_item(verify->worker->index, item->id, item->extent,
                          &now) == 0 &&
           now.checksum == item->checksum && now.serial == item->serial;
}

static void verify_pinned(struct verify *verify, const struct item *item,
                          const struct item_sums *sums, const char *path)
{
    struct worker *worker = verify->worker;
    struct metrics *metrics = &worker->shared->metrics;
    uint64_t first = item->extent * worker->shared->config.item_bytes;
    size_t start;
    int err = retrieve_item(worker->retrieve, item, sums, first, 0,
                            item->length, verify->buffer, &start);

    if (err == 0 || !is_unchanged(verify, item))
        return;
    if (err == -EBADMSG) {
        atomic_fetch_add(&metrics->corrupt_items, 1);
        report_bad(verify, item, "in memory");
    } else {
        atomic_fetch_add(&metrics->pins_lost, 1);
        verify->lost++;
    }
    err = cache_forget(worker->cache, item->id, path);
    if (err != 0)
        tasks_fail(&verify->output, item->id, err);
}

static void verify_stored(struct verify *verify, const struct item *item,
                          const struct item_sums *sums)
{
    size_t start;
    int err = cache_read_stored(verify->worker->cache, item, sums, 0,
                                item->length, verify->buffer, &start);

    if (err == -EBADMSG)
        report_bad(verify, item, "on disk");
    else if (err != 0 && err != -EAGAIN && err != -ENOENT)
        tasks_fail(&verify->output, item->id, err);
}

static bool verify_item(const struct item *item, uint32_t places,
                        const char *path, void *data)
{
    struct verify *verify = data;
    struct item now;
    struct item_sums sums;

    if (index_get_item_sums(verify->worker->index, item->id, item->extent, &now,
                            &sums) != 0 ||
        item->length + SHARED_PAGE > verify->buffer_bytes)
        return true;
    if (places & ITEM_ON_NVME)
        verify_stored(verify, &now, &sums);
    if (places & ITEM_IN_DRAM)
        verify_pinned(verify, &now, &sums, path);
    verify->items++;
    verify->bytes += item->length;
    send_progress(verify);
    return true;
}

static void run(struct verify *verify, const char *argument)
{
    struct cached cached = {
        .output = &verify->output, .item = verify_item, .data = verify};
    uint64_t top;
    int err = tasks_find(verify->worker, argument, &top);

    if (err == 0)
        err = cached_each(&cached, argument);
    if (err != 0) {
        tasks_send_fatal(&verify->output, argument, err);
        return;
    }
    tasks_send(&verify->output,
               json_pack("{s:b, s:I, s:I, s:I, s:I, s:I}", "done", 1, "items",
                         (json_int_t)verify->items, "bytes",
                         (json_int_t)verify->bytes, "bad",
                         (json_int_t)verify->bad, "lost",
                         (json_int_t)verify->lost, "failed",
                         (json_int_t)atomic_load(&verify->output.failed) -
                             (json_int_t)verify->bad));
}

void verify_run(struct worker *worker, int connection, const char *argument)
{
    struct verify verify = {
        .worker = worker,
        .buffer_bytes = worker->shared->config.item_bytes + SHARED_PAGE,
    };

    tasks_output_init(&verify.output, worker, connection);
    verify.buffer = pages_map(verify.buffer_bytes);
    if (!verify.buffer) {
        tasks_send_fatal(&verify.output, argument, -ENOMEM);
    } else {
        run(&verify, argument);
        munmap(verify.buffer, verify.buffer_bytes);
    }
    tasks_output_fini(&verify.output);
}
