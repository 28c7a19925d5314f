/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time, the same in every process of the machine. */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_now_ms(void)
{
    return clock_now_ns() / 1000000u;
}

static inline void clock_sleep_ns(uint64_t ns)
{
    struct timespec left = {(time_t)(ns / 1000000000u),
                            (long)(ns % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) != 0)
        ;
}

#endif
