/* SPDX-License-Identifier: Apache-2.0 */
/* Two walks: the first counts, so that progress has a total, and leaves names
 * and attributes in the index; the second, which reads only the index, feeds a
 * bounded queue of items to threads that load them. */
#include "fs/warm.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "fs/tasks.h"
#include "fs/upkeep.h"
#include "fs/walk.h"
#include "util/clock.h"

enum {
    LOADERS = 8,
    QUEUE = 256,
    PROGRESS_MS = 200,
};

struct task {
    uint64_t id;
    uint32_t extent;
    uint32_t length;
    bool last; /* item of its file */
};

/* One warm command. */
struct warm {
    struct worker *worker;
    struct tasks_output output;
    uint64_t top; /* id of the file or directory to warm */
    _Atomic bool scanned;
    _Atomic bool loaded;
    _Atomic uint64_t total_files, total_bytes;
    _Atomic uint64_t files, bytes;
    _Atomic uint64_t loaded_bytes; /* of those, not cached before */
    _Atomic uint64_t left_out, left_out_bytes;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* guarded by lock: */
    struct task queue[QUEUE];
    size_t head;
    size_t count;
    bool ended;
};

/* ---- loading ---- */

static bool take_task(struct warm *warm, struct task *task)
{
    SCOPED_LOCK(&warm->lock);
    while (warm->count == 0 && !warm->ended)
        pthread_cond_wait(&warm->changed, &warm->lock);
    if (warm->count == 0)
        return false;
    *task = warm->queue[warm->head];
    warm->head = (warm->head + 1) % QUEUE;
    warm->count--;
    pthread_cond_broadcast(&warm->changed);
    return true;
}

static void put_task(struct warm *warm, const struct task *task)
{
    SCOPED_LOCK(&warm->lock);
    while (warm->count == QUEUE)
        pthread_cond_wait(&warm->changed, &warm->lock);
    warm->queue[(warm->head + warm->count++) % QUEUE] = *task;
    pthread_cond_broadcast(&warm->changed);
}

static void run_task(struct warm *warm, const struct task *task)
{
    bool cached = cache_is_cached(warm->worker->cache, task->id, task->extent);
    int err =
        cached ? 0 : upkeep_load(warm->worker, task->id, task->extent, false);

    if (err == 0 && !cached)
        atomic_fetch_add(&warm->loaded_bytes, task->length);
    if (err == -ENOSPC) {
        atomic_fetch_add(&warm->left_out, 1);
        atomic_fetch_add(&warm->left_out_bytes, task->length);
    } else if (err != 0) {
        if (err != -ECANCELED)
            tasks_fail(&warm->output, task->id, err);
        return;
    }
    atomic_fetch_add(&warm->bytes, task->length);
    if (task->last)
        atomic_fetch_add(&warm->files, 1);
}

static void *load_main(void *data)
{
    struct warm *warm = data;
    struct task task;

    pthread_setname_np(pthread_self(), "warm-load");
    while (take_task(warm, &task))
        if (!tasks_is_cancelled(&warm->output))
            run_task(warm, &task);
    return NULL;
}

/* ---- walking ---- */

static bool count_file(const struct node *node, void *data)
{
    struct warm *warm = data;

    if (inodes_item_count(warm->worker->inodes, node) > 0) {
        atomic_fetch_add(&warm->total_files, 1);
        atomic_fetch_add(&warm->total_bytes, node->size);
    }
    return true;
}

static bool queue_file(const struct node *node, void *data)
{
    struct warm *warm = data;
    uint64_t item_bytes = warm->worker->shared->config.item_bytes;
    uint64_t count = inodes_item_count(warm->worker->inodes, node);

    for (uint64_t i = 0; i < count && !tasks_is_cancelled(&warm->output); i++) {
        uint64_t left = node->size - i * item_bytes;
        struct task task = {
            .id = node->id,
            .extent = (uint32_t)i,
            .length = (uint32_t)(left < item_bytes ? left : item_bytes),
            .last = i + 1 == count,
        };
        put_task(warm, &task);
    }
    return true;
}

static void count_failure(uint64_t id, int err, void *data)
{
    struct warm *warm = data;

    tasks_fail(&warm->output, id, err);
}

static void scan(struct warm *warm)
{
    struct walk walk = {.output = &warm->output,
                        .file = count_file,
                        .failed = count_failure,
                        .data = warm};

    walk_tree(&walk, warm->top);
    atomic_store(&warm->scanned, true);
}

/* Failures have been told by the scan. */
static void queue_all(struct warm *warm)
{
    struct walk walk = {
        .output = &warm->output, .file = queue_file, .data = warm};

    walk_tree(&walk, warm->top);
}

/* Until every buffer that was loaded by now has been answered by the pinner. */
static void wait_for_pins(struct warm *warm)
{
    struct admission *admission = cache_admission(warm->worker->cache);
    uint64_t until = admission_pin_deadline(admission);

    while (!tasks_is_cancelled(&warm->output) &&
           !shared_is_closed(warm->worker->shared) &&
           admission_oldest(admission) <= until)
        admission_wait_free(admission, PROGRESS_MS);
}

static void *walk_main(void *data)
{
    struct warm *warm = data;
    pthread_t loader[LOADERS];
    int started = 0;

    pthread_setname_np(pthread_self(), "warm-walk");
    scan(warm);
    while (started < LOADERS &&
           pthread_create(&loader[started], NULL, load_main, warm) == 0)
        started++;
    if (started > 0)
        queue_all(warm);
    pthread_mutex_lock(&warm->lock);
    warm->ended = true;
    pthread_cond_broadcast(&warm->changed);
    pthread_mutex_unlock(&warm->lock);
    for (int i = 0; i < started; i++)
        pthread_join(loader[i], NULL);
    if (started == 0)
        tasks_cancel(&warm->output);
    wait_for_pins(warm);
    atomic_store(&warm->loaded, true);
    return NULL;
}

/* ---- what it says ---- */

static json_t *progress(struct warm *warm)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b}", "files",
                     (json_int_t)atomic_load(&warm->files), "bytes",
                     (json_int_t)atomic_load(&warm->bytes), "loaded_bytes",
                     (json_int_t)atomic_load(&warm->loaded_bytes),
                     "total_files", (json_int_t)atomic_load(&warm->total_files),
                     "total_bytes", (json_int_t)atomic_load(&warm->total_bytes),
                     "scanned", (int)atomic_load(&warm->scanned));
}

/* Items in any tier; those in both count once. */
static uint64_t cached_items(struct shared *shared)
{
    uint64_t pinned = atomic_load(&shared->dram.items);
    uint64_t copies = atomic_load(&shared->dram.copies);

    return atomic_load(&shared->nvme.items) +
           (pinned > copies ? pinned - copies : 0);
}

static void send_result(struct warm *warm)
{
    json_t *result = progress(warm);

    json_object_set_new(result, "done", json_true());
    json_object_set_new(
        result, "failed",
        json_integer((json_int_t)atomic_load(&warm->output.failed)));
    json_object_set_new(result, "left_out",
                        json_integer((json_int_t)atomic_load(&warm->left_out)));
    json_object_set_new(
        result, "left_out_bytes",
        json_integer((json_int_t)atomic_load(&warm->left_out_bytes)));
    json_object_set_new(result, "in_use",
                        json_integer(upkeep_retry_count(warm->worker->upkeep)));
    json_object_set_new(
        result, "cached_items",
        json_integer((json_int_t)cached_items(warm->worker->shared)));
    tasks_send(&warm->output, result);
}

/* ---- the task ---- */

static void run(struct warm *warm, const char *path)
{
    pthread_t walker;
    int err = tasks_find(warm->worker, path, &warm->top);

    if (err == 0)
        err = -pthread_create(&walker, NULL, walk_main, warm);
    if (err != 0) {
        tasks_send_fatal(&warm->output, path, err);
        return;
    }
    while (!atomic_load(&warm->loaded)) {
        clock_sleep_ns(PROGRESS_MS * 1000000ull);
        tasks_send(&warm->output, progress(warm));
    }
    pthread_join(walker, NULL);
    if (!tasks_is_cancelled(&warm->output))
        send_result(warm);
}

void warm_run(struct worker *worker, int connection, const char *path)
{
    struct warm *warm = calloc(1, sizeof(*warm));
    if (!warm)
        return;

    warm->worker = worker;
    tasks_output_init(&warm->output, worker, connection);
    pthread_mutex_init(&warm->lock, NULL);
    pthread_cond_init(&warm->changed, NULL);
    run(warm, path);
    pthread_cond_destroy(&warm->changed);
    pthread_mutex_destroy(&warm->lock);
    tasks_output_fini(&warm->output);
    free(warm);
}
