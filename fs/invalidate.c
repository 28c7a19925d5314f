/* SPDX-License-Identifier: Apache-2.0 */
/* One thread, which takes all calls that wait as one batch. While a file is
 * marked as changed no READ of it is answered with bytes, so what the kernel
 * has dropped stays dropped until the mark is cleared. */
#include "fs/invalidate.h"

#include <errno.h>
#include <string.h>

#include "fs/notify.h"
#include "util/log.h"

struct invalidate {
    struct calls *calls;
    struct inodes *inodes;
    struct notify notify; /* the thread's */

    pthread_mutex_t lock;
    pthread_cond_t work;
    /* guarded by lock: */
    struct admission_waiter *waiting;
};

struct invalidate *invalidate_create(struct calls *calls, struct inodes *inodes)
{
    struct invalidate *invalidate = calloc(1, sizeof(*invalidate));

    if (!invalidate)
        return NULL;
    invalidate->calls = calls;
    invalidate->inodes = inodes;
    pthread_mutex_init(&invalidate->lock, NULL);
    pthread_cond_init(&invalidate->work, NULL);
    return invalidate;
}

void invalidate_call(struct invalidate *invalidate, struct call *call,
                     const struct node *node)
{
    SCOPED_LOCK(&invalidate->lock);

    call->dropped_id = node->id;
    call->dropped_version = node_version(node);
    call->waiter.next = invalidate->waiting;
    invalidate->waiting = &call->waiter;
    pthread_cond_signal(&invalidate->work);
}

static struct admission_waiter *take_all(struct invalidate *invalidate)
{
    SCOPED_LOCK(&invalidate->lock);
    while (!invalidate->waiting)
        pthread_cond_wait(&invalidate->work, &invalidate->lock);
    struct admission_waiter *all = invalidate->waiting;

    invalidate->waiting = NULL;
    return all;
}

static int drop_pages(struct invalidate *invalidate,
                      const struct admission_waiter *all)
{
    int err = 0;

    for (; all && err == 0; all = all->next)
        err = notify_data(&invalidate->notify,
                          ((const struct call *)all)->dropped_id);
    return err ? err : notify_flush(&invalidate->notify);
}

static void *invalidate_main(void *data)
{
    struct invalidate *invalidate = data;

    pthread_setname_np(pthread_self(), "invalidate");
    for (;;) {
        struct admission_waiter *all = take_all(invalidate);
        int err = drop_pages(invalidate, all);
        if (err != 0)
            log_debug("pages of changed files stay for now: %s",
                      strerror(-err));
        while (all) {
            struct call *call = (struct call *)all;
            all = all->next;
            if (err == 0)
                inodes_dropped(invalidate->inodes, call->dropped_id,
                               call->dropped_version);
            calls_requeue(invalidate->calls, call);
        }
    }
    return NULL;
}

int invalidate_start(struct invalidate *invalidate)
{
    pthread_t thread;
    int err = pthread_create(&thread, NULL, invalidate_main, invalidate);

    if (err == 0)
        pthread_detach(thread);
    return -err;
}
