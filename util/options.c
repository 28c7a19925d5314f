/* SPDX-License-Identifier: Apache-2.0 */
/* One row per option; everything that a source, a check or a text needs to know
 * about an option stands in its row. */
#include "util/options.h"

#include <errno.h>
#include <string.h>

#include "util/nearest.h"
#include "util/path.h"

#define AT(member) offsetof(struct config, member)

static const struct option_spec table[] = {
    {"dram", "SIZE|N%|auto|0", AT(dram), 0, UINT64_MAX, 0, "auto",
     "memory for the cache: a size, a share of the available memory, auto for "
     "half of that, 0 for none",
     OPTION_SIZE_SPEC, OPTION_BY_ALL},
    {"nvme", "SIZE|N%|auto|0", AT(nvme), 0, UINT64_MAX, 0, "auto",
     "room for the cache on the disk of the cache directory: a size, a share "
     "of its free space, auto for half of that (none where the dataset lies on "
     "the same disk), 0 for none",
     OPTION_SIZE_SPEC, OPTION_BY_ALL},
    {"free-space", "N%", AT(free_space), 0, 99, 0, "10%",
     "share of the cache directory's disk that the cache leaves free",
     OPTION_PERCENT, OPTION_BY_ALL},
    {"cache-dir", "DIR", AT(cache_dir), 1, PATH_MAX - 1, 0,
     "/var/cache/coordlfs",
     "directory that holds index and cached files of each dataset", OPTION_PATH,
     OPTION_BY_ALL},
    {"cache-id", "NAME", AT(cache_id), 0, CONFIG_ID_BYTES - 1, 0, "",
     "name of this dataset's subdirectory in the cache directory, in place of "
     "one made from the dataset's path",
     OPTION_ID, OPTION_BY_ALL},
    {"item-bytes", "SIZE", AT(item_bytes), 1 << 20, 64 << 20, 4096, "4M",
     "unit of caching: a longer file is cached in parts of this size",
     OPTION_BYTES, OPTION_BY_ALL},
    {"source-bandwidth", "RATE", AT(source_bandwidth), 0, UINT64_MAX, 0, "0",
     "most bytes per second to read from the dataset's storage, such as 100M; "
     "0 for no limit",
     OPTION_BYTES, OPTION_BY_ALL},
    {"revalidate", "SECONDS", AT(revalidate), 0, 7 * 86400, 0, "0",
     "how long the kernel believes names and attributes before they are "
     "compared with the dataset again; 0: for as long as it is mounted",
     OPTION_NUMBER, OPTION_BY_ALL},
    {"threads", "N", AT(threads), 0, 64, 0, "0",
     "how many reads of the source go on at once; 0 chooses by the number of "
     "processors",
     OPTION_NUMBER, OPTION_BY_ALL},
    {"log-level", "LEVEL", AT(log_level), 0, 0, 0, "info",
     "least urgent messages to log: error, warn, info, debug or trace",
     OPTION_LEVEL, OPTION_BY_ALL},
    {"log-file", "FILE", AT(log_file), 0, PATH_MAX - 1, 0, "",
     "file that the log is appended to; without one the log goes to syslog, "
     "with --foreground to stderr",
     OPTION_PATH, OPTION_BY_ALL},
    {"config", "FILE", AT(config_file), 1, PATH_MAX - 1, 0, CONFIG_DEFAULT_FILE,
     "configuration file; the environment and the command line override it",
     OPTION_PATH, OPTION_BY_ENVIRONMENT | OPTION_BY_COMMAND},
    {"foreground", NULL, AT(foreground), 0, 0, 0, "no",
     "stay in the foreground until the unmount, in place of returning when the "
     "mount answers",
     OPTION_FLAG, OPTION_BY_ENVIRONMENT | OPTION_BY_COMMAND},
    {"check-config", NULL, AT(check_config), 0, 0, 0, "no",
     "print the value of each option and where it is from, and mount nothing",
     OPTION_FLAG, OPTION_BY_COMMAND},
};
enum { OPTIONS = sizeof(table) / sizeof(table[0]) };

/* More of a wrong value than this helps nobody. */
enum { VALUE_SHOWN = 60 };

const struct option_spec *options_at(size_t index)
{
    return index < OPTIONS ? &table[index] : NULL;
}

const struct option_spec *options_find(const char *name, size_t length)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (strlen(table[i].name) == length &&
            memcmp(table[i].name, name, length) == 0)
            return &table[i];
    return NULL;
}

const char *options_nearest(const char *name, size_t length, unsigned source)
{
    struct nearest nearest;

    nearest_init(&nearest, name, length);
    for (size_t i = 0; i < OPTIONS; i++)
        if (table[i].sources & source)
            nearest_offer(&nearest, table[i].name);
    return nearest.best;
}

void options_format_bytes(uint64_t bytes, char *out, size_t out_bytes)
{
    static const char units[] = " KMGT";
    unsigned unit = 0;

    while (bytes != 0 && bytes % 1024 == 0 && units[unit + 1] != '\0') {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, out_bytes, "%llu%.*s", (unsigned long long)bytes,
             unit > 0 ? 1 : 0, units + unit);
}

static void describe_bytes(const struct option_spec *option, char *out,
                           size_t out_bytes)
{
    char from[24];
    char to[24];

    if (option->maximum == UINT64_MAX) {
        snprintf(out, out_bytes, "bytes, or a number with K, M, G or T");
        return;
    }
    options_format_bytes(option->minimum, from, sizeof(from));
    options_format_bytes(option->maximum, to, sizeof(to));
    int n = snprintf(out, out_bytes, "a size from %s to %s", from, to);
    if (option->multiple_of != 0 && n > 0 && (size_t)n < out_bytes)
        snprintf(out + n, out_bytes - (size_t)n, " that is a multiple of %llu",
                 (unsigned long long)option->multiple_of);
}

/* Writes what values the option takes. */
static void describe(const struct option_spec *option, char *out,
                     size_t out_bytes)
{
    switch (option->type) {
    case OPTION_SIZE_SPEC:
        snprintf(out, out_bytes,
                 "a size such as 64G, a share from 0%% to 100%%, auto, or 0");
        return;
    case OPTION_BYTES:
        describe_bytes(option, out, out_bytes);
        return;
    case OPTION_NUMBER:
        snprintf(out, out_bytes, "a whole number from %llu to %llu",
                 (unsigned long long)option->minimum,
                 (unsigned long long)option->maximum);
        return;
    case OPTION_PERCENT:
        snprintf(out, out_bytes, "a share from %llu%% to %llu%%",
                 (unsigned long long)option->minimum,
                 (unsigned long long)option->maximum);
        return;
    case OPTION_LEVEL:
        snprintf(out, out_bytes, "error, warn, info, debug or trace");
        return;
    case OPTION_PATH:
        snprintf(out, out_bytes, "a path of at most %llu bytes",
                 (unsigned long long)option->maximum);
        return;
    case OPTION_ID:
        snprintf(out, out_bytes,
                 "at most %llu letters, digits, '.', '_' and '-', the first "
                 "not '.'",
                 (unsigned long long)option->maximum);
        return;
    case OPTION_FLAG:
        snprintf(out, out_bytes, "yes or no");
        return;
    }
}

static int set_bytes(const struct option_spec *option, const char *value,
                     uint64_t *target)
{
    uint64_t bytes;

    int err = size_parse(value, &bytes);
    if (err)
        return err;
    if (bytes < option->minimum || bytes > option->maximum ||
        (option->multiple_of != 0 && bytes % option->multiple_of != 0))
        return -ERANGE;
    *target = bytes;
    return 0;
}

static int set_number(const struct option_spec *option, const char *value,
                      int *target)
{
    uint64_t number = 0;

    if (*value == '\0')
        return -EINVAL;
    for (; *value != '\0'; value++) {
        if (*value < '0' || *value > '9')
            return -EINVAL;
        number = number * 10 + (uint64_t)(*value - '0');
        if (number > option->maximum)
            return -ERANGE;
    }
    if (number < option->minimum)
        return -ERANGE;
    *target = (int)number;
    return 0;
}

static int set_percent(const struct option_spec *option, const char *value,
                       int *target)
{
    char digits[8];
    size_t length = strlen(value);

    if (length < 2 || length > sizeof(digits) || value[length - 1] != '%')
        return -EINVAL;
    memcpy(digits, value, length - 1);
    digits[length - 1] = '\0';
    return set_number(option, digits, target);
}

static int set_level(const char *value, enum log_level *target)
{
    int level = log_level_parse(value);

    if (level < 0)
        return -EINVAL;
    *target = (enum log_level)level;
    return 0;
}

static int set_path(const struct option_spec *option, const char *value,
                    const char *base, char *target)
{
    char path[PATH_MAX];

    if (strlen(value) < option->minimum)
        return -EINVAL;
    if (*value == '\0') {
        *target = '\0';
        return 0;
    }
    int err = path_absolute(value, base, path, sizeof(path));
    if (err == 0)
        memcpy(target, path, strlen(path) + 1);
    return err;
}

static int set_id(const struct option_spec *option, const char *value,
                  char *target)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strlen(value);

    if (length < option->minimum || *value == '.' ||
        value[strspn(value, allowed)] != '\0')
        return -EINVAL;
    if (length > option->maximum)
        return -ENAMETOOLONG;
    memcpy(target, value, length + 1);
    return 0;
}

static int set_flag(const char *value, bool *target)
{
    static const char *const words[][2] = {
        {"no", "yes"}, {"false", "true"}, {"off", "on"}, {"0", "1"}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        for (int j = 0; j < 2; j++)
            if (strcmp(value, words[i][j]) == 0) {
                *target = j == 1;
                return 0;
            }
    return -EINVAL;
}

static int set_value(const struct option_spec *option, struct config *config,
                     const char *value, const char *base)
{
    void *target = (char *)config + option->offset;

    switch (option->type) {
    case OPTION_SIZE_SPEC:
        return size_spec_parse(value, target);
    case OPTION_BYTES:
        return set_bytes(option, value, target);
    case OPTION_NUMBER:
        return set_number(option, value, target);
    case OPTION_PERCENT:
        return set_percent(option, value, target);
    case OPTION_LEVEL:
        return set_level(value, target);
    case OPTION_PATH:
        return set_path(option, value, base, target);
    case OPTION_ID:
        return set_id(option, value, target);
    case OPTION_FLAG:
        return set_flag(value, target);
    }
    return -EINVAL;
}

int options_set(const struct option_spec *option, struct config *config,
                const char *value, const char *base, char *reason,
                size_t reason_bytes)
{
    char allowed[128];
    const char *wrong;

    int err = set_value(option, config, value, base);
    switch (-err) {
    case 0:
        return 0;
    case EINVAL:
        wrong = "is not valid";
        break;
    case ERANGE:
        wrong = "is out of range";
        break;
    case ENAMETOOLONG:
        wrong = "is too long";
        break;
    default: /* a relative path without a current directory */
        wrong = strerror(-err);
    }
    describe(option, allowed, sizeof(allowed));
    snprintf(reason, reason_bytes, "\"%.*s%s\" %s; allowed: %s", VALUE_SHOWN,
             value, strlen(value) > VALUE_SHOWN ? "..." : "", wrong, allowed);
    return -EINVAL;
}
