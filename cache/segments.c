/* SPDX-License-Identifier: Apache-2.0 */
/* First fit over the segments: there are few of them, and so their tails are
 * filled by small items.
 *
 * A segment is in use by readers and by writes on their way; it is closed when
 * the last of them has let go. */
#include "cache/segments.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "util/clock.h"
#include "util/log.h"

enum {
    SEGMENT_SHARE = 8, /* a segment is this part of the capacity */
    AGAIN_MS = 10000,  /* before a disk without room is asked again */
};

#define SEGMENT_LEAST ((uint64_t)1 << 20)
#define SEGMENT_MOST ((uint64_t)1 << 30)
/* Less than this is not worth one. */
#define SEGMENT_REST ((uint64_t)64 << 10)

struct slot {
    struct segment record;
    struct segment_file file;
    uint32_t users;   /* who read or write it now */
    uint32_t pending; /* places that were taken and are not recorded yet */
    bool removed;
};

struct segments {
    struct shared *shared;
    struct index *index;
    int folder_fd;

    pthread_mutex_t lock;
    /* guarded by lock; slots do not move: */
    struct slot **slots;
    size_t count;
    size_t room;
    uint64_t disk_bytes; /* of all that are not removed */
    uint64_t refused_ms; /* when the disk had no room for another */
    int refused_error;   /* of the last try to make one, or 0 */
    uint32_t next_number;
    bool wanted;
};

uint64_t segments_cost(uint64_t length)
{
    return (length + SEGMENT_ALIGN - 1) & ~(uint64_t)(SEGMENT_ALIGN - 1);
}

uint64_t segments_size(uint64_t capacity_bytes, uint64_t item_bytes,
                       uint64_t left_bytes)
{
    uint64_t bytes = capacity_bytes / SEGMENT_SHARE;

    if (bytes < SEGMENT_LEAST)
        bytes = SEGMENT_LEAST;
    if (bytes > SEGMENT_MOST)
        bytes = SEGMENT_MOST;
    if (bytes < item_bytes)
        bytes = item_bytes;
    if (bytes > left_bytes)
        bytes = left_bytes;
    bytes &= ~(uint64_t)(SEGMENT_ALIGN - 1);
    return bytes < SEGMENT_REST ? 0 : bytes;
}

/* ---- the table ---- */

static struct slot *find_locked(struct segments *segments, uint32_t number)
{
    for (size_t i = 0; i < segments->count; i++)
        if (segments->slots[i]->record.number == number &&
            !segments->slots[i]->removed)
            return segments->slots[i];
    return NULL;
}

/* The account of status. */
static void publish_locked(struct segments *segments)
{
    struct shared_account *account = &segments->shared->nvme;
    uint64_t used = 0, item_bytes = 0, items = 0;

    for (size_t i = 0; i < segments->count; i++) {
        const struct slot *slot = segments->slots[i];
        if (slot->removed)
            continue;
        used += slot->record.used_bytes;
        item_bytes += slot->record.item_bytes;
        items += slot->record.items;
    }
    atomic_store(&account->used_bytes, used);
    atomic_store(&account->item_bytes, item_bytes);
    atomic_store(&account->items, items);
    atomic_store(&segments->shared->nvme_disk_bytes, segments->disk_bytes);
}

static int append_locked(struct segments *segments, const struct slot *model)
{
    if (segments->count == segments->room) {
        size_t room = segments->room ? segments->room * 2 : 16;
        struct slot **slots =
            realloc(segments->slots, room * sizeof(struct slot *));
        if (!slots)
            return -ENOMEM;
        segments->slots = slots;
        segments->room = room;
    }
    struct slot *slot = malloc(sizeof(*slot));
    if (!slot)
        return -ENOMEM;
    *slot = *model;
    segments->slots[segments->count++] = slot;
    segments->disk_bytes += slot->record.bytes;
    return 0;
}

/* Frees slots that are removed and that nobody uses. */
static void reap_locked(struct segments *segments)
{
    size_t kept = 0;

    for (size_t i = 0; i < segments->count; i++) {
        struct slot *slot = segments->slots[i];
        if (!slot->removed || slot->users > 0) {
            segments->slots[kept++] = slot;
            continue;
        }
        segment_close(&slot->file);
        free(slot);
    }
    segments->count = kept;
}

static void remove_locked(struct segments *segments, struct slot *slot)
{
    slot->removed = true;
    segments->disk_bytes -= slot->record.bytes;
}

/* ---- opening ---- */

static bool load_segment(const struct segment *record, void *data)
{
    struct segments *segments = data;
    struct slot slot = {.record = *record, .file.fd = -1};
    struct stat st;
    int err = segment_open(segments->folder_fd, record->number, &slot.file);

    if (err == 0 && (fstat(slot.file.fd, &st) != 0 ||
                     (uint64_t)st.st_size < record->used_bytes)) {
        /* A copy of a cache folder that was taken too early, say. */
        segment_close(&slot.file);
        err = -ENODATA;
    }
    if (err != 0) {
        log_warn("segment %08x of the cache is lost (%s): its %llu items will "
                 "be read from the dataset again",
                 record->number, strerror(-err),
                 (unsigned long long)record->items);
        slot.removed = true;
        slot.record.bytes = 0;
    }
    if (record->number >= segments->next_number)
        segments->next_number = record->number + 1;
    return append_locked(segments, &slot) == 0;
}

/* A number that a file has is not given out, whatever the index says. */
static void pass_number(uint32_t number, void *data)
{
    struct segments *segments = data;

    if (number >= segments->next_number && number < UINT32_MAX)
        segments->next_number = number + 1;
}

static void remove_unknown(uint32_t number, void *data)
{
    struct segments *segments = data;

    if (!find_locked(segments, number))
        segment_remove(segments->folder_fd, number);
}

static struct slot *newest_locked(struct segments *segments)
{
    struct slot *newest = NULL;

    for (size_t i = 0; i < segments->count; i++)
        if (!segments->slots[i]->removed &&
            (!newest ||
             segments->slots[i]->record.number > newest->record.number))
            newest = segments->slots[i];
    return newest;
}

/* Takes the newest away until the rest fits; the records of those that are
 * gone or lost go too. */
static int fit(struct segments *segments)
{
    uint64_t capacity = segments->shared->nvme_capacity_bytes;
    struct index_batch *batch = index_batch_create();
    uint64_t items = 0;
    if (!batch)
        return -ENOMEM;

    while (segments->disk_bytes > capacity) {
        struct slot *slot = newest_locked(segments);
        items += slot->record.items;
        remove_locked(segments, slot);
    }
    for (size_t i = 0; i < segments->count; i++)
        if (segments->slots[i]->removed)
            index_batch_drop_segment(batch, segments->slots[i]->record.number);
    index_batch_number(batch, "next_segment", segments->next_number);
    int err = index_batch_commit(segments->index, batch);
    if (items > 0)
        log_info("%llu items dropped from the disk: the NVMe tier is smaller "
                 "than it was",
                 (unsigned long long)items);
    return err;
}

int segments_create(struct shared *shared, struct index *index, int folder_fd,
                    struct segments **segments)
{
    struct segments *made = calloc(1, sizeof(*made));
    uint64_t next = 0;
    if (!made)
        return -ENOMEM;
    made->shared = shared;
    made->index = index;
    made->folder_fd = folder_fd;
    pthread_mutex_init(&made->lock, NULL);
    int err = index_get_number(index, "next_segment", &next);
    made->next_number = (uint32_t)next;
    segment_each(folder_fd, pass_number, made);
    if (err == 0 || err == -ENOENT || index_is_degraded(index))
        err = index_each_segment(index, load_segment, made);
    if (err == 0)
        err = fit(made);
    if (err != 0) {
        segments_destroy(made);
        return err;
    }
    /* An index that cannot be read does not know its segments. */
    if (!index_is_degraded(index))
        segment_each(folder_fd, remove_unknown, made);
    reap_locked(made);
    publish_locked(made);
    *segments = made;
    return 0;
}

void segments_destroy(struct segments *segments)
{
    for (size_t i = 0; i < segments->count; i++) {
        segment_close(&segments->slots[i]->file);
        free(segments->slots[i]);
    }
    free(segments->slots);
    pthread_mutex_destroy(&segments->lock);
    free(segments);
}

/* ---- room ---- */

static uint64_t left_locked(const struct segments *segments)
{
    uint64_t capacity = segments->shared->nvme_capacity_bytes;

    return capacity > segments->disk_bytes ? capacity - segments->disk_bytes
                                           : 0;
}

static uint64_t next_size_locked(const struct segments *segments)
{
    return segments_size(segments->shared->nvme_capacity_bytes,
                         segments->shared->config.item_bytes,
                         left_locked(segments));
}

static bool disk_refused_locked(const struct segments *segments)
{
    return segments->refused_ms != 0 &&
           clock_now_ms() - segments->refused_ms < AGAIN_MS;
}

/* One that is half empty at least is kept ahead, so that few have to wait. */
static void want_ahead_locked(struct segments *segments)
{
    uint64_t next = next_size_locked(segments);

    if (next == 0 || segments->wanted)
        return;
    for (size_t i = 0; i < segments->count; i++) {
        const struct slot *slot = segments->slots[i];
        if (!slot->removed &&
            slot->record.bytes - slot->record.used_bytes >= next / 2)
            return;
    }
    segments->wanted = true;
    event_signal(&segments->shared->store_event);
}

void segments_want(struct segments *segments)
{
    SCOPED_LOCK(&segments->lock);

    want_ahead_locked(segments);
}

int segments_take(struct segments *segments, uint64_t cost,
                  struct tier_place *place)
{
    _Atomic uint32_t *limit = &segments->shared->nvme_limit;
    SCOPED_LOCK(&segments->lock);

    if (atomic_load(limit) == NVME_LIMIT_DISK ||
        atomic_load(limit) == NVME_LIMIT_LOST)
        return -ENOSPC;
    for (size_t i = 0; i < segments->count; i++) {
        struct slot *slot = segments->slots[i];
        if (slot->removed ||
            slot->record.bytes - slot->record.used_bytes < cost)
            continue;
        *place =
            (struct tier_place){slot->record.number, slot->record.used_bytes};
        slot->record.used_bytes += cost;
        slot->pending++;
        publish_locked(segments);
        want_ahead_locked(segments);
        return 0;
    }
    if (cost <= next_size_locked(segments) && !disk_refused_locked(segments)) {
        segments->wanted = true;
        event_signal(&segments->shared->store_event);
        return -EAGAIN;
    }
    if (atomic_load(limit) != NVME_LIMIT_FREE_SPACE)
        atomic_store(limit, NVME_LIMIT_CAPACITY);
    return -ENOSPC;
}

bool segments_claim(struct segments *segments, uint64_t cost,
                    const struct tier_place *place)
{
    SCOPED_LOCK(&segments->lock);
    struct slot *slot = find_locked(segments, place->segment);

    if (!slot || place->offset > slot->record.bytes ||
        cost > slot->record.bytes - place->offset)
        return false;
    if (slot->record.used_bytes < place->offset + cost)
        slot->record.used_bytes = place->offset + cost;
    slot->pending++;
    return true;
}

void segments_give(struct segments *segments, uint64_t cost,
                   const struct tier_place *place)
{
    SCOPED_LOCK(&segments->lock);
    struct slot *slot = find_locked(segments, place->segment);

    if (!slot)
        return;
    slot->pending--;
    /* What lies before the end stays empty until the whole segment goes. */
    if (slot->record.used_bytes == place->offset + cost)
        slot->record.used_bytes = place->offset;
    publish_locked(segments);
}

struct segment_file *segments_use(struct segments *segments, uint32_t number)
{
    SCOPED_LOCK(&segments->lock);
    struct slot *slot = find_locked(segments, number);

    if (!slot)
        return NULL;
    slot->users++;
    return &slot->file;
}

void segments_unuse(struct segments *segments, uint32_t number)
{
    SCOPED_LOCK(&segments->lock);

    /* Also one that was removed meanwhile. */
    for (size_t i = 0; i < segments->count; i++)
        if (segments->slots[i]->record.number == number) {
            segments->slots[i]->users--;
            break;
        }
}

/* ---- items ---- */

bool segments_has(struct segments *segments, const struct item *item)
{
    SCOPED_LOCK(&segments->lock);
    const struct slot *slot = find_locked(segments, item->segment);

    return slot && item->segment_offset <= slot->record.bytes &&
           segments_cost(item->length) <=
               slot->record.bytes - item->segment_offset;
}

void segments_add(struct segments *segments, struct index_batch *batch,
                  const struct item *item)
{
    SCOPED_LOCK(&segments->lock);
    struct slot *slot = find_locked(segments, item->segment);

    if (!slot)
        return;
    slot->record.items++;
    slot->record.item_bytes += item->length;
    index_batch_segment(batch, &slot->record);
    publish_locked(segments);
}

void segments_remove(struct segments *segments, struct index_batch *batch,
                     const struct item *item)
{
    SCOPED_LOCK(&segments->lock);
    struct slot *slot = find_locked(segments, item->segment);

    if (!slot || slot->record.items == 0 ||
        slot->record.item_bytes < item->length)
        return;
    slot->record.items--;
    slot->record.item_bytes -= item->length;
    index_batch_segment(batch, &slot->record);
    publish_locked(segments);
}

void segments_settle(struct segments *segments, uint32_t number)
{
    SCOPED_LOCK(&segments->lock);
    struct slot *slot = find_locked(segments, number);

    if (slot && slot->pending > 0)
        slot->pending--;
}

/* ---- making and removing ---- */

static int record_new(struct segments *segments, const struct segment *record)
{
    struct index_batch *batch = index_batch_create();

    if (!batch)
        return -ENOMEM;
    index_batch_segment(batch, record);
    index_batch_number(batch, "next_segment", record->number + 1ull);
    return index_batch_commit(segments->index, batch);
}

/* Only the writer makes segments, so the number is nobody else's. */
static void make_one(struct segments *segments)
{
    struct slot slot = {.file.fd = -1};
    _Atomic uint32_t *limit = &segments->shared->nvme_limit;

    pthread_mutex_lock(&segments->lock);
    slot.record.number = segments->next_number;
    slot.record.bytes = next_size_locked(segments);
    pthread_mutex_unlock(&segments->lock);
    uint64_t bytes = segment_fit(segments->folder_fd, slot.record.bytes,
                                 (unsigned)segments->shared->config.free_space);
    if (bytes < SEGMENT_REST)
        bytes = 0;
    int err = bytes == 0 ? -ENOSPC : 0;

    slot.record.bytes = bytes;
    if (err == 0)
        err = segment_create(segments->folder_fd, slot.record.number, bytes,
                             &slot.file);
    bool created = err == 0;
    if (err == 0)
        err = record_new(segments, &slot.record);
    if (created && err != 0)
        segment_remove(segments->folder_fd, slot.record.number);
    SCOPED_LOCK(&segments->lock);
    segments->wanted = false;
    if (err == 0 || err == -EEXIST)
        segments->next_number++;
    if (err == 0)
        err = append_locked(segments, &slot);
    if (err == 0) {
        segments->refused_ms = 0;
        segments->refused_error = 0;
        atomic_store(limit, NVME_LIMIT_NONE);
        publish_locked(segments);
        return;
    }
    segment_close(&slot.file);
    segments->refused_ms = clock_now_ms();
    uint32_t why = err == -ENOSPC || err == -EDQUOT ? NVME_LIMIT_FREE_SPACE
                                                    : NVME_LIMIT_DISK;
    atomic_store(limit, why);
    /* Each try may fail in the same way. */
    if (segments->refused_error != err)
        log_warn("the NVMe tier does not grow: %s",
                 why == NVME_LIMIT_FREE_SPACE
                     ? "the disk must keep --free-space free"
                     : strerror(-err));
    segments->refused_error = err;
}

/* There is room again; a disk that fails or is gone is not back for that. */
static void lift_limit(struct segments *segments)
{
    uint32_t full = NVME_LIMIT_CAPACITY, free_space = NVME_LIMIT_FREE_SPACE;
    _Atomic uint32_t *limit = &segments->shared->nvme_limit;

    atomic_compare_exchange_strong(limit, &full, NVME_LIMIT_NONE);
    atomic_compare_exchange_strong(limit, &free_space, NVME_LIMIT_NONE);
}

/* A segment without items and without any on their way, or NULL. */
static struct slot *empty_locked(struct segments *segments)
{
    for (size_t i = 0; i < segments->count; i++) {
        struct slot *slot = segments->slots[i];
        if (!slot->removed && slot->record.items == 0 && slot->pending == 0 &&
            slot->record.used_bytes > 0)
            return slot;
    }
    return NULL;
}

static int drop_record(struct segments *segments, uint32_t number)
{
    struct index_batch *batch = index_batch_create();

    if (!batch)
        return -ENOMEM;
    index_batch_drop_segment(batch, number);
    return index_batch_commit(segments->index, batch);
}

void segments_tend(struct segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    reap_locked(segments);
    struct slot *empty = empty_locked(segments);
    uint32_t number = empty ? empty->record.number : 0;
    if (empty) {
        remove_locked(segments, empty);
        publish_locked(segments);
        lift_limit(segments);
    }
    bool make = segments->wanted && next_size_locked(segments) > 0 &&
                !disk_refused_locked(segments);
    pthread_mutex_unlock(&segments->lock);

    if (empty && drop_record(segments, number) == 0)
        segment_remove(segments->folder_fd, number);
    if (make)
        make_one(segments);
}

int segments_clear(struct segments *segments)
{
    struct index_batch *batch = index_batch_create();
    if (!batch)
        return -ENOMEM;
    SCOPED_LOCK(&segments->lock);
    for (size_t i = 0; i < segments->count; i++) {
        struct slot *slot = segments->slots[i];
        if (slot->removed || slot->pending > 0)
            continue;
        index_batch_drop_segment(batch, slot->record.number);
        segment_remove(segments->folder_fd, slot->record.number);
        remove_locked(segments, slot);
    }
    lift_limit(segments);
    publish_locked(segments);
    return index_batch_commit(segments->index, batch);
}
