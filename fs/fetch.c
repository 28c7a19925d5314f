/* SPDX-License-Identifier: Apache-2.0 */
/* A READ covers at most two items, since an item is at least as long as the
 * largest READ. Each part comes from the item's buffer or from the NVMe tier;
 * what is in neither is loaded whole if it may be admitted, else its range is
 * read from the source: a READ never waits for a buffer, because buffers become
 * free through the pinner, and the pinner waits for READs. */
#include "fs/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include "cache/item.h"
#include "fs/ahead.h"
#include "util/log.h"

enum { PARTS = 2 };

struct fetch {
    struct shared *shared;
    struct inodes *inodes;
    struct cache *cache;
    struct backing *backing;
    struct calls *calls;
    struct retrieve *retrieve;
    struct ahead *ahead;
    fetch_defer_cb defer;
    void *data;
};

/* Where the bytes of a part come from. */
enum origin { FROM_BUFFER, FROM_DRAM, FROM_NVME, FROM_SOURCE };

/* The parts of one READ: of item buffers or blocks that were read ahead, which
 * are in use until put, or read into the thread's scratch. */
struct parts {
    struct shared_buffer *buffer[PARTS]; /* or NULL */
    struct ahead_block *block[PARTS];    /* or NULL */
    struct iovec iov[PARTS];
    enum origin origin[PARTS];
    int count;
    char *scratch; /* what is left of it */
};

/* What of a READ lies in one item. */
struct span {
    uint32_t extent;
    uint64_t first;  /* where the item begins in the file */
    uint64_t offset; /* in the file */
    size_t length;
};

struct fetch *fetch_create(struct shared *shared, struct inodes *inodes,
                           struct cache *cache, struct backing *backing,
                           struct calls *calls, struct retrieve *retrieve,
                           fetch_defer_cb defer, void *data)
{
    struct fetch *fetch = calloc(1, sizeof(*fetch));

    if (!fetch)
        return NULL;
    fetch->shared = shared;
    fetch->inodes = inodes;
    fetch->cache = cache;
    fetch->backing = backing;
    fetch->calls = calls;
    fetch->defer = defer;
    fetch->data = data;
    fetch->retrieve = retrieve;
    fetch->ahead = ahead_create(cache, shared->config.item_bytes);
    if (!fetch->ahead) {
        free(fetch);
        return NULL;
    }
    return fetch;
}

size_t fetch_clip(const struct node *node, uint64_t offset, size_t size)
{
    if (offset >= node->size)
        return 0;
    uint64_t left = node->size - offset;
    return size < left ? size : (size_t)left;
}

/* Extents have 32-bit numbers: what lies beyond (4 PiB and more) is not cached.
 */
static bool has_extent_numbers(const struct fetch *fetch, uint64_t end)
{
    return end / fetch->shared->config.item_bytes < UINT32_MAX;
}

static size_t page_round(size_t bytes)
{
    return (bytes + SHARED_PAGE - 1) & ~(size_t)(SHARED_PAGE - 1);
}

static uint32_t item_length(const struct fetch *fetch, const struct node *node,
                            uint32_t extent)
{
    uint64_t item_bytes = fetch->shared->config.item_bytes;
    uint64_t left = node->size - extent * item_bytes;

    return (uint32_t)(left < item_bytes ? left : item_bytes);
}

static struct span span_of(const struct fetch *fetch, uint64_t offset,
                           uint64_t end, uint32_t extent)
{
    uint64_t item_bytes = fetch->shared->config.item_bytes;
    uint64_t first = extent * item_bytes;
    uint64_t last = first + item_bytes < end ? first + item_bytes : end;
    uint64_t from = offset > first ? offset : first;

    return (struct span){extent, first, from, (size_t)(last - from)};
}

/* ---- answering ---- */

static void parts_put(struct fetch *fetch, struct parts *parts)
{
    for (int i = 0; i < parts->count; i++)
        if (parts->buffer[i])
            admission_put(cache_admission(fetch->cache), parts->buffer[i]);
        else if (parts->block[i])
            ahead_put(fetch->ahead, parts->block[i]);
    parts->count = 0;
}

static void parts_add(struct parts *parts, struct shared_buffer *buffer,
                      char *bytes, size_t length, enum origin origin)
{
    int i = parts->count++;

    parts->buffer[i] = buffer;
    parts->block[i] = NULL;
    parts->origin[i] = origin;
    parts->iov[i].iov_base = bytes;
    parts->iov[i].iov_len = length;
}

/* Adds what the buffer has of the span; the use goes over to parts. */
static void parts_add_buffer(struct fetch *fetch, struct parts *parts,
                             struct shared_buffer *buffer,
                             const struct span *span)
{
    char *bytes = shared_buffer_bytes(fetch->shared, buffer);

    parts_add(parts, buffer, bytes + (span->offset - span->first), span->length,
              FROM_BUFFER);
}

/* Adds what was read into the scratch at start; room is what it took there. */
static void parts_add_scratch(struct parts *parts, size_t start, size_t length,
                              size_t room, enum origin origin)
{
    parts_add(parts, NULL, parts->scratch + start, length, origin);
    parts->scratch += room;
}

static void count_served(struct metrics *metrics, const struct parts *parts)
{
    struct {
        _Atomic uint64_t *reads;
        _Atomic uint64_t *bytes;
    } const counter[] = {
        {&metrics->served_buffer_reads, &metrics->served_buffer_bytes},
        {&metrics->served_dram_reads, &metrics->served_dram_bytes},
        {&metrics->served_nvme_reads, &metrics->served_nvme_bytes},
        {&metrics->served_source_reads, &metrics->served_source_bytes},
    };

    for (int i = 0; i < parts->count; i++) {
        if (i == 0)
            atomic_fetch_add(counter[parts->origin[i]].reads, 1);
        atomic_fetch_add(counter[parts->origin[i]].bytes,
                         parts->iov[i].iov_len);
    }
}

static void reply_parts(struct fetch *fetch, fuse_req_t req,
                        struct parts *parts)
{
    if (req) {
        fuse_reply_iov(req, parts->iov, parts->count);
        count_served(&fetch->shared->metrics, parts);
    }
    parts_put(fetch, parts);
}

bool fetch_has_buffer(struct fetch *fetch, uint64_t id, uint64_t offset)
{
    uint64_t extent = offset / fetch->shared->config.item_bytes;

    return extent < UINT32_MAX &&
           admission_has(cache_admission(fetch->cache), id, (uint32_t)extent);
}

bool fetch_try_buffers(struct fetch *fetch, fuse_req_t req,
                       const struct node *node, uint64_t offset, size_t size)
{
    uint64_t item_bytes = fetch->shared->config.item_bytes;
    uint64_t end = offset + size;
    uint32_t last = (uint32_t)((end - 1) / item_bytes);
    uint64_t version = node_version(node);
    struct parts parts = {.count = 0};

    if (!has_extent_numbers(fetch, end))
        return false;
    for (uint32_t extent = (uint32_t)(offset / item_bytes); extent <= last;
         extent++) {
        struct span span = span_of(fetch, offset, end, extent);
        struct shared_buffer *buffer;
        if (admission_find(cache_admission(fetch->cache), node->id, extent,
                           version, &buffer) != ADMISSION_READY) {
            parts_put(fetch, &parts);
            return false;
        }
        parts_add_buffer(fetch, &parts, buffer, &span);
    }
    reply_parts(fetch, req, &parts);
    return true;
}

/* ---- reading the source ---- */

/* Opens the file, if it still is the version that the node says. */
static int open_version(struct fetch *fetch, struct node *node,
                        const char *path, struct backing_file *file)
{
    int err = backing_open(fetch->backing, path, file);

    if (err == 0 && node_stat_version(&file->stat) != node_version(node)) {
        backing_close(file);
        err = -ESTALE;
    }
    if (err == -EINVAL || err == -ENOENT || err == -ENOTDIR)
        err = -ESTALE; /* no longer a file, or no longer there */
    if (err == -ESTALE)
        inodes_changed(fetch->inodes, node, path);
    return err;
}

/* Reads bytes that are all of the version that the node says. */
static int read_version(struct fetch *fetch, struct node *node,
                        const char *path, char *bytes, size_t length,
                        uint64_t offset, size_t *start)
{
    struct backing_file file;
    struct stat after;
    size_t done;
    int err = open_version(fetch, node, path, &file);
    if (err != 0)
        return err;

    err = backing_read(fetch->backing, &file, bytes, length, offset, start,
                       &done);
    if (err == 0 && fstat(file.fd, &after) != 0)
        err = -errno;
    backing_close(&file);
    if (err == 0 && node_stat_version(&after) != node_version(node)) {
        inodes_changed(fetch->inodes, node, path);
        return -ESTALE;
    }
    /* Short before the end that the kernel knows would cut the file there. */
    return err == 0 && done < length ? -EIO : err;
}

/* Fills the buffer from the source. */
static int load_source(struct fetch *fetch, struct node *node, const char *path,
                       struct shared_buffer *buffer, char *bytes)
{
    size_t start;
    int err = read_version(fetch, node, path, bytes, buffer->length,
                           buffer->file_offset, &start);

    if (err == 0)
        atomic_fetch_add(&fetch->shared->metrics.source_read_items, 1);
    return err;
}

/* Fills the buffer from the item's copy in the NVMe tier. */
static int load_stored(struct fetch *fetch, const struct shared_buffer *buffer,
                       char *bytes)
{
    struct item item;
    struct item_sums sums;
    size_t start;
    uint32_t places = cache_find(fetch->cache, buffer->id, buffer->extent,
                                 buffer->version, &item, &sums);

    if (!(places & ITEM_ON_NVME) || item.length != buffer->length)
        return -ENOENT;
    return cache_read_stored(fetch->cache, &item, &sums, 0, item.length, bytes,
                             &start);
}

static int load(struct fetch *fetch, struct node *node, const char *path,
                struct shared_buffer *buffer)
{
    char *bytes = shared_buffer_bytes(fetch->shared, buffer);
    struct item_sums sums;
    int err = buffer->is_copy ? load_stored(fetch, buffer, bytes) : -ENOENT;

    if (err != 0)
        err = load_source(fetch, node, path, buffer, bytes);
    if (err == 0) {
        buffer->checksum = item_sum(bytes, buffer->length, &sums);
        memcpy(shared_buffer_sums(fetch->shared, buffer), sums.sum,
               sums.count * sizeof(sums.sum[0]));
    }
    return err;
}

/* Reads a span into the scratch, past the cache. */
static int add_source(struct fetch *fetch, struct node *node, const char *path,
                      const struct span *span, struct parts *parts)
{
    size_t start;
    int err = read_version(fetch, node, path, parts->scratch, span->length,
                           span->offset, &start);

    if (err == 0)
        parts_add_scratch(parts, start, span->length,
                          page_round(start + span->length), FROM_SOURCE);
    return err;
}

/* What was read ahead of a sequential reader; false: nothing was. */
static bool add_ahead(struct fetch *fetch, const struct node *node,
                      const struct span *span, struct parts *parts)
{
    uint64_t version = node_version(node);
    char *bytes;
    struct ahead_block *block =
        ahead_get(fetch->ahead, node->id, span->extent, version,
                  span->offset - span->first, span->length, &bytes);

    if (block) {
        parts_add(parts, NULL, bytes, span->length, FROM_NVME);
        parts->block[parts->count - 1] = block;
    }
    ahead_note(fetch->ahead, node->id, version, node->size, span->offset,
               span->length);
    return block != NULL;
}

static int add_stored(struct fetch *fetch, const struct node *node,
                      const struct item *item, const struct item_sums *sums,
                      const struct span *span, struct parts *parts)
{
    size_t start;
    if (add_ahead(fetch, node, span, parts))
        return 0;
    int err =
        cache_read_stored(fetch->cache, item, sums, span->offset - span->first,
                          span->length, parts->scratch, &start);

    if (err == 0)
        parts_add_scratch(parts, start, span->length,
                          page_round(span->length) + 2 * ITEM_CHUNK_BYTES,
                          FROM_NVME);
    return err;
}

/* The bytes of a pinned item for a reader who goes past the page cache. */
static int add_pinned(struct fetch *fetch, const struct item *item,
                      const struct item_sums *sums, const struct span *span,
                      struct parts *parts)
{
    size_t start;
    int err = retrieve_item(fetch->retrieve, item, sums, span->first,
                            span->offset - span->first, span->length,
                            parts->scratch, &start);

    if (err == 0)
        parts_add_scratch(parts, start, span->length,
                          page_round(span->length) + 2 * ITEM_CHUNK_BYTES,
                          FROM_DRAM);
    return err;
}

/* ---- admitting ---- */

static struct admission_key item_key(const struct fetch *fetch,
                                     const struct node *node, const char *path,
                                     uint32_t extent)
{
    return (struct admission_key){
        .id = node->id,
        .extent = extent,
        .length = item_length(fetch, node, extent),
        .file_offset = extent * fetch->shared->config.item_bytes,
        .version = node_version(node),
        .path = path,
    };
}

/* Gets one item into a buffer that is then in use, loading it if need be. */
static enum admission_outcome obtain(struct fetch *fetch, struct node *node,
                                     const char *path, uint32_t extent,
                                     bool promote,
                                     struct admission_waiter *waiter,
                                     struct shared_buffer **buffer, int *err)
{
    struct admission_key key = item_key(fetch, node, path, extent);
    enum admission_outcome outcome =
        cache_begin(fetch->cache, &key, promote, waiter, buffer);

    *err = 0;
    if (outcome != ADMISSION_LOAD)
        return outcome;
    if (key.pinned)
        atomic_fetch_add(&fetch->shared->metrics.pins_lost, 1);
    *err = load(fetch, node, path, *buffer);
    admission_finish(cache_admission(fetch->cache), *buffer, *err);
    return *err == 0 ? ADMISSION_READY : ADMISSION_FULL;
}

int fetch_item(struct fetch *fetch, struct node *node, const char *path,
               uint32_t extent, bool promote)
{
    struct shared_buffer *buffer;
    uint32_t places = cache_find(fetch->cache, node->id, extent,
                                 node_version(node), NULL, NULL);
    int err;

    if (places & ITEM_IN_DRAM || (places != 0 && !promote))
        return 0;
    switch (obtain(fetch, node, path, extent, promote, NULL, &buffer, &err)) {
    case ADMISSION_READY:
        admission_put(cache_admission(fetch->cache), buffer);
        return 0;
    case ADMISSION_FULL:
        return err ? err : -ENOSPC;
    default:
        return -EBUSY;
    }
}

/* ---- one READ ---- */

/* The pinner's own READ of a pinned item brings the pages back. */
static bool is_of_pinner(const struct fetch *fetch, const struct call *call)
{
    return call->pid == atomic_load(&fetch->shared->pinner_pid);
}

/* A READ with what it needs to know of its file. */
struct reading {
    struct call *call;
    struct node node;
    char *path;  /* made when it is needed; owned */
    int unknown; /* the index lacks what the path needs */
};

static int need_path(struct fetch *fetch, struct reading *reading)
{
    if (!reading->path)
        reading->unknown =
            inodes_path_known(fetch->inodes, reading->node.id, &reading->path);
    return reading->unknown;
}

/* Adds a span that no tier answers: through a buffer if the item may be
 * admitted, else from the source. 1: the call is with another thread's load. */
static int add_missing(struct fetch *fetch, struct reading *reading,
                       const struct span *span, bool admit, struct parts *parts)
{
    struct shared_buffer *buffer;
    int err = need_path(fetch, reading);

    if (err != 0)
        return err;
    if (admit) {
        switch (obtain(fetch, &reading->node, reading->path, span->extent,
                       false, &reading->call->waiter, &buffer, &err)) {
        case ADMISSION_READY:
            parts_add_buffer(fetch, parts, buffer, span);
            return 0;
        case ADMISSION_WAIT:
            return 1;
        case ADMISSION_BUSY:
            fetch->defer(reading->node.id, span->extent, fetch->data);
            break;
        default:
            break;
        }
    }
    if (err != 0)
        return err;
    return add_source(fetch, &reading->node, reading->path, span, parts);
}

/* Memory is not what was loaded, unless the item was dropped while we looked:
 * the file is read from the source again. */
static void drop_damaged(struct fetch *fetch, struct reading *reading,
                         const struct item *item)
{
    struct item now;
    if (cache_find(fetch->cache, item->id, item->extent, item->version, &now,
                   NULL) == 0 ||
        now.checksum != item->checksum)
        return;
    atomic_fetch_add(&fetch->shared->metrics.corrupt_items, 1);
    log_error("a pinned item is damaged: dropped, and read from the dataset; "
              "check the machine's memory");
    if (need_path(fetch, reading) == 0 &&
        cache_forget(fetch->cache, reading->node.id, reading->path) != 0)
        log_warn("the damaged item's record stays");
}

static int add_span(struct fetch *fetch, struct reading *reading,
                    const struct span *span, struct parts *parts)
{
    const struct node *node = &reading->node;
    uint64_t version = node_version(node);
    struct shared_buffer *buffer;
    struct item item;
    struct item_sums sums;

    if (admission_find(cache_admission(fetch->cache), node->id, span->extent,
                       version, &buffer) == ADMISSION_READY) {
        parts_add_buffer(fetch, parts, buffer, span);
        return 0;
    }
    uint32_t places =
        cache_find(fetch->cache, node->id, span->extent, version, &item, &sums);
    bool pinned = places & ITEM_IN_DRAM;
    bool of_pinner = is_of_pinner(fetch, reading->call);
    if (pinned && !of_pinner && (reading->call->flags & O_DIRECT)) {
        int err = add_pinned(fetch, &item, &sums, span, parts);
        if (err == 0)
            return 0;
        if (err == -EBADMSG)
            drop_damaged(fetch, reading, &item);
    }
    /* Nobody else asks for a pinned item unless its pin was lost: that is
     * loaded whole and pinned again. */
    if ((places & ITEM_ON_NVME) && (of_pinner || !pinned) &&
        add_stored(fetch, node, &item, &sums, span, parts) == 0)
        return 0;
    return add_missing(fetch, reading, span, !(pinned && of_pinner), parts);
}

/* Not 0: the call is still the caller's. */
static int read_node(struct fetch *fetch, struct reading *reading,
                     char *scratch)
{
    struct call *call = reading->call;
    uint64_t item_bytes = fetch->shared->config.item_bytes;
    size_t size = fetch_clip(&reading->node, call->offset, call->size);
    uint64_t end = call->offset + size;
    struct parts parts = {.count = 0, .scratch = scratch};
    int err = 0;

    if (size > 0 && !has_extent_numbers(fetch, end)) {
        struct span all = {0, 0, call->offset, size};
        err = add_missing(fetch, reading, &all, false, &parts);
    } else if (size > 0) {
        uint32_t last = (uint32_t)((end - 1) / item_bytes);
        for (uint32_t extent = (uint32_t)(call->offset / item_bytes);
             extent <= last && err == 0; extent++) {
            struct span span = span_of(fetch, call->offset, end, extent);
            err = add_span(fetch, reading, &span, &parts);
        }
    }
    if (err != 0)
        parts_put(fetch, &parts);
    if (err == 1)
        return 0; /* the call is with another thread */
    if (reading->unknown != 0)
        return reading->unknown;
    if (err != 0) {
        calls_fail(fetch->calls, call, err);
        return 0;
    }
    reply_parts(fetch, calls_claim(fetch->calls, call), &parts);
    calls_end(fetch->calls, call);
    return 0;
}

int fetch_read(struct fetch *fetch, struct call *call, char *scratch)
{
    struct reading reading = {.call = call};
    int err = inodes_get_known(fetch->inodes, call->ino, &reading.node);

    if (err == 0 && (reading.node.flags & NODE_CHANGED)) {
        err = need_path(fetch, &reading);
        if (err == 0) {
            inodes_changed(fetch->inodes, &reading.node, reading.path);
            calls_fail(fetch->calls, call, -ESTALE);
        }
    } else if (err == 0) {
        err = read_node(fetch, &reading, scratch);
    }
    free(reading.path);
    return err;
}
