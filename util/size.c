/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers and fractions are read as integers: a double would lose bytes
 * of sizes above 2^53. */
#include "util/size.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A millionth of a TiB is 1 MiB: finer fractions are not worth more digits,
 * and 10^6 * 2^40 fits 64 bits. */
enum { FRACTION_DIGITS = 6 };

static const char units[] = "KMGT";

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Returns what follows the digits; *overflow where they exceed 64 bits. */
static const char *read_digits(const char *text, uint64_t *value,
                               bool *overflow)
{
    *value = 0;
    *overflow = false;
    for (; is_digit(*text); text++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(*text - '0'), value))
            *overflow = true;
    return text;
}

/* Reads the digits after a point as millionths. */
static const char *read_fraction(const char *text, uint64_t *millionths)
{
    uint64_t value = 0;
    int digits = 0;

    for (; is_digit(*text); text++)
        if (digits < FRACTION_DIGITS) {
            value = value * 10 + (uint64_t)(*text - '0');
            digits++;
        }
    for (; digits < FRACTION_DIGITS; digits++)
        value *= 10;
    *millionths = value;
    return text;
}

/* The number of bits that a unit shifts by, or -1. */
static int read_unit(const char *text)
{
    if (strcasecmp(text, "") == 0 || strcasecmp(text, "b") == 0)
        return 0;

    char letter = text[0] >= 'a' && text[0] <= 'z' ? (char)(text[0] - 'a' + 'A')
                                                   : text[0];
    const char *unit = strchr(units, letter);
    if (unit == NULL)
        return -1;
    text++;
    if (strcasecmp(text, "") != 0 && strcasecmp(text, "b") != 0 &&
        strcasecmp(text, "ib") != 0)
        return -1;
    return 10 * (int)(unit - units + 1);
}

int size_parse(const char *text, uint64_t *bytes)
{
    uint64_t whole;
    uint64_t millionths = 0;
    bool overflow;
    bool fraction = false;

    if (!is_digit(*text))
        return -EINVAL;
    text = read_digits(text, &whole, &overflow);
    if (*text == '.') {
        if (!is_digit(text[1]))
            return -EINVAL;
        text = read_fraction(text + 1, &millionths);
        fraction = true;
    }

    int shift = read_unit(text);
    if (shift < 0 || (fraction && shift == 0))
        return -EINVAL;
    if (overflow || whole > UINT64_MAX >> shift)
        return -ERANGE;
    /* no overflow: the fraction is below one unit */
    *bytes = (whole << shift) + (millionths << shift) / 1000000;
    return 0;
}

const char *size_format(uint64_t bytes, char *out, size_t out_bytes)
{
    static const char *const names[] = {"B",   "KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    if (bytes < 1024) {
        snprintf(out, out_bytes, "%u B", (unsigned)bytes);
        return out;
    }
    /* 1023.95 would be printed as 1024.0; 1024 and more always divides */
    while (value >= 1023.95) {
        value /= 1024;
        unit++;
    }
    snprintf(out, out_bytes, "%.1f %s", value, names[unit]);
    return out;
}

int size_spec_parse(const char *text, struct size_spec *spec)
{
    uint64_t value;
    bool overflow;

    if (strcmp(text, "auto") == 0) {
        *spec = (struct size_spec){SIZE_AUTO, 0};
        return 0;
    }
    if (is_digit(*text) &&
        strcmp(read_digits(text, &value, &overflow), "%") == 0) {
        if (overflow || value > 100)
            return -ERANGE;
        *spec = (struct size_spec){SIZE_PERCENT, value};
        return 0;
    }

    int err = size_parse(text, &value);
    if (err == 0)
        *spec = (struct size_spec){SIZE_BYTES, value};
    return err;
}

static uint64_t share(uint64_t bytes, uint64_t percent)
{
    return bytes / 100 * percent + bytes % 100 * percent / 100;
}

uint64_t size_spec_resolve(const struct size_spec *spec,
                           uint64_t available_bytes, unsigned auto_percent)
{
    switch (spec->kind) {
    case SIZE_PERCENT:
        return share(available_bytes, spec->value);
    case SIZE_AUTO:
        return share(available_bytes, auto_percent);
    case SIZE_BYTES:
        break;
    }
    return spec->value;
}
