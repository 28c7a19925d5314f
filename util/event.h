/* SPDX-License-Identifier: Apache-2.0 */
/* A wake-up between processes: a counter in shared memory and futex(2).
 *
 * The waiter reads the counter, looks for work, and waits only if the counter
 * still has the value it read, so that no wake-up is lost. */
#ifndef UTIL_EVENT_H
#define UTIL_EVENT_H

#include <stdint.h>

struct event {
    _Atomic uint32_t count;
    _Atomic uint32_t waiting; /* somebody may sleep; stale after a SIGKILL */
};

uint32_t event_read(struct event *event);

/* The two halves of event_signal: changes the counter, which keeps those who
 * are about to wait awake; and wakes those who sleep already. A process killed
 * between the two wakes nobody: wait with a time-out. */
void event_note(struct event *event);
void event_wake(struct event *event);

/* Wakes every waiter, in whichever process it is. */
void event_signal(struct event *event);

/* Returns when the counter differs from seen, or after timeout_ms (-1: never);
 * may return early. */
void event_wait(struct event *event, uint32_t seen, long timeout_ms);

#endif
