/* SPDX-License-Identifier: Apache-2.0 */
/* A listing is written in batches of bounded size; its head goes last, in a
 * batch of its own, and before a new listing is written the old head goes
 * first. So a head is only ever beside the entries it counts.
 *
 * One thread at a time makes the listing of a directory. */
#include "fs/listing.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "util/hash.h"
#include "util/log.h"

enum {
    BATCH_ENTRIES = 2048,
    MAKERS = 128, /* more than there are threads that make listings */
};

struct maker {
    uint64_t directory; /* 0: free */
    struct admission_waiter *waiters;
};

struct listings {
    struct shared *shared;
    struct index *index;
    struct inodes *inodes;
    struct backing *backing;
    listing_wake_cb wake;
    void *data;

    pthread_mutex_t lock;
    pthread_cond_t ended;
    /* guarded by lock: */
    struct maker makers[MAKERS];
};

struct listings *listings_create(struct shared *shared, struct index *index,
                                 struct inodes *inodes, struct backing *backing,
                                 listing_wake_cb wake, void *data)
{
    struct listings *listings = calloc(1, sizeof(*listings));

    if (!listings)
        return NULL;
    listings->shared = shared;
    listings->index = index;
    listings->inodes = inodes;
    listings->backing = backing;
    listings->wake = wake;
    listings->data = data;
    pthread_mutex_init(&listings->lock, NULL);
    pthread_cond_init(&listings->ended, NULL);
    return listings;
}

void listings_destroy(struct listings *listings)
{
    pthread_mutex_destroy(&listings->lock);
    pthread_cond_destroy(&listings->ended);
    free(listings);
}

/* ---- one maker per directory ---- */

static struct maker *find_locked(struct listings *listings, uint64_t directory)
{
    for (int i = 0; i < MAKERS; i++)
        if (listings->makers[i].directory == directory)
            return &listings->makers[i];
    return NULL;
}

/* 0: the caller makes it. -EAGAIN: somebody did or does. */
static int begin_making(struct listings *listings, uint64_t directory,
                        struct admission_waiter *waiter)
{
    SCOPED_LOCK(&listings->lock);
    struct maker *maker = find_locked(listings, directory);

    if (maker && waiter) {
        waiter->next = maker->waiters;
        maker->waiters = waiter;
        return -EAGAIN;
    }
    if (maker) {
        while (find_locked(listings, directory))
            pthread_cond_wait(&listings->ended, &listings->lock);
        return -EAGAIN;
    }
    maker = find_locked(listings, 0);
    if (!maker)
        return -ENOMEM;
    *maker = (struct maker){.directory = directory};
    return 0;
}

static void end_making(struct listings *listings, uint64_t directory)
{
    pthread_mutex_lock(&listings->lock);
    struct maker *maker = find_locked(listings, directory);
    struct admission_waiter *waiters = maker->waiters;
    *maker = (struct maker){.directory = 0};
    pthread_cond_broadcast(&listings->ended);
    pthread_mutex_unlock(&listings->lock);

    while (waiters) {
        struct admission_waiter *next = waiters->next;
        listings->wake(waiters, listings->data);
        waiters = next;
    }
}

/* ---- making ---- */

struct making {
    struct listings *listings;
    struct index_batch *batch;
    uint64_t directory;
    const char *path;
    uint64_t count;
};

static int flush(struct making *making)
{
    struct index_batch *full = making->batch;

    making->batch = index_batch_create();
    int err = index_batch_commit(making->listings->index, full);
    return err ? err : making->batch ? 0 : -ENOMEM;
}

static int add_entry(const char *name, unsigned char type, void *data)
{
    struct making *making = data;
    struct listing_entry entry = {.type = type};
    AUTO_FREE char *path = NULL;
    size_t length = strlen(name);

    if (length >= NODE_NAME_BYTES) {
        log_warn("name of %zu bytes left out of %s", length, making->path);
        return 0;
    }
    int err = inodes_child(making->path, name, &entry.id, &path);
    if (err != 0)
        return err;
    if (type == DT_UNKNOWN) {
        struct stat st;
        if (backing_stat(making->listings->backing, path, &st) == 0)
            entry.type = IFTODT(st.st_mode);
    }
    memcpy(entry.name, name, length + 1);
    index_batch_entry(making->batch, making->directory, making->count++,
                      &entry);
    return making->count % BATCH_ENTRIES == 0 ? flush(making) : 0;
}

static int make_listing(struct listings *listings, uint64_t directory,
                        const char *path)
{
    struct making making = {
        .listings = listings, .directory = directory, .path = path};
    struct stat st;
    int err = index_drop_listing(listings->index, directory);
    if (err != 0)
        return err;
    making.batch = index_batch_create();
    if (!making.batch)
        return -ENOMEM;
    err = backing_list(listings->backing, path, &st, add_entry, &making);
    if (err == 0)
        err = flush(&making);
    if (err == 0) {
        struct listing_head head = {
            .serial = atomic_load(&listings->shared->serial),
            .count = making.count,
            .mtime = st.st_mtim,
            .ctime = st.st_ctim,
            .source_ino = st.st_ino,
        };
        index_batch_head(making.batch, directory, &head);
        err = flush(&making);
    }
    index_batch_destroy(making.batch);
    return err;
}

/* ---- ensuring ---- */

static bool is_current(const struct listings *listings,
                       const struct listing_head *head)
{
    return head->serial == atomic_load(&listings->shared->serial);
}

static bool same_version(const struct listing_head *head, const struct stat *st)
{
    return head->source_ino == st->st_ino &&
           head->mtime.tv_sec == st->st_mtim.tv_sec &&
           head->mtime.tv_nsec == st->st_mtim.tv_nsec &&
           head->ctime.tv_sec == st->st_ctim.tv_sec &&
           head->ctime.tv_nsec == st->st_ctim.tv_nsec;
}

/* Checks an old listing against the source, or makes a new one. */
static int renew(struct listings *listings, uint64_t directory)
{
    AUTO_FREE char *path = NULL;
    struct listing_head head;
    struct stat st;
    int err = inodes_path_known(listings->inodes, directory, &path);
    if (err != 0)
        return err == -ENOENT ? -ESTALE : err;
    if (index_get_listing(listings->index, directory, &head) != 0)
        return make_listing(listings, directory, path);
    err = backing_stat(listings->backing, path, &st);
    if (err != 0)
        return err;
    if (!same_version(&head, &st))
        return make_listing(listings, directory, path);
    if (is_current(listings, &head))
        return 0;

    struct index_batch *batch = index_batch_create();
    if (!batch)
        return -ENOMEM;
    head.serial = atomic_load(&listings->shared->serial);
    index_batch_head(batch, directory, &head);
    return index_batch_commit(listings->index, batch);
}

/* As the one thread that does. -EAGAIN: another does or did. */
static int renew_alone(struct listings *listings, uint64_t directory,
                       struct admission_waiter *waiter)
{
    int err = begin_making(listings, directory, waiter);

    if (err == 0) {
        err = renew(listings, directory);
        end_making(listings, directory);
    }
    return err;
}

int listings_ensure(struct listings *listings, uint64_t directory, bool begun,
                    struct admission_waiter *waiter)
{
    bool always = listings->shared->config.revalidate > 0 && !begun;

    for (;;) {
        struct listing_head head;
        if (!always &&
            index_get_listing(listings->index, directory, &head) == 0 &&
            is_current(listings, &head))
            return 0;
        int err = renew_alone(listings, directory, waiter);
        if (err != -EAGAIN || waiter)
            return err;
        always = false; /* another did just now */
    }
}

int listings_renew(struct listings *listings, uint64_t directory)
{
    int err;

    do
        err = renew_alone(listings, directory, NULL);
    while (err == -EAGAIN);
    return err;
}
