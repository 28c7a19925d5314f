/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the supervisor's children and judging their deaths. For the
 * supervisor's one thread. */
#ifndef FS_CHILDREN_H
#define FS_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/shared.h"

enum child_role { CHILD_WORKER, CHILD_PINNER, CHILD_ROLES };

enum child_verdict {
    CHILD_RESTART,
    CHILD_ENDED,   /* the worker left since the connection has ended */
    CHILD_GIVE_UP, /* it crashes and crashes */
};

struct child {
    pid_t pid;         /* 0: not running */
    uint64_t start_ns; /* when to start it again, 0: at once */
    unsigned crashes;  /* in a row, without having answered */
    uint64_t first_crash_ns;
    uint64_t started_ns;
};

/* Executes the role's program with its descriptors. 0 or -errno. */
int child_start(struct shared *shared, struct child *child,
                enum child_role role) MUST_CHECK;

/* The child has died with that wait status. */
enum child_verdict child_died(struct shared *shared, struct child *child,
                              enum child_role role, int status);

/* What a death of that kind after so many crashes in a row means; pure.
 * since_first_ms: since the first of them. */
bool child_is_crash(int status);
bool child_gives_up(unsigned crashes, uint64_t since_first_ms);
unsigned child_backoff_ms(unsigned crashes);

#endif
