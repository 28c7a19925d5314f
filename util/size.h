/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people write them: "4M", "1.5g" on input, "64.0 GiB" on output. K,
 * M, G and T are powers of 1024. Pure functions, callable from every thread. */
#ifndef UTIL_SIZE_H
#define UTIL_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "util/cleanup.h"

/* Room for everything that size_format writes. */
enum { SIZE_TEXT_BYTES = 16 };

/* A size that may depend on what is available. */
struct size_spec {
    enum { SIZE_BYTES, SIZE_PERCENT, SIZE_AUTO } kind;
    uint64_t value; /* bytes or percent; 0 for SIZE_AUTO */
};

/* Reads digits, an optional fraction and an optional unit: "4096", "4M",
 * "1.5G", "4MiB", "512B", in either case. A fraction needs a unit and is cut
 * to whole bytes. -EINVAL: not a size; -ERANGE: does not fit 64 bits. */
int size_parse(const char *text, uint64_t *bytes) MUST_CHECK;

/* Writes "65.0 MiB" or "12 B" into out and returns out. */
const char *size_format(uint64_t bytes, char *out, size_t out_bytes);

/* Reads a size, "N%" with N from 0 to 100, or "auto". -EINVAL: none of them;
 * -ERANGE: more than 100 % or than 64 bits. */
int size_spec_parse(const char *text, struct size_spec *spec) MUST_CHECK;

/* The bytes that spec means where available_bytes are there; auto_percent is
 * the share that "auto" stands for. A size in bytes is returned as it is, also
 * where it is more than available. */
uint64_t size_spec_resolve(const struct size_spec *spec,
                           uint64_t available_bytes, unsigned auto_percent);

#endif
