/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options, and how a value is read into struct config. What needs
 * a configuration uses util/config.h. Pure but for the current directory,
 * callable from every thread. */
#ifndef UTIL_OPTIONS_H
#define UTIL_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "util/config.h"

enum option_type {
    OPTION_SIZE_SPEC, /* struct size_spec */
    OPTION_BYTES,     /* uint64_t */
    OPTION_NUMBER,    /* int */
    OPTION_PERCENT,   /* int */
    OPTION_LEVEL,     /* enum log_level */
    OPTION_PATH,      /* char[PATH_MAX] */
    OPTION_ID,        /* char[CONFIG_ID_BYTES] */
    OPTION_FLAG,      /* bool */
};

/* Which sources may set an option. */
enum {
    OPTION_BY_FILE = 1,
    OPTION_BY_ENVIRONMENT = 2,
    OPTION_BY_COMMAND = 4,
    OPTION_BY_ALL = 7,
};

struct option_spec {
    const char *name;        /* as on the command line, without dashes */
    const char *placeholder; /* for the value in texts; NULL for a flag */
    size_t offset;           /* in struct config */
    /* of numbers the value, of texts the length in bytes */
    uint64_t minimum;
    uint64_t maximum;
    uint64_t multiple_of; /* 0: of anything */
    const char *initial;  /* the default as text */
    const char *help;
    enum option_type type;
    unsigned sources;
};

/* The option at index in the order of the texts; NULL past the end. */
const struct option_spec *options_at(size_t index);

/* The option called by the first length bytes of name, or NULL. */
const struct option_spec *options_find(const char *name, size_t length);

/* The name that is most like the first length bytes of name, of the options
 * that the source may set; NULL where none is near. */
const char *options_nearest(const char *name, size_t length, unsigned source);

/* Reads value into config; relative paths start at base (NULL: the current
 * directory). -EINVAL: writes into reason what is wrong and what is allowed. */
int options_set(const struct option_spec *option, struct config *config,
                const char *value, const char *base, char *reason,
                size_t reason_bytes) MUST_CHECK;

/* Writes a number as exactly as size_parse would read it: 1M, 1536K. */
void options_format_bytes(uint64_t bytes, char *out, size_t out_bytes);

#endif
