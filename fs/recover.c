/* SPDX-License-Identifier: Apache-2.0 */
/* The walk goes breadth first through a queue of directory ids; looking a name
 * up is what writes its record. Calls that wait for it are kept in a list and
 * queued again every few milliseconds, so that they keep no thread. */
#include "fs/recover.h"

#include <errno.h>
#include <stdatomic.h>

#include "util/clock.h"
#include "util/hash.h"
#include "util/log.h"

enum {
    PATIENCE_MS = 5000,
    RETRY_MS = 10,
    WALK_PAUSE_MS = 1000, /* between two walks that found nothing */
    QUIET_MS = 60000,     /* so long the next walks are not logged */
};

struct recover {
    struct inodes *inodes;
    struct listings *listings;
    struct index *index;
    struct calls *calls;
    _Atomic bool stopping;

    pthread_mutex_t lock;
    /* guarded by lock: */
    bool walking;
    bool waking;
    bool joinable[2];
    pthread_t walker;
    pthread_t waker;
    uint64_t last_walk_ms;
    uint64_t last_log_ms;
    struct admission_waiter *waiters;
};

struct directories {
    uint64_t *ids;
    size_t count;
    size_t room;
};

struct recover *recover_create(struct inodes *inodes, struct listings *listings,
                               struct index *index, struct calls *calls)
{
    struct recover *recover = calloc(1, sizeof(*recover));

    if (!recover)
        return NULL;
    recover->inodes = inodes;
    recover->listings = listings;
    recover->index = index;
    recover->calls = calls;
    pthread_mutex_init(&recover->lock, NULL);
    return recover;
}

void recover_destroy(struct recover *recover)
{
    atomic_store(&recover->stopping, true);
    if (recover->joinable[0])
        pthread_join(recover->walker, NULL);
    if (recover->joinable[1])
        pthread_join(recover->waker, NULL);
    pthread_mutex_destroy(&recover->lock);
    free(recover);
}

/* ---- the walk ---- */

static int directories_add(struct directories *directories, uint64_t id)
{
    if (directories->count == directories->room) {
        size_t room = directories->room ? directories->room * 2 : 1024;
        uint64_t *ids = realloc(directories->ids, room * sizeof(*ids));
        if (!ids)
            return -ENOMEM;
        directories->ids = ids;
        directories->room = room;
    }
    directories->ids[directories->count++] = id;
    return 0;
}

struct visit {
    struct recover *recover;
    struct directories *directories;
    uint64_t directory;
};

static bool visit_entry(uint64_t ordinal, const struct listing_entry *entry,
                        void *data)
{
    struct visit *visit = data;
    struct node node;

    (void)ordinal;
    if (inodes_lookup(visit->recover->inodes, visit->directory, entry->name,
                      &node) == 0 &&
        S_ISDIR(node.mode) && directories_add(visit->directories, node.id) != 0)
        return false;
    return !atomic_load(&visit->recover->stopping);
}

/* An id that stays unknown is asked for again and again. */
static bool is_logged(struct recover *recover)
{
    SCOPED_LOCK(&recover->lock);
    uint64_t now = clock_now_ms();
    bool due =
        recover->last_log_ms == 0 || now - recover->last_log_ms > QUIET_MS;

    if (due)
        recover->last_log_ms = now;
    return due;
}

static void *walk_main(void *data)
{
    struct recover *recover = data;
    struct directories directories = {NULL, 0, 0};
    bool logged = is_logged(recover);

    pthread_setname_np(pthread_self(), "recover");
    if (logged)
        log_warn("index: a node that the kernel knows is missing; reading the "
                 "names of the dataset again");
    int err = inodes_open_root(recover->inodes);
    if (err == 0)
        err = directories_add(&directories, HASH_ROOT_ID);
    size_t missed = 0;
    for (size_t i = 0;
         err == 0 && i < directories.count && !atomic_load(&recover->stopping);
         i++) {
        struct visit visit = {recover, &directories, directories.ids[i]};
        /* One that cannot be read must not hide the others. */
        if (listings_ensure(recover->listings, visit.directory, false, NULL) !=
                0 ||
            index_each_entry(recover->index, visit.directory, 0, visit_entry,
                             &visit) != 0)
            missed++;
    }
    if (logged)
        log_info("index: %zu directories read again, %zu of them failed",
                 directories.count, missed);
    free(directories.ids);
    SCOPED_LOCK(&recover->lock);
    recover->walking = false;
    recover->last_walk_ms = clock_now_ms();
    return NULL;
}

/* ---- the calls that wait ---- */

static void *wake_main(void *data)
{
    struct recover *recover = data;

    pthread_setname_np(pthread_self(), "recover-wake");
    for (;;) {
        clock_sleep_ns(RETRY_MS * 1000000ull);
        pthread_mutex_lock(&recover->lock);
        struct admission_waiter *waiters = recover->waiters;
        recover->waiters = NULL;
        bool done = !waiters || atomic_load(&recover->stopping);
        recover->waking = !done;
        pthread_mutex_unlock(&recover->lock);
        while (waiters) {
            struct admission_waiter *next = waiters->next;
            calls_requeue(recover->calls, (struct call *)waiters);
            waiters = next;
        }
        if (done)
            return NULL;
    }
}

static void start_locked(struct recover *recover, int which, pthread_t *thread,
                         bool *running, void *(*run)(void *))
{
    if (recover->joinable[which])
        pthread_join(*thread, NULL); /* it has ended: running is false */
    recover->joinable[which] = pthread_create(thread, NULL, run, recover) == 0;
    *running = recover->joinable[which];
}

/* Keeps the call and has a walk going. False: no thread could be made. */
static bool keep(struct recover *recover, struct call *call)
{
    SCOPED_LOCK(&recover->lock);
    bool again = clock_now_ms() - recover->last_walk_ms > WALK_PAUSE_MS;

    if (!recover->walking && again)
        start_locked(recover, 0, &recover->walker, &recover->walking,
                     walk_main);
    if (!recover->waking)
        start_locked(recover, 1, &recover->waker, &recover->waking, wake_main);
    if (!recover->waking)
        return false;
    call->waiter.next = recover->waiters;
    recover->waiters = &call->waiter;
    return true;
}

bool recover_node(struct recover *recover, struct call *call)
{
    AUTO_FREE char *path = NULL;
    int err = inodes_path_known(recover->inodes, call->ino, &path);
    struct node node;

    if (err == 0)
        err = inodes_get_known(recover->inodes, call->ino, &node);
    if (err == 0)
        return true;
    uint64_t now = clock_now_ns();
    if (call->first_try_ns == 0)
        call->first_try_ns = now;
    if (now - call->first_try_ns > PATIENCE_MS * 1000000ull ||
        !keep(recover, call))
        calls_fail(recover->calls, call, -ESTALE);
    return false;
}
