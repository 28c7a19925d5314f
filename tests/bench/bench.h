/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmark's tools share: numbers with suffixes, a seeded stream of
 * random numbers, the clock. The tools stand alone, without the project's
 * libraries: they measure from outside. */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Spreads the bits of x over the whole word (a 64-bit finaliser). */
static inline uint64_t bench_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The next number of the stream that state seeds: the same everywhere. */
static inline uint64_t bench_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return bench_mix(*state);
}

static inline double bench_seconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A number with an optional suffix K, M or G (powers of 1024), or exit 2. */
static inline uint64_t bench_parse(const char *what, const char *text)
{
    static const char suffixes[] = "KMG";
    char *end;

    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (end == text || *text == '-' || errno)
        errx(2, "%s: not a number: '%s'", what, text);
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    if (suffix) {
        unsigned shift = 10 * (unsigned)(suffix - suffixes + 1);
        if (value > UINT64_MAX >> shift)
            errx(2, "%s: too large: '%s'", what, text);
        value <<= shift;
        end++;
    }
    if (*end)
        errx(2, "%s: not a number: '%s'", what, text);
    return value;
}

#endif
