/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the name that is most like a mistyped one. Pure. */
#ifndef UTIL_NEAREST_H
#define UTIL_NEAREST_H

#include <stddef.h>

/* Names are offered one by one; best is the most like one so far, or NULL
 * where none is near. */
struct nearest {
    const char *name; /* as typed; length bytes */
    size_t length;
    const char *best;
    unsigned limit; /* differences that the next one may have */
};

void nearest_init(struct nearest *nearest, const char *name, size_t length);
void nearest_offer(struct nearest *nearest, const char *candidate);

#endif
