/* SPDX-License-Identifier: Apache-2.0 */
/* A small set of blocks, the one that was used least recently replaced first,
 * and a table of where readers are. READs come a little out of order, since
 * several threads receive them: near the last one's end is near enough. */
#include "fs/ahead.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"
#include "util/pages.h"

enum {
    BLOCK_BYTES = 1 << 20, /* a multiple of ITEM_CHUNK_BYTES */
    ROOM_BYTES = BLOCK_BYTES + SHARED_PAGE,
    BLOCKS = 32,
    AHEAD = 4, /* blocks before a reader, and reads in flight */
    READERS = 64,
    NEAR_BYTES = 512 << 10,
    RUN = 2, /* READs in a row that make a sequential reader */
};

enum block_state { BLOCK_EMPTY, BLOCK_WANTED, BLOCK_READING, BLOCK_READY };

struct ahead_block {
    enum block_state state;
    unsigned users;
    uint64_t used; /* tick of the last use */
    uint64_t id;
    uint64_t version;
    uint32_t extent;
    uint32_t number; /* in the item */
    size_t length;   /* of what is there */
    char *bytes;
};

/* Where somebody reads a file. */
struct reader {
    uint64_t id;
    uint64_t end;
    unsigned run;
};

struct ahead {
    struct cache *cache;
    uint64_t item_bytes;

    pthread_mutex_t lock;
    pthread_cond_t wanted;
    pthread_cond_t ready;
    /* guarded by lock: */
    struct ahead_block blocks[BLOCKS];
    struct reader readers[READERS];
    uint64_t tick;
    bool started;
};

struct ahead *ahead_create(struct cache *cache, uint64_t item_bytes)
{
    struct ahead *ahead = calloc(1, sizeof(*ahead));

    if (!ahead)
        return NULL;
    ahead->cache = cache;
    ahead->item_bytes = item_bytes;
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->wanted, NULL);
    pthread_cond_init(&ahead->ready, NULL);
    return ahead;
}

/* ---- blocks ---- */

static struct ahead_block *find_locked(struct ahead *ahead, uint64_t id,
                                       uint64_t version, uint32_t extent,
                                       uint32_t number)
{
    for (int i = 0; i < BLOCKS; i++) {
        struct ahead_block *block = &ahead->blocks[i];
        if (block->state != BLOCK_EMPTY && block->id == id &&
            block->version == version && block->extent == extent &&
            block->number == number)
            return block;
    }
    return NULL;
}

/* An empty one, or the one of least recent use that nobody uses now. */
static struct ahead_block *replace_locked(struct ahead *ahead)
{
    struct ahead_block *oldest = NULL;

    for (int i = 0; i < BLOCKS; i++) {
        struct ahead_block *block = &ahead->blocks[i];
        if (block->users > 0)
            continue; /* also an empty one, that somebody still waited for */
        if (block->state == BLOCK_EMPTY)
            return block;
        if (block->state == BLOCK_READY &&
            (!oldest || block->used < oldest->used))
            oldest = block;
    }
    return oldest;
}

struct ahead_block *ahead_get(struct ahead *ahead, uint64_t id, uint32_t extent,
                              uint64_t version, uint64_t offset, size_t length,
                              char **bytes)
{
    uint32_t number = (uint32_t)(offset / BLOCK_BYTES);
    size_t from = (size_t)(offset % BLOCK_BYTES);
    SCOPED_LOCK(&ahead->lock);
    struct ahead_block *block = find_locked(ahead, id, version, extent, number);

    if (!block || block->state == BLOCK_WANTED)
        return NULL; /* we are there before it */
    block->users++;
    while (block->state == BLOCK_READING)
        pthread_cond_wait(&ahead->ready, &ahead->lock);
    assert(block->users > 0 && block->id == id);
    if (block->state != BLOCK_READY || from + length > block->length) {
        block->users--;
        return NULL;
    }
    block->used = ++ahead->tick;
    *bytes = block->bytes + from;
    return block;
}

void ahead_put(struct ahead *ahead, struct ahead_block *block)
{
    SCOPED_LOCK(&ahead->lock);

    block->users--;
}

/* ---- reading ---- */

/* Reads what the block stands for; its length, or 0. Without the lock: nobody
 * else touches a block that is being read. */
static size_t read_block(struct ahead *ahead, struct ahead_block *block)
{
    uint64_t offset = (uint64_t)block->number * BLOCK_BYTES;
    struct item item;
    struct item_sums sums;
    size_t start;

    if (!block->bytes)
        block->bytes = pages_map(ROOM_BYTES);
    if (!block->bytes ||
        !(cache_find(ahead->cache, block->id, block->extent, block->version,
                     &item, &sums) &
          ITEM_ON_NVME) ||
        offset >= item.length)
        return 0;
    uint64_t left = item.length - offset;
    size_t length = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
    if (cache_read_stored(ahead->cache, &item, &sums, offset, length,
                          block->bytes, &start) != 0)
        return 0;
    return length;
}

static struct ahead_block *wanted_locked(struct ahead *ahead)
{
    struct ahead_block *first = NULL;

    for (int i = 0; i < BLOCKS; i++) {
        struct ahead_block *block = &ahead->blocks[i];
        if (block->state == BLOCK_WANTED &&
            (!first || block->used < first->used))
            first = block;
    }
    return first;
}

static void *ahead_main(void *data)
{
    struct ahead *ahead = data;

    pthread_setname_np(pthread_self(), "ahead");
    pthread_mutex_lock(&ahead->lock);
    for (;;) {
        struct ahead_block *block = wanted_locked(ahead);
        if (!block) {
            pthread_cond_wait(&ahead->wanted, &ahead->lock);
            continue;
        }
        block->state = BLOCK_READING;
        pthread_mutex_unlock(&ahead->lock);
        size_t length = read_block(ahead, block);
        pthread_mutex_lock(&ahead->lock);
        block->length = length;
        block->state = length > 0 ? BLOCK_READY : BLOCK_EMPTY;
        pthread_cond_broadcast(&ahead->ready);
    }
    return NULL;
}

static void start_locked(struct ahead *ahead)
{
    pthread_t thread;

    for (int i = 0; !ahead->started && i < AHEAD; i++)
        if (pthread_create(&thread, NULL, ahead_main, ahead) == 0)
            pthread_detach(thread);
    ahead->started = true;
}

/* ---- who reads in sequence ---- */

static bool is_near(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) <= NEAR_BYTES;
}

/* Whether this READ goes on where another ended. */
static bool is_sequential_locked(struct ahead *ahead, uint64_t id,
                                 uint64_t offset, size_t length)
{
    struct reader *reader = &ahead->readers[(id ^ id >> 32) % READERS];
    uint64_t end = offset + length;

    if (reader->id != id || !is_near(reader->end, offset)) {
        *reader = (struct reader){id, end, 0};
        return false;
    }
    if (end > reader->end)
        reader->end = end;
    return ++reader->run >= RUN;
}

static void want_locked(struct ahead *ahead, uint64_t id, uint64_t version,
                        uint64_t file_offset)
{
    uint32_t extent = (uint32_t)(file_offset / ahead->item_bytes);
    uint32_t number = (uint32_t)(file_offset % ahead->item_bytes / BLOCK_BYTES);

    if (find_locked(ahead, id, version, extent, number))
        return;
    struct ahead_block *block = replace_locked(ahead);
    if (!block)
        return;
    char *bytes = block->bytes;
    *block = (struct ahead_block){
        .state = BLOCK_WANTED,
        .used = ++ahead->tick,
        .id = id,
        .version = version,
        .extent = extent,
        .number = number,
        .bytes = bytes,
    };
    pthread_cond_signal(&ahead->wanted);
}

void ahead_note(struct ahead *ahead, uint64_t id, uint64_t version,
                uint64_t size, uint64_t offset, size_t length)
{
    if (size <= BLOCK_BYTES)
        return;
    SCOPED_LOCK(&ahead->lock);
    if (!is_sequential_locked(ahead, id, offset, length))
        return;
    start_locked(ahead);
    for (int i = 1; i <= AHEAD; i++) {
        uint64_t next = offset + (uint64_t)i * BLOCK_BYTES;
        if (next < size)
            want_locked(ahead, id, version, next);
    }
}
