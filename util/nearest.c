/* SPDX-License-Identifier: Apache-2.0 */
#include "util/nearest.h"

#include <string.h>

/* Longer words have no name that is like them. */
enum { NAME_MAX_BYTES = 40 };

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* How many letters must be put in, left out, replaced, or swapped with their
 * neighbour to make b of a. Both are at most NAME_MAX_BYTES long. */
static unsigned distance(const char *a, size_t a_length, const char *b,
                         size_t b_length)
{
    unsigned cost[NAME_MAX_BYTES + 1][NAME_MAX_BYTES + 1];

    for (size_t i = 0; i <= a_length; i++)
        cost[i][0] = (unsigned)i;
    for (size_t j = 0; j <= b_length; j++)
        cost[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_length; i++)
        for (size_t j = 1; j <= b_length; j++) {
            unsigned replaced =
                cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            unsigned moved = least(cost[i - 1][j], cost[i][j - 1]) + 1;
            cost[i][j] = least(replaced, moved);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cost[i][j] = least(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    return cost[a_length][b_length];
}

void nearest_init(struct nearest *nearest, const char *name, size_t length)
{
    *nearest = (struct nearest){
        .name = name, .length = length, .limit = 1 + (unsigned)length / 3};
}

void nearest_offer(struct nearest *nearest, const char *candidate)
{
    size_t length = strlen(candidate);

    if (nearest->length > NAME_MAX_BYTES || length > NAME_MAX_BYTES)
        return;
    unsigned d = distance(nearest->name, nearest->length, candidate, length);
    if (d > nearest->limit || d >= nearest->length)
        return;
    nearest->best = candidate;
    nearest->limit = d - (d > 0);
}
