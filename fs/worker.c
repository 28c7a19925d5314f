/* SPDX-License-Identifier: Apache-2.0 */
/* The worker process. Order of its start: shared area, index, buffers of a
 * predecessor, session on the inherited connection, the saved INIT, committer
 * and other helpers, the requests that were left, the threads that receive and
 * serve.
 *
 * A request of a predecessor lies in a slot or in the table of calls (or in
 * both, when it died between copying and clearing) and is processed once. The
 * kernel refuses the reply to one that had been answered just before. */
#include "fs/worker.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "fs/invalidate.h"
#include "fs/ops.h"
#include "fs/process.h"
#include "fs/recover.h"
#include "fs/retake.h"
#include "fs/serve.h"
#include "fs/tasks.h"
#include "fs/upkeep.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/pages.h"

enum {
    LOADERS_PER_CPU = 4, /* they mostly wait for the source */
    LOADERS_LEAST = 8,
    LOADERS_MOST = 32,
};

/* FUSE_INT_REQ_BIT: marks a reply that is about the INTERRUPT of a request. */
#define INTERRUPT_BIT 1ull

static struct worker worker;

int worker_loader_count(const struct config *config)
{
    if (config->threads > 0)
        return config->threads;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    long count = cpus * LOADERS_PER_CPU;
    if (count < LOADERS_LEAST)
        return LOADERS_LEAST;
    return count > LOADERS_MOST ? LOADERS_MOST : (int)count;
}

/* Ends the process with a message that the mount command shows. */
static void __attribute__((noreturn)) fail(const char *what, int err)
{
    struct shared *shared = worker.shared;

    log_error("%s: %s", what, strerror(-err));
    if (!atomic_load(&shared->failed)) {
        snprintf(shared->message, sizeof(shared->message), "%s: %s", what,
                 strerror(-err));
        shared->exit_code = 1;
        atomic_store(&shared->failed, 1);
    }
    _exit(1);
}

/* ---- creation ---- */

static bool is_replacement(void)
{
    return atomic_load(&worker.shared->worker_generation) > 0;
}

static void wake_call(struct admission_waiter *waiter, void *data)
{
    (void)data;
    calls_requeue(worker.calls, (struct call *)waiter);
}

static void item_refused(uint64_t id, uint32_t extent, int error, void *data)
{
    (void)data;
    upkeep_refused(worker.upkeep, id, extent, error);
}

static void item_deferred(uint64_t id, uint32_t extent, void *data)
{
    (void)data;
    upkeep_defer(worker.upkeep, id, extent);
}

static void open_index(void)
{
    struct shared *shared = worker.shared;
    char folder[64];
    bool damaged, dropped, first = atomic_load(&shared->serial) == 0;
    uint64_t serial = 0, known = 0;

    snprintf(folder, sizeof(folder), "/proc/self/fd/%d/index",
             PROCESS_FD_CACHE);
    /* A full disk, say, must not cost a mount that has pins to serve. */
    int err = index_open(folder, first, &worker.index, &damaged);
    if (err != 0)
        fail("cannot open the index in the cache directory", err);
    if (!first) {
        /* Or the next mounts would take serials that were used already. It may
         * also be that the index was removed. */
        damaged |= index_get_number(worker.index, "serial", &serial) != 0;
        if (damaged && index_put_number(worker.index, "serial",
                                        atomic_load(&shared->serial)) != 0)
            fail("cannot write the index in the cache directory", -EIO);
        if (damaged)
            atomic_store(&shared->metrics.known_items, 0);
        return;
    }
    /* The first worker of this mount. */
    err = index_get_number(worker.index, "serial", &serial);
    if (err != 0 && err != -ENOENT)
        fail("index", err);
    err = index_put_number(worker.index, "serial", serial + 1);
    if (err == 0 && index_is_degraded(worker.index))
        err = -EIO; /* the next mount would take the same one */
    if (err != 0)
        fail("cannot write the index in the cache directory", err);
    err =
        index_set_item_bytes(worker.index, shared->config.item_bytes, &dropped);
    if (err != 0)
        fail("cannot write the index in the cache directory", err);
    if (dropped)
        log_info("items are of another length than before (--item-bytes): the "
                 "cache starts empty");
    if (index_get_number(worker.index, "known_items", &known) == 0)
        atomic_store(&shared->metrics.known_items, known);
    atomic_store(&shared->serial, serial + 1);
}

static void create_parts(void)
{
    struct shared *shared = worker.shared;

    worker.calls =
        calls_create(shared, (unsigned)worker_loader_count(&shared->config));
    worker.backing = backing_create(
        PROCESS_FD_DATASET, shared->config.source_bandwidth, &shared->metrics);
    worker.cache = cache_create(shared, worker.index, PROCESS_FD_CACHE,
                                wake_call, item_refused, NULL);
    if (!worker.calls || !worker.backing || !worker.cache)
        fail("start", -ENOMEM);
    worker.inodes =
        inodes_create(shared, worker.index, worker.cache, worker.backing);
    worker.upkeep = upkeep_create(&worker);
    worker.invalidate = invalidate_create(worker.calls, worker.inodes);
    if (!worker.inodes || !worker.upkeep || !worker.invalidate)
        fail("start", -ENOMEM);
    worker.listings = listings_create(shared, worker.index, worker.inodes,
                                      worker.backing, wake_call, NULL);
    worker.retrieve = retrieve_create(worker.session);
    if (!worker.retrieve)
        fail("start", -ENOMEM);
    worker.fetch =
        fetch_create(shared, worker.inodes, worker.cache, worker.backing,
                     worker.calls, worker.retrieve, item_deferred, NULL);
    if (!worker.listings || !worker.fetch)
        fail("start", -ENOMEM);
    worker.recover = recover_create(worker.inodes, worker.listings,
                                    worker.index, worker.calls);
    if (!worker.recover)
        fail("start", -ENOMEM);
    int err = inodes_open_root(worker.inodes);
    if (err != 0 && !is_replacement())
        fail("cannot read the dataset", err);
    if (err != 0)
        log_warn("the dataset does not answer now: %s", strerror(-err));
}

/* ---- threads ---- */

static void process(char *request, size_t length)
{
    struct fuse_buf buffer = {.mem = request, .size = length};

    fuse_session_process_buf(worker.session, &buffer);
}

/* Receives one request into a slot, which is cleared before the next. False:
 * the connection has ended. */
static bool receive(unsigned number)
{
    struct shared *shared = worker.shared;
    char *slot = shared_slot(shared, number);
    struct fuse_in_header *header = (void *)slot;
    struct fuse_buf buffer = {.mem = slot};

    calls_prepare(worker.calls, slot, -1);
    int n = fuse_session_receive_buf(worker.session, &buffer);
    if (n == -EINTR)
        return true;
    if (n == 0 || fuse_session_exited(worker.session))
        return false; /* unmounted, or aborted */
    if (n < 0)
        fail("cannot read from /dev/fuse", n);
    if (header->opcode == FUSE_INIT && (size_t)n <= sizeof(shared->init)) {
        memcpy(shared->init, slot, (size_t)n);
        atomic_store(&shared->init_length, (uint32_t)n);
    }
    process(slot, (size_t)n);
    memset(header, 0, sizeof(*header));
    return true;
}

static void *thread_main(void *data)
{
    char *scratch = pages_map(SERVE_SCRATCH_BYTES);
    unsigned slot;
    struct call *call;

    (void)data;
    pthread_setname_np(pthread_self(), "fuse");
    if (!scratch)
        fail("memory for a thread", -ENOMEM);
    for (;;) {
        switch (calls_next(worker.calls, &slot, &call)) {
        case CALLS_RECEIVE:
            /* While it handles several requests without handing one on it
             * keeps the slot. */
            do {
                if (!receive(slot))
                    calls_stop(worker.calls);
            } while (!calls_handed_on() && !calls_is_stopping(worker.calls));
            calls_received(worker.calls, slot);
            break;
        case CALLS_SERVE:
            serve_call(&worker, call, scratch);
            calls_served(worker.calls);
            break;
        case CALLS_STOP:
            munmap(scratch, SERVE_SCRATCH_BYTES);
            return NULL;
        }
    }
}

static void start_thread(pthread_t *thread, void *(*run)(void *), void *data)
{
    int err = pthread_create(thread, NULL, run, data);

    if (err != 0)
        fail("cannot start a thread", -err);
    pthread_detach(*thread);
}

/* ---- what a predecessor left ---- */

/* INTERRUPTs that the predecessor consumed are lost, and their processes could
 * not be killed. This reply makes the kernel send one again if there was one;
 * else it refuses it. */
static void ask_interrupt_again(uint64_t unique)
{
    struct fuse_out_header header = {
        .len = sizeof(header),
        .error = -EAGAIN,
        .unique = unique | INTERRUPT_BIT,
    };
    ssize_t n = write(PROCESS_FD_FUSE, &header, sizeof(header));
    (void)n; /* refused for a request without one: as expected */
}

static void replay(char *request, uint32_t length, int place)
{
    const struct fuse_in_header *header = (const void *)request;

    atomic_fetch_add(&worker.shared->metrics.replayed_requests, 1);
    ask_interrupt_again(header->unique);
    calls_prepare(worker.calls, request, place);
    process(request, length);
    if (place >= 0 && !calls_handed_on())
        calls_free_place(worker.calls, (unsigned)place);
}

static bool is_in_table(const struct shared_call *calls, uint64_t unique)
{
    for (int i = 0; i < SHARED_CALLS; i++) {
        const struct fuse_in_header *header = (const void *)calls[i].request;
        if (atomic_load(&calls[i].state) == CALL_WAITING &&
            header->unique == unique)
            return true;
    }
    return false;
}

static bool is_complete(const struct fuse_in_header *header, size_t room)
{
    return header->unique != 0 && header->len >= sizeof(*header) &&
           header->len <= room;
}

/* Slots before the table: a request that is in both stays the table's. */
static void replay_slots(void)
{
    struct shared *shared = worker.shared;
    struct shared_call *calls = shared_calls(shared);

    for (unsigned i = 0; i < shared->slots; i++) {
        char *slot = shared_slot(shared, i);
        struct fuse_in_header *header = (void *)slot;
        if (is_complete(header, SHARED_SLOT_BYTES) &&
            header->opcode != FUSE_INIT &&
            header->opcode != FUSE_NOTIFY_REPLY &&
            !is_in_table(calls, header->unique))
            replay(slot, header->len, -1);
        memset(header, 0, sizeof(*header));
    }
}

/* The places that were taken at the start; replaying a slot takes others. */
static void replay_table(const uint32_t *places, size_t count)
{
    struct shared_call *calls = shared_calls(worker.shared);

    for (size_t i = 0; i < count; i++) {
        struct shared_call *call = &calls[places[i]];
        if (is_complete((void *)call->request, sizeof(call->request)))
            replay(call->request, call->length, (int)places[i]);
        else
            calls_free_place(worker.calls, places[i]);
    }
}

static size_t taken_places(uint32_t *places)
{
    struct shared_call *calls = shared_calls(worker.shared);
    size_t count = 0;

    for (uint32_t i = 0; i < SHARED_CALLS; i++)
        if (atomic_load(&calls[i].state) == CALL_WAITING)
            places[count++] = i;
    return count;
}

/* The kernel's INIT, when a predecessor has received it: from where it was
 * saved, or from the slot in which it died with it. */
static void feed_init(void)
{
    struct shared *shared = worker.shared;
    char init[SHARED_INIT_BYTES];

    for (unsigned i = 0; i < shared->slots; i++) {
        char *slot = shared_slot(shared, i);
        const struct fuse_in_header *header = (const void *)slot;
        if (atomic_load(&shared->init_length) == 0 &&
            is_complete(header, sizeof(init)) && header->opcode == FUSE_INIT) {
            memcpy(shared->init, slot, header->len);
            atomic_store(&shared->init_length, header->len);
        }
    }
    uint32_t length = atomic_load(&shared->init_length);
    if (length == 0 || length > sizeof(init))
        return;
    memcpy(init, shared->init, length);
    process(init, length);
}

static void open_session(void)
{
    char device[32];
    char *arguments[] = {"coordlfs", NULL};
    struct fuse_args args = FUSE_ARGS_INIT(1, arguments);

    worker.session =
        fuse_session_new(&args, &ops_table, sizeof(ops_table), &worker);
    snprintf(device, sizeof(device), "/dev/fd/%d", PROCESS_FD_FUSE);
    if (!worker.session || fuse_session_mount(worker.session, device) != 0)
        fail("cannot open a FUSE session", -EIO);
    fuse_opt_free_args(&args);
}

/* ---- the process ---- */

static void serve(void)
{
    struct shared *shared = worker.shared;
    static uint32_t places[SHARED_CALLS];
    size_t left = taken_places(places);
    int loaders = worker_loader_count(&shared->config);
    pthread_t thread;

    feed_init();
    if (cache_start(worker.cache) != 0 || upkeep_start(worker.upkeep) != 0 ||
        invalidate_start(worker.invalidate) != 0 || tasks_start(&worker) != 0)
        fail("cannot start a thread", -EAGAIN);
    replay_slots();
    replay_table(places, left);
    for (int i = 0; i < loaders + (int)shared->slots; i++)
        start_thread(&thread, thread_main, NULL);
    atomic_store(&shared->worker_ready,
                 atomic_load(&shared->worker_generation) + 1);
    log_debug("worker %u answers, %zu requests taken over",
              atomic_load(&shared->worker_generation), left);

    if (retake_start(&worker) != 0)
        log_warn("what was pinned before is not taken again: no thread");
    calls_wait_stopped(worker.calls);
    /* The connection has ended: nobody waits for a reply any more. */
    atomic_store(&shared->state, SHARED_STOPPING);
}

void worker_main(void)
{
    worker.shared = process_begin("worker");
    /* To read every file of the dataset, and the cache's wherever they lie.
     * Before there are other threads, which keep what they were born with. */
    process_keep_capabilities(1ull << CAP_DAC_READ_SEARCH |
                              1ull << CAP_DAC_OVERRIDE);
    open_index();
    open_session();
    create_parts();
    serve();

    /* Whatever other threads are in the middle of is as safe to leave as at a
     * SIGKILL; waiting for them could take as long as the source likes. */
    uint64_t known = atomic_load(&worker.shared->metrics.known_items);
    if (index_put_number(worker.index, "known_items", known) != 0)
        log_warn("the number of known items was not written");
    _exit(0);
}
