/* SPDX-License-Identifier: Apache-2.0 */
/* File by file: the records first, then the pinner lets go. It may wait for
 * buffers, as the read path must not. */
#include "fs/clear.h"

#include <errno.h>

#include "fs/cached.h"
#include "fs/upkeep.h"

struct clear {
    struct worker *worker;
    struct tasks_output output;
    uint64_t items, bytes;
    uint64_t last; /* id of the file that was cleared last */
};

static bool clear_item(const struct item *item, uint32_t places,
                       const char *path, void *data)
{
    struct clear *clear = data;

    (void)places;
    clear->items++;
    clear->bytes += item->length;
    if (clear->last == item->id)
        return true;
    clear->last = item->id;
    int err = cache_forget_records(clear->worker->cache, item->id);
    if (err == 0)
        err = upkeep_release(clear->worker, item->id, path);
    if (err != 0)
        tasks_fail(&clear->output, item->id, err);
    return err != -ECANCELED;
}

static void run(struct clear *clear, const char *argument)
{
    struct cached cached = {
        .output = &clear->output, .item = clear_item, .data = clear};
    uint64_t top;
    int err = tasks_find(clear->worker, argument, &top);

    if (err == 0)
        err = cached_each(&cached, argument);
    if (err == 0 && *argument == '\0')
        err = cache_clear_stored(clear->worker->cache);
    if (err != 0) {
        tasks_send_fatal(&clear->output, argument, err);
        return;
    }
    tasks_send(&clear->output,
               json_pack("{s:b, s:I, s:I, s:I}", "done", 1, "items",
                         (json_int_t)clear->items, "bytes",
                         (json_int_t)clear->bytes, "failed",
                         (json_int_t)atomic_load(&clear->output.failed)));
}

void clear_run(struct worker *worker, int connection, const char *argument)
{
    struct clear clear = {.worker = worker};

    tasks_output_init(&clear.output, worker, connection);
    run(&clear, argument);
    tasks_output_fini(&clear.output);
}
