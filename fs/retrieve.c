/* SPDX-License-Identifier: Apache-2.0 */
/* Questions lie in a table; a cookie is a place in it and the place's
 * generation. So an answer that comes after the time-out finds nothing, and
 * neither does one to a dead worker, whose numbers libfuse uses again. */
#include "fs/retrieve.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/item.h"
#include "util/clock.h"

enum {
    PLACES = 64,
    PIECE_BYTES = 512 << 10,
    IN_FLIGHT = 4, /* of one range */
    LIMIT_MS = 1000,
    PAUSE_MS = 20, /* before bytes that are wrong are asked for again */
};

struct place {
    uint32_t generation;
    bool taken;
    bool answered;
    uint64_t id;
    uint64_t offset;
    size_t length;
    size_t got;
    char *buffer;
};

struct retrieve {
    struct fuse_session *session;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* guarded by lock, the callers' buffers included: */
    struct place places[PLACES];
};

struct retrieve *retrieve_create(struct fuse_session *session)
{
    struct retrieve *retrieve = calloc(1, sizeof(*retrieve));
    pthread_condattr_t monotonic;

    if (!retrieve)
        return NULL;
    retrieve->session = session;
    pthread_mutex_init(&retrieve->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&retrieve->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return retrieve;
}

void retrieve_destroy(struct retrieve *retrieve)
{
    pthread_cond_destroy(&retrieve->changed);
    pthread_mutex_destroy(&retrieve->lock);
    free(retrieve);
}

static void *cookie_of(const struct retrieve *retrieve, int i)
{
    return (void *)((uintptr_t)retrieve->places[i].generation * PLACES +
                    (uintptr_t)i);
}

/* Waits for a change, until that time; false when it has passed. */
static bool wait_locked(struct retrieve *retrieve, uint64_t until_ns)
{
    struct timespec until = {(time_t)(until_ns / 1000000000u),
                             (long)(until_ns % 1000000000u)};

    return pthread_cond_timedwait(&retrieve->changed, &retrieve->lock,
                                  &until) == 0;
}

/* A place for a question, or -1 when none becomes free in time. */
static int take(struct retrieve *retrieve, const struct place *question,
                uint64_t until_ns)
{
    SCOPED_LOCK(&retrieve->lock);
    do {
        for (int i = 0; i < PLACES; i++) {
            if (retrieve->places[i].taken)
                continue;
            uint32_t generation = retrieve->places[i].generation + 1;
            retrieve->places[i] = *question;
            retrieve->places[i].generation = generation;
            retrieve->places[i].taken = true;
            return i;
        }
    } while (wait_locked(retrieve, until_ns));
    return -1;
}

static void free_locked(struct retrieve *retrieve, int i)
{
    retrieve->places[i].taken = false;
    pthread_cond_broadcast(&retrieve->changed);
}

static int ask(struct retrieve *retrieve, const struct place *question,
               uint64_t until_ns)
{
    int i = take(retrieve, question, until_ns);
    if (i < 0)
        return -1;

    int err = fuse_lowlevel_notify_retrieve(
        retrieve->session, question->id, question->length,
        (off_t)question->offset, cookie_of(retrieve, i));
    if (err == 0)
        return i;
    SCOPED_LOCK(&retrieve->lock);
    free_locked(retrieve, i);
    return -1;
}

/* Whether the answer came, with every byte. */
static bool collect(struct retrieve *retrieve, int i, uint64_t until_ns)
{
    SCOPED_LOCK(&retrieve->lock);
    struct place *place = &retrieve->places[i];

    while (!place->answered && wait_locked(retrieve, until_ns))
        ;
    bool whole = place->answered && place->got == place->length;
    free_locked(retrieve, i);
    return whole;
}

int retrieve_range(struct retrieve *retrieve, uint64_t id, uint64_t offset,
                   size_t length, char *buffer)
{
    uint64_t until_ns = clock_now_ns() + LIMIT_MS * 1000000ull;
    bool whole = true;

    for (size_t done = 0; whole && done < length;) {
        int asked[IN_FLIGHT];
        int count = 0;
        while (count < IN_FLIGHT && done < length) {
            struct place question = {
                .id = id,
                .offset = offset + done,
                .length =
                    length - done < PIECE_BYTES ? length - done : PIECE_BYTES,
                .buffer = buffer + done,
            };
            /* Who has places waits for answers alone: else all might wait for
             * each other's places. */
            int i = ask(retrieve, &question, count == 0 ? until_ns : 0);
            if (i < 0)
                break;
            asked[count++] = i;
            done += question.length;
        }
        whole = count > 0;
        for (int n = 0; n < count; n++)
            whole = collect(retrieve, asked[n], until_ns) && whole;
    }
    return whole ? 0 : -EAGAIN;
}

/* Older kernels hand out pages that are still being read, with other bytes. So
 * bytes are wrong only if they stay so. */
int retrieve_item(struct retrieve *retrieve, const struct item *item,
                  const struct item_sums *sums, uint64_t first, uint64_t offset,
                  size_t length, char *buffer, size_t *start)
{
    uint64_t chunk = offset / ITEM_CHUNK_BYTES;
    uint64_t from = chunk * ITEM_CHUNK_BYTES;
    uint64_t to = (offset + length + ITEM_CHUNK_BYTES - 1) / ITEM_CHUNK_BYTES *
                  ITEM_CHUNK_BYTES;
    uint64_t until_ms = clock_now_ms() + LIMIT_MS;

    if (to > item->length)
        to = item->length;
    for (;;) {
        int err =
            retrieve_range(retrieve, item->id, first + from, to - from, buffer);
        if (err != 0)
            return err;
        if (item_chunks_match(buffer, to - from, (uint32_t)chunk, sums))
            break;
        if (clock_now_ms() >= until_ms)
            return -EBADMSG;
        usleep(PAUSE_MS * 1000);
    }
    *start = offset - from;
    return 0;
}

void retrieve_answer(struct retrieve *retrieve, void *cookie, uint64_t id,
                     uint64_t offset, struct fuse_bufvec *bytes)
{
    uintptr_t number = (uintptr_t)cookie;
    SCOPED_LOCK(&retrieve->lock);
    struct place *place = &retrieve->places[number % PLACES];

    if (!place->taken || place->answered ||
        place->generation != (uint32_t)(number / PLACES) || place->id != id ||
        place->offset != offset)
        return;
    struct fuse_bufvec to = FUSE_BUFVEC_INIT(place->length);
    to.buf[0].mem = place->buffer;
    ssize_t got = fuse_buf_copy(&to, bytes, (enum fuse_buf_copy_flags)0);
    place->got = got > 0 ? (size_t)got : 0;
    place->answered = true;
    pthread_cond_broadcast(&retrieve->changed);
}
