/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of one mount. What sets it, the stronger first: the command
 * line (-o included), the environment (COORDLFS_CACHE_DIR), the configuration
 * file, the default. The options stand in one table, util/options.c. */
#ifndef UTIL_CONFIG_H
#define UTIL_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "util/cleanup.h"
#include "util/log.h"
#include "util/size.h"

#define CONFIG_DEFAULT_FILE "/etc/coordlfs/coordlfs.conf"

/* Longest cache-id with its end: a folder name that leaves room for suffixes.
 */
enum { CONFIG_ID_BYTES = 65 };
/* Room for every message of config_load: it may name two paths. */
enum { CONFIG_ERROR_BYTES = 2 * PATH_MAX + 512 };

/* Without pointers: it is copied into memory that processes share. */
struct config {
    /* real paths, filled by the mount command */
    char dataset[PATH_MAX];
    char mountpoint[PATH_MAX];

    struct size_spec dram;
    struct size_spec nvme;
    int free_space;                 /* percent of the disk to leave free */
    char cache_dir[PATH_MAX];       /* absolute, as the other paths below */
    char cache_id[CONFIG_ID_BYTES]; /* "": made from the dataset's path */
    uint64_t item_bytes;
    uint64_t source_bandwidth; /* bytes per second; 0: no limit */
    int revalidate;            /* seconds; 0: for as long as it is mounted */
    int threads;               /* 0: by the number of processors */
    enum log_level log_level;
    char log_file[PATH_MAX];    /* "": syslog, or stderr in the foreground */
    char config_file[PATH_MAX]; /* the one that was read, "" where none was */
    bool foreground;
    bool check_config; /* print this, and mount nothing */
};

/* What set an option. */
struct config_origin {
    enum {
        CONFIG_BY_DEFAULT,
        CONFIG_BY_FILE,
        CONFIG_BY_ENVIRONMENT,
        CONFIG_BY_COMMAND,
    } kind;
    unsigned line; /* of the file */
};

/* The table of options is far smaller. */
enum { CONFIG_OPTIONS_MAX = 64 };

/* What on the command line is not an option, and what set each option. */
struct config_positional {
    const char *values[2]; /* borrowed from argv */
    int count;
    bool help; /* --help or -h was there: nothing else was read */
    struct config_origin origins[CONFIG_OPTIONS_MAX];
};

/* Fills config from all sources; argv starts after the word "mount". A relative
 * path belongs to the current directory, in a file to the file's folder.
 * CONFIG_DEFAULT_FILE need not exist, another file must. An empty environment
 * variable counts as not set. Where an option is given twice on the command
 * line, the last one holds.
 * On a mistake returns -EINVAL and writes one line into error: the source, the
 * option, what is wrong and what is allowed; config is then untouched. Prints
 * and logs nothing. That DATASET is there is for the caller to check. */
int config_load(struct config *config, int argc, char **argv,
                struct config_positional *positional, char *error,
                size_t error_bytes) MUST_CHECK;

/* The same with another file in the place of CONFIG_DEFAULT_FILE. */
int config_load_with(const char *default_file, struct config *config, int argc,
                     char **argv, struct config_positional *positional,
                     char *error, size_t error_bytes) MUST_CHECK;

/* Prints each option with its value and what set it. */
void config_print(FILE *out, const struct config *config,
                  const struct config_positional *positional);

#endif
