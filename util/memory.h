/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process may use: that of the machine, less what its
 * control group or one of the group's parents allows (cgroup v1, v2, or both
 * as on hybrid systems). Callable from every thread. */
#ifndef UTIL_MEMORY_H
#define UTIL_MEMORY_H

#include <limits.h>
#include <stdint.h>

#include "util/cleanup.h"

struct memory_limits {
    uint64_t host_total_bytes;     /* MemTotal */
    uint64_t host_available_bytes; /* MemAvailable */
    uint64_t limit_bytes;          /* the smallest of MemTotal and all limits */
    /* the smallest of MemAvailable and, for each limited group, its limit less
     * what it uses that cannot be given back; 0 where nothing is left */
    uint64_t available_bytes;
    /* the folder of the group that limit_bytes comes from, "" where it is the
     * machine */
    char cgroup[PATH_MAX];
};

/* Reads the limits; root ("" in production) goes before /proc and /sys. Returns
 * -errno, -EBADMSG for a /proc/meminfo without the two lines (both logged). A
 * control group that cannot be read sets no limit. */
int memory_limits(const char *root, struct memory_limits *limits) MUST_CHECK;

#endif
