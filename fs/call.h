/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the kernel that were handed on, since whoever receives must never
 * wait: the worker's half of the request table in the shared area, and who of
 * its threads does what.
 *
 * A thread reserves a place before it receives, so that handing on cannot fail.
 * Having handed a request on it gives its slot back, and usually goes on to
 * serve that very request, while another receives: so a request costs no switch
 * between threads, and yet somebody always receives. Whoever has a call ends
 * it, after a reply or after the call was interrupted meanwhile. */
#ifndef FS_CALL_H
#define FS_CALL_H

#include "fs/fuse_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/admission.h"
#include "util/shared.h"

enum call_kind {
    CALL_LOOKUP,
    CALL_GETATTR,
    CALL_READLINK,
    CALL_READ,
    CALL_READDIR,
    CALL_READDIRPLUS,
    CALL_STATFS,
};

struct call {
    struct admission_waiter waiter; /* first: a waiter is a call */
    enum call_kind kind;
    uint64_t ino;
    uint64_t offset;
    size_t size;
    int flags; /* of the open file */
    pid_t pid;
    const char *name;      /* LOOKUP: lies in the table's copy */
    uint64_t first_try_ns; /* when it first found its node unknown, or 0 */
    /* LOOKUP and GETATTR: the file whose pages the kernel was asked to drop
     * before the answer, or 0, and the version that it was of. */
    uint64_t dropped_id;
    uint64_t dropped_version;

    /* private to call.c */
    struct calls *calls;
    unsigned place;
    fuse_req_t req; /* NULL once somebody took the right to reply */
};

struct calls;

/* loaders: how many calls may be served at once. There must be more threads
 * than that in calls_next. */
struct calls *calls_create(struct shared *shared, unsigned loaders);
void calls_destroy(struct calls *calls);

/* For who receives: reserves a place (waits only when all 65,536 are taken),
 * and says where the request lies that it processes next. place -1: a request
 * just received; else the table's place that a predecessor left. */
void calls_prepare(struct calls *calls, const char *request, int place);

/* After processing: true when the request was handed on. */
bool calls_handed_on(void);

/* Hands a request on; model gives kind and arguments. From then on neither the
 * request nor anything of it may be touched. */
void calls_hand_on(struct calls *calls, fuse_req_t req,
                   const struct call *model);

enum calls_job {
    CALLS_RECEIVE, /* into *slot; ends with calls_received */
    CALLS_SERVE,   /* *call; ends with calls_served */
    CALLS_STOP,
};

/* What the calling thread does next; waits until there is something. */
enum calls_job calls_next(struct calls *calls, unsigned *slot,
                          struct call **call);
/* The slot is cleared and free again. */
void calls_received(struct calls *calls, unsigned slot);
void calls_served(struct calls *calls);
void calls_requeue(struct calls *calls, struct call *call);
void calls_stop(struct calls *calls);
bool calls_is_stopping(struct calls *calls);
void calls_wait_stopped(struct calls *calls);

/* The request to reply to, at most once per call; NULL when it was
 * interrupted. */
fuse_req_t calls_claim(struct calls *calls, struct call *call);

/* Ends a call after its reply. */
void calls_end(struct calls *calls, struct call *call);

/* Replies with an error and ends the call. */
void calls_fail(struct calls *calls, struct call *call, int err);

/* Frees a place that a predecessor's request held. */
void calls_free_place(struct calls *calls, unsigned place);

#endif
