/* SPDX-License-Identifier: Apache-2.0 */
/* Shared (not FUTEX_PRIVATE) futexes, since the word lies in a memfd that
 * several processes map. */
#include "util/event.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint32_t event_read(struct event *event)
{
    return atomic_load(&event->count);
}

void event_note(struct event *event)
{
    atomic_fetch_add(&event->count, 1);
}

void event_wake(struct event *event)
{
    /* A waiter sets the flag before it compares the counter. */
    if (atomic_exchange(&event->waiting, 0) != 0)
        syscall(SYS_futex, &event->count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void event_signal(struct event *event)
{
    event_note(event);
    event_wake(event);
}

void event_wait(struct event *event, uint32_t seen, long timeout_ms)
{
    struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000};

    atomic_store(&event->waiting, 1);
    syscall(SYS_futex, &event->count, FUTEX_WAIT, seen,
            timeout_ms < 0 ? NULL : &timeout, NULL, 0);
}
