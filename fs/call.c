/* SPDX-License-Identifier: Apache-2.0 */
/* A place of the table is in one of three hands: the free list, a thread's
 * reservation, or a call. Only the shared half matters to a successor: a place
 * in state WAITING holds a request that was not answered yet.
 *
 * The right to reply is the pointer req, taken under the call's lock by either
 * who serves the call or the kernel's INTERRUPT. */
#include "fs/call.h"

#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <string.h>

#include "util/log.h"

enum {
    LOCKS = 64,
    NONE = -1,
    RECEIVERS_LEAST = 2, /* below that an idle thread is woken to receive */
};

struct calls {
    struct shared *shared;
    struct shared_call *table;
    struct call *call;            /* one per place */
    pthread_mutex_t reply[LOCKS]; /* guards call.req; by place */

    pthread_mutex_t lock;
    pthread_cond_t work;  /* for idle threads */
    pthread_cond_t freed; /* a place */
    pthread_cond_t stopped;
    /* guarded by lock: */
    int *free_places;
    size_t free_count;
    struct admission_waiter *head;
    struct admission_waiter *tail;
    unsigned free_slots[SHARED_SLOTS];
    unsigned free_slot_count;
    unsigned receiving;
    unsigned serving;
    unsigned loaders;
    unsigned idle;
    bool stopping;
};

/* What the calling thread is at. */
static __thread struct {
    const char *request;
    int replayed; /* place of the request, or NONE */
    int reserved; /* place for the next one to be handed on, or NONE */
    bool handed_on;
    bool registering;
    bool interrupted;
} here = {.replayed = NONE, .reserved = NONE};

struct calls *calls_create(struct shared *shared, unsigned loaders)
{
    struct calls *calls = calloc(1, sizeof(*calls));
    if (!calls)
        return NULL;
    calls->shared = shared;
    calls->table = shared_calls(shared);
    calls->loaders = loaders;
    for (unsigned i = shared->slots; i-- > 0;)
        calls->free_slots[calls->free_slot_count++] = i;
    calls->call = calloc(SHARED_CALLS, sizeof(*calls->call));
    calls->free_places = calloc(SHARED_CALLS, sizeof(*calls->free_places));
    if (!calls->call || !calls->free_places) {
        free(calls->call);
        free(calls->free_places);
        free(calls);
        return NULL;
    }
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&calls->reply[i], NULL);
    pthread_mutex_init(&calls->lock, NULL);
    pthread_cond_init(&calls->work, NULL);
    pthread_cond_init(&calls->stopped, NULL);
    pthread_cond_init(&calls->freed, NULL);
    for (int i = SHARED_CALLS - 1; i >= 0; i--) {
        calls->call[i].calls = calls;
        calls->call[i].place = (unsigned)i;
        if (atomic_load(&calls->table[i].state) == CALL_FREE)
            calls->free_places[calls->free_count++] = i;
    }
    return calls;
}

void calls_destroy(struct calls *calls)
{
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&calls->reply[i]);
    pthread_mutex_destroy(&calls->lock);
    pthread_cond_destroy(&calls->work);
    pthread_cond_destroy(&calls->stopped);
    pthread_cond_destroy(&calls->freed);
    free(calls->call);
    free(calls->free_places);
    free(calls);
}

void calls_prepare(struct calls *calls, const char *request, int place)
{
    here.request = request;
    here.replayed = place;
    here.handed_on = false;
    if (here.reserved != NONE || place != NONE)
        return;
    SCOPED_LOCK(&calls->lock);
    while (calls->free_count == 0)
        pthread_cond_wait(&calls->freed, &calls->lock);
    here.reserved = calls->free_places[--calls->free_count];
}

bool calls_handed_on(void)
{
    return here.handed_on;
}

void calls_free_place(struct calls *calls, unsigned place)
{
    atomic_store(&calls->table[place].state, CALL_FREE);
    SCOPED_LOCK(&calls->lock);
    calls->free_places[calls->free_count++] = (int)place;
    pthread_cond_signal(&calls->freed);
}

static void append_locked(struct calls *calls, struct admission_waiter *waiter)
{
    waiter->next = NULL;
    if (calls->tail)
        calls->tail->next = waiter;
    else
        calls->head = waiter;
    calls->tail = waiter;
}

static pthread_mutex_t *reply_lock(struct calls *calls, const struct call *call)
{
    return &calls->reply[call->place % LOCKS];
}

/* Takes the right to reply to req, unless it is gone or the place has become
 * another request's. */
static bool claim_request(struct calls *calls, struct call *call,
                          fuse_req_t req)
{
    SCOPED_LOCK(reply_lock(calls, call));
    if (call->req != req)
        return false;
    call->req = NULL;
    return true;
}

fuse_req_t calls_claim(struct calls *calls, struct call *call)
{
    SCOPED_LOCK(reply_lock(calls, call));
    fuse_req_t req = call->req;

    call->req = NULL;
    return req;
}

/* libfuse calls this within fuse_req_interrupt_func when the INTERRUPT came
 * first: the request is then still being registered, and must not be freed by
 * a reply before that returns. */
static void on_interrupt(fuse_req_t req, void *data)
{
    struct call *call = data;

    if (here.registering) {
        here.interrupted = true;
    } else if (claim_request(call->calls, call, req)) {
        atomic_fetch_add(&call->calls->shared->metrics.interrupted_requests, 1);
        fuse_reply_err(req, EINTR);
    }
}

static void copy_model(struct call *call, const struct call *model)
{
    call->kind = model->kind;
    call->ino = model->ino;
    call->offset = model->offset;
    call->size = model->size;
    call->flags = model->flags;
    call->pid = model->pid;
    call->name = model->name;
    call->first_try_ns = 0;
    call->dropped_id = 0;
}

void calls_hand_on(struct calls *calls, fuse_req_t req,
                   const struct call *model)
{
    const struct fuse_in_header *header = (const void *)here.request;
    int place = here.replayed;

    if (place == NONE) {
        place = here.reserved;
        assert(place != NONE);
        struct shared_call *entry = &calls->table[place];
        if (header->len > sizeof(entry->request)) {
            fuse_reply_err(req, EIO); /* no operation of ours is that long */
            return;
        }
        here.reserved = NONE;
        memcpy(entry->request, here.request, header->len);
        entry->length = header->len;
        atomic_store(&entry->state, CALL_WAITING);
    }
    here.handed_on = true;

    struct call *call = &calls->call[place];
    copy_model(call, model);
    if (model->name)
        call->name = calls->table[place].request + (model->name - here.request);
    pthread_mutex_lock(reply_lock(calls, call));
    call->req = req;
    pthread_mutex_unlock(reply_lock(calls, call));

    here.registering = true;
    here.interrupted = false;
    fuse_req_interrupt_func(req, on_interrupt, call);
    here.registering = false;
    if (here.interrupted && claim_request(calls, call, req))
        fuse_reply_err(req, EINTR);
    /* This thread will look at the queue next: nobody needs waking yet. */
    SCOPED_LOCK(&calls->lock);
    append_locked(calls, &call->waiter);
}

static struct call *pop_locked(struct calls *calls)
{
    struct admission_waiter *waiter = calls->head;

    calls->head = waiter->next;
    if (!calls->head)
        calls->tail = NULL;
    return (struct call *)waiter;
}

static bool can_serve_locked(const struct calls *calls)
{
    return calls->head && calls->serving < calls->loaders;
}

/* Wakes a thread for what the one that is about to go leaves behind. */
static void wake_locked(struct calls *calls)
{
    bool few = calls->receiving < RECEIVERS_LEAST && calls->free_slot_count > 0;

    if (calls->idle > 0 && (few || can_serve_locked(calls)))
        pthread_cond_signal(&calls->work);
}

enum calls_job calls_next(struct calls *calls, unsigned *slot,
                          struct call **call)
{
    SCOPED_LOCK(&calls->lock);
    while (!calls->stopping) {
        /* Somebody must receive; then what waits; then help to receive. */
        if (calls->receiving > 0 && can_serve_locked(calls)) {
            *call = pop_locked(calls);
            calls->serving++;
            wake_locked(calls);
            return CALLS_SERVE;
        }
        if (calls->free_slot_count > 0) {
            *slot = calls->free_slots[--calls->free_slot_count];
            calls->receiving++;
            wake_locked(calls);
            return CALLS_RECEIVE;
        }
        calls->idle++;
        pthread_cond_wait(&calls->work, &calls->lock);
        calls->idle--;
    }
    return CALLS_STOP;
}

void calls_received(struct calls *calls, unsigned slot)
{
    SCOPED_LOCK(&calls->lock);
    calls->free_slots[calls->free_slot_count++] = slot;
    calls->receiving--;
}

void calls_served(struct calls *calls)
{
    SCOPED_LOCK(&calls->lock);
    calls->serving--;
}

void calls_requeue(struct calls *calls, struct call *call)
{
    SCOPED_LOCK(&calls->lock);
    append_locked(calls, &call->waiter);
    wake_locked(calls);
}

void calls_stop(struct calls *calls)
{
    SCOPED_LOCK(&calls->lock);
    calls->stopping = true;
    pthread_cond_broadcast(&calls->work);
    pthread_cond_broadcast(&calls->stopped);
}

bool calls_is_stopping(struct calls *calls)
{
    SCOPED_LOCK(&calls->lock);
    return calls->stopping;
}

void calls_wait_stopped(struct calls *calls)
{
    SCOPED_LOCK(&calls->lock);
    while (!calls->stopping)
        pthread_cond_wait(&calls->stopped, &calls->lock);
}

void calls_end(struct calls *calls, struct call *call)
{
    calls_free_place(calls, call->place);
}

void calls_fail(struct calls *calls, struct call *call, int err)
{
    fuse_req_t req = calls_claim(calls, call);

    if (req)
        fuse_reply_err(req, -err);
    calls_end(calls, call);
}
