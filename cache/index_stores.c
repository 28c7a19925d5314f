/* SPDX-License-Identifier: Apache-2.0 */
/* The index's stores.
 *
 * A disk that cannot be written must not end a mount: the kernel goes on using
 * node ids, and the index alone knows what they stand for. From the first write
 * that fails, all writes go to a store in memory that lies over the one on
 * disk: reads look there first, and what is dropped is an empty value there.
 * When the disk takes writes again the records go back to it. */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cache/index_parts.h"
#include "cache/record.h"
#include "util/clock.h"
#include "util/log.h"

enum {
    ASIDE_TRIES = 1000000,
    MEMORY_BYTES = 256 << 20, /* of records, when the disk takes none */
    CLOSE_MS = 2000,          /* for those who still read */
    MOVE_BYTES = 1 << 20,     /* of records in one write back to the disk */
    HEAL_ROOM = 8 << 20,      /* or it is full again at once */
};

int index_report(const char *what, int err, const char *error)
{
    static struct log_limit limit;

    if (err != 0 && err != -ENOENT && log_limit_pass(&limit))
        log_error("index: %s: %s", what, error);
    return err;
}

/* ---- views ---- */

struct view *index_view_get(struct index *index)
{
    SCOPED_LOCK(&index->lock);

    index->view->uses++;
    return index->view;
}

void index_view_put(struct index *index, struct view *view)
{
    pthread_mutex_lock(&index->lock);
    bool last = --view->uses == 0;
    pthread_mutex_unlock(&index->lock);
    if (!last)
        return;
    if (view->disk)
        store_unref(view->disk);
    if (view->over)
        store_unref(view->over);
    free(view);
}

/* Takes over a use of each store. */
static int view_set(struct index *index, struct store *disk, struct store *over)
{
    struct view *view = calloc(1, sizeof(*view));
    if (!view)
        return -ENOMEM;
    *view = (struct view){1, disk, over};
    pthread_mutex_lock(&index->lock);
    struct view *old = index->view;
    index->view = view;
    pthread_mutex_unlock(&index->lock);
    if (old)
        index_view_put(index, old);
    return 0;
}

/* ---- opening ---- */

/* Removes a database that was moved aside; it has no folders of its own. */
static void remove_flat(const char *folder)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;

    while (directory && (entry = readdir(directory)))
        unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        closedir(directory);
    rmdir(folder);
}

/* Of those that were moved aside only the newest stays: rounds of damage must
 * not fill the disk. Returns the highest number. */
static int remove_asides(const char *folder)
{
    const char *name = strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder;
    AUTO_FREE char *parent = strndup(folder, (size_t)(name - folder));
    DIR *directory = parent ? opendir(*parent ? parent : ".") : NULL;
    const struct dirent *entry;
    size_t length = strlen(name);
    int highest = 0;

    while (directory && (entry = readdir(directory))) {
        int number;
        AUTO_FREE char *path = NULL;
        if (strncmp(entry->d_name, name, length) != 0 ||
            sscanf(entry->d_name + length, ".damaged.%d", &number) != 1 ||
            number <= 0 || number > ASIDE_TRIES)
            continue;
        if (number > highest)
            highest = number;
        if (asprintf(&path, "%s%s", parent, entry->d_name) >= 0)
            remove_flat(path);
    }
    if (directory)
        closedir(directory);
    return highest;
}

static int move_aside(const char *folder, const char *why)
{
    AUTO_FREE char *aside = NULL;
    int number = remove_asides(folder) + 1;

    if (asprintf(&aside, "%s.damaged.%d", folder, number) < 0)
        return -ENOMEM;
    if (rename(folder, aside) != 0)
        return -errno;
    log_warn("index: damaged (%s): moved aside as %s in the cache directory, "
             "starting with an empty cache; the dataset is not affected",
             why, strrchr(aside, '/') + 1);
    return 0;
}

static int open_disk(const char *folder, struct store **store, bool *damaged,
                     char error[STORE_ERROR_BYTES])
{
    int err = store_open(STORE_DISK, folder, store, error);

    *damaged = false;
    if (err != -EBADMSG)
        return err;
    err = move_aside(folder, error);
    if (err != 0)
        return err;
    *damaged = true;
    return store_open(STORE_DISK, folder, store, error);
}

/* A database of an older format is of no use: starts anew. */
static int renew_format(struct index *index, char error[STORE_ERROR_BYTES])
{
    uint64_t format = 0, serial;
    int err = index_get_number(index, "format", &format);

    if (err == 0 && format == INDEX_FORMAT)
        return 0;
    if (index_get_number(index, "serial", &serial) == 0) {
        struct store *store;
        log_info("index: of an older version: starting with an empty cache");
        store_ref(index->view->disk);
        store = index->view->disk;
        err = view_set(index, NULL, NULL);
        if (err != 0)
            return err;
        store_unref(store);
        store_destroy(index->folder);
        err = store_open(STORE_DISK, index->folder, &store, error);
        if (err == 0)
            err = view_set(index, store, NULL);
        if (err != 0)
            return err;
    }
    return index_put_number(index, "format", INDEX_FORMAT);
}

static void note_degraded(struct index *index, const char *error)
{
    atomic_store(&index->degraded, true);
    log_warn("index: the cache directory cannot be written (%s): names and "
             "records are kept in memory until it can",
             error);
}

/* What of the disk can still be read, with a store in memory over it. */
static int open_degraded(struct index *index, const char *why)
{
    char error[STORE_ERROR_BYTES];
    struct store *disk = NULL, *over;

    if (store_open(STORE_READ_ONLY, index->folder, &disk, error) != 0)
        disk = NULL;
    int err = store_open(STORE_MEMORY, "/index", &over, error);
    if (err != 0) {
        if (disk)
            store_unref(disk);
        return err;
    }
    note_degraded(index, why);
    return view_set(index, disk, over);
}

int index_open(const char *folder, bool must_write, struct index **index,
               bool *damaged)
{
    char error[STORE_ERROR_BYTES] = "";
    struct index *made = calloc(1, sizeof(*made));
    struct store *store;
    if (!made)
        return -ENOMEM;

    snprintf(made->folder, sizeof(made->folder), "%s", folder);
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->over_lock, NULL);
    int err = open_disk(folder, &store, damaged, error);
    if (err == 0)
        err = view_set(made, store, NULL);
    if (err != 0 && !must_write)
        err = open_degraded(made, *error ? error : strerror(-err));
    if (err == 0)
        err = renew_format(made, error);
    if (err != 0) {
        log_error("index: open: %s", *error ? error : strerror(-err));
        index_close(made);
        return err;
    }
    *index = made;
    return 0;
}

void index_close(struct index *index)
{
    if (index->view)
        index_view_put(index, index->view);
    pthread_mutex_destroy(&index->over_lock);
    pthread_mutex_destroy(&index->lock);
    free(index);
}

bool index_is_degraded(struct index *index)
{
    return atomic_load(&index->degraded);
}

/* ---- writing ---- */

/* From now on writes go to memory. */
static int degrade(struct index *index, const char *error)
{
    char text[STORE_ERROR_BYTES];
    struct store *over;
    SCOPED_LOCK(&index->over_lock);
    struct view *view = index_view_get(index);
    int err = 0;

    if (!view->over) {
        err = store_open(STORE_MEMORY, "/index", &over, text);
        if (err == 0) {
            store_ref(view->disk);
            note_degraded(index, error);
            err = view_set(index, view->disk, over);
        }
    }
    index_view_put(index, view);
    return err;
}

/* What memory holds is counted by what is written, and measured when that is
 * too much: most may have been written over. */
static int check_memory_locked(struct index *index, struct store *over,
                               size_t bytes)
{
    if (atomic_load(&index->over_bytes) + bytes <= MEMORY_BYTES)
        return 0;
    atomic_store(&index->over_bytes, store_bytes(over));
    if (atomic_load(&index->over_bytes) + bytes <= MEMORY_BYTES)
        return 0;
    if (!atomic_exchange(&index->full, true))
        log_warn("index: memory for records is used up: new names cannot be "
                 "served until the cache directory can be written");
    return -ENOMEM;
}

/* -EAGAIN: the disk takes writes again. */
static int write_over(struct index *index, const struct store_ops *ops,
                      char error[STORE_ERROR_BYTES])
{
    SCOPED_LOCK(&index->over_lock);
    struct view *view = index_view_get(index);
    int err = view->over ? 0 : -EAGAIN;

    if (err == 0)
        err = check_memory_locked(index, view->over, ops->used);
    if (err == 0)
        err = store_write(view->over, ops, true, error);
    if (err == 0)
        atomic_fetch_add(&index->over_bytes, ops->used);
    index_view_put(index, view);
    return err;
}

static int write_disk(struct index *index, const struct store_ops *ops,
                      char error[STORE_ERROR_BYTES])
{
    struct view *view = index_view_get(index);
    int err = view->over ? -EAGAIN : store_write(view->disk, ops, false, error);

    index_view_put(index, view);
    return err;
}

int index_batch_commit(struct index *index, struct index_batch *batch)
{
    char error[STORE_ERROR_BYTES] = "";
    int err;

    do {
        err = write_disk(index, &batch->ops, error);
        if (err == 0 && !index_is_degraded(index))
            break;
        if (err == -EIO)
            err = degrade(index, error);
        if (err == 0 || err == -EAGAIN)
            err = write_over(index, &batch->ops, error);
    } while (err == -EAGAIN);
    index_batch_destroy(batch);
    return err == -ENOMEM ? err : index_report("write", err, error);
}

/* ---- back to the disk ---- */

/* Puts what was collected on the disk. */
static int flush(struct store *disk, struct store_ops *ops,
                 char error[STORE_ERROR_BYTES])
{
    int err = store_write(disk, ops, false, error);

    store_ops_free(ops);
    return err;
}

/* Removes from the disk what it has of listings that were dropped, or ended
 * earlier since: before the new entries come, for they may be of a listing that
 * is not whole yet. */
static int cut_listings(struct store *over, struct store *disk,
                        char error[STORE_ERROR_BYTES])
{
    struct store_iterator *at =
        store_iterate(over, STORE_LISTINGS, "", 0, true);
    struct store_ops ops = {0};
    char text[STORE_ERROR_BYTES];
    int err = 0;

    for (; err == 0 && store_valid(at); store_next(at)) {
        struct listing_head head = {.count = 0};
        struct pair_key key;
        size_t key_bytes, bytes;
        const char *raw = store_key(at, &key_bytes);
        const char *value = store_item(at, &bytes);
        if (key_bytes != sizeof(key))
            continue;
        memcpy(&key, raw, sizeof(key));
        if (key.second != HEAD_ORDINAL ||
            (bytes > 0 && record_unpack_head(value, bytes, &head) != 0))
            continue;
        struct pair_key from = {key.first, htobe64(head.count)};
        store_drop(&ops, STORE_LISTINGS, &key, sizeof(key));
        store_drop_range(&ops, STORE_LISTINGS, &from, &key, sizeof(key));
        if (ops.used > MOVE_BYTES)
            err = flush(disk, &ops, error);
    }
    int ended = store_end(at, text);
    if (err == 0 && ended != 0)
        snprintf(error, STORE_ERROR_BYTES, "%s", text);
    if (err == 0)
        err = ended;
    if (err == 0)
        err = flush(disk, &ops, error);
    store_ops_free(&ops);
    return err;
}

/* In parts, in the order of keys: a listing's head after its entries. */
static int move_family(struct store *over, struct store *disk,
                       enum store_family family, struct store_ops *ops,
                       size_t part_bytes, char error[STORE_ERROR_BYTES])
{
    struct store_iterator *at = store_iterate(over, family, "", 0, true);
    char text[STORE_ERROR_BYTES];
    int err = 0;

    for (; err == 0 && store_valid(at); store_next(at)) {
        size_t key_bytes, bytes;
        const char *key = store_key(at, &key_bytes);
        const char *value = store_item(at, &bytes);
        if (bytes > 0)
            store_put(ops, family, key, key_bytes, value, bytes);
        else
            store_drop(ops, family, key, key_bytes);
        if (ops->used > part_bytes)
            err = flush(disk, ops, error);
    }
    int ended = store_end(at, text);
    if (err == 0 && ended != 0)
        snprintf(error, STORE_ERROR_BYTES, "%s", text);
    return err ? err : ended;
}

/* Nodes before the listings that name them; items, segments and numbers, which
 * must agree, at once. */
static int move_all(struct store *over, struct store *disk,
                    char error[STORE_ERROR_BYTES])
{
    static const struct {
        enum store_family family;
        size_t part_bytes;
    } order[] = {
        {STORE_NODES, MOVE_BYTES}, {STORE_LISTINGS, MOVE_BYTES},
        {STORE_ITEMS, SIZE_MAX},   {STORE_SEGMENTS, SIZE_MAX},
        {STORE_META, SIZE_MAX},
    };
    struct store_ops ops = {0};
    int err = cut_listings(over, disk, error);

    for (size_t i = 0; err == 0 && i < sizeof(order) / sizeof(order[0]); i++)
        err = move_family(over, disk, order[i].family, &ops,
                          order[i].part_bytes, error);
    if (err == 0)
        err = flush(disk, &ops, error);
    store_ops_free(&ops);
    return err;
}

/* Closes the store that failed, which RocksDB never writes to again; another
 * takes its place for reading. */
static int close_failed(struct index *index)
{
    char error[STORE_ERROR_BYTES];
    struct view *view = index_view_get(index);
    struct store *reader = NULL, *failed = view->disk;
    int err = 0;

    if (failed)
        err = store_open(STORE_READ_ONLY, index->folder, &reader, error);
    if (!failed || err != 0) {
        index_view_put(index, view);
        return err;
    }
    store_ref(view->over);
    store_ref(failed);
    err = view_set(index, reader, view->over);
    index_view_put(index, view);
    for (int ms = 0; err == 0 && !store_is_last(failed); ms++) {
        if (ms == CLOSE_MS)
            err = -EBUSY; /* somebody walks it: the next time */
        clock_sleep_ns(1000000);
    }
    store_unref(failed);
    return err;
}

/* With the records of memory over it still. */
static int open_again(struct index *index, char error[STORE_ERROR_BYTES])
{
    struct store *disk;
    int err = store_open(STORE_DISK, index->folder, &disk, error);
    if (err != 0)
        return err;

    struct view *view = index_view_get(index);
    store_ref(view->over);
    /* At once: it soon removes files that the one for reading may need. */
    err = view_set(index, disk, view->over);
    index_view_put(index, view);
    return err;
}

int index_heal(struct index *index)
{
    char error[STORE_ERROR_BYTES];
    if (!index_is_degraded(index))
        return 0;
    if (store_room(index->folder) <
        HEAL_ROOM + 2 * atomic_load(&index->over_bytes))
        return -ENOSPC;
    int err = close_failed(index);
    if (err == 0)
        err = open_again(index, error);
    if (err != 0)
        return err;

    SCOPED_LOCK(&index->over_lock);
    struct view *view = index_view_get(index);
    err = move_all(view->over, view->disk, error);
    if (err == 0) {
        store_ref(view->disk);
        err = view_set(index, view->disk, NULL);
    }
    index_view_put(index, view);
    if (err != 0)
        return err;
    atomic_store(&index->over_bytes, 0);
    atomic_store(&index->full, false);
    atomic_store(&index->degraded, false);
    log_info("index: the cache directory can be written again");
    return 0;
}
