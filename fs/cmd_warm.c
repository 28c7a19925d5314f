/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs warm`, and `warm --check`, which only looks. */
#include <stdio.h>

#include "fs/follow.h"
#include "util/size.h"

/* Names of missing files that are shown; list shows all. */
enum { MISSING_SHOWN = 20 };

static int print_warm(const json_t *line, double seconds, void *data)
{
    uint64_t left_out = follow_number(line, "left_out");
    uint64_t failed = follow_number(line, "failed");
    uint64_t in_use = follow_number(line, "in_use");
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];

    (void)data;
    printf("%llu files, %s done in %.1f s; the mount has %llu items cached\n",
           (unsigned long long)follow_number(line, "files"),
           size_format(follow_number(line, "bytes"), a, sizeof(a)), seconds,
           (unsigned long long)follow_number(line, "cached_items"));
    if (left_out > 0)
        printf(
            "%llu items, %s did not fit: the cache is full\n",
            (unsigned long long)left_out,
            size_format(follow_number(line, "left_out_bytes"), b, sizeof(b)));
    if (in_use > 0)
        printf("%llu items are mapped by a running job and will be pinned when "
               "it lets go\n",
               (unsigned long long)in_use);
    if (failed > 0)
        command_error("%llu files could not be cached",
                      (unsigned long long)failed);
    return failed > 0 ? EXIT_FAILED : EXIT_DONE;
}

static void print_missing(const json_t *line, void *data)
{
    const char *path = json_string_value(json_object_get(line, "missing"));
    uint64_t size = follow_number(line, "size");
    uint64_t cached = follow_number(line, "cached_bytes");
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];
    unsigned *shown = data;

    if ((*shown)++ < MISSING_SHOWN)
        printf("missing  %s of %s  %s\n",
               size_format(size - cached, a, sizeof(a)),
               size_format(size, b, sizeof(b)), path ? path : "?");
}

static void print_tier(const char *name, const json_t *line, const char *items,
                       const char *bytes)
{
    char a[SIZE_TEXT_BYTES];

    printf("%s%llu items, %s\n", name,
           (unsigned long long)follow_number(line, items),
           size_format(follow_number(line, bytes), a, sizeof(a)));
}

static int print_check(const json_t *line, double seconds, void *data)
{
    uint64_t files = follow_number(line, "missing_files");
    uint64_t failed = follow_number(line, "failed");
    uint64_t items =
        follow_number(line, "items") - follow_number(line, "cached_items");
    uint64_t bytes =
        follow_number(line, "size") - follow_number(line, "cached_bytes");
    char a[SIZE_TEXT_BYTES];

    (void)seconds;
    (void)data;
    if (files > MISSING_SHOWN)
        printf("missing  ... and of %llu more files\n",
               (unsigned long long)(files - MISSING_SHOWN));
    print_tier("all      ", line, "items", "size");
    print_tier("cached   ", line, "cached_items", "cached_bytes");
    print_tier("in DRAM  ", line, "dram_items", "dram_bytes");
    print_tier("on NVMe  ", line, "nvme_items", "nvme_bytes");
    printf("missing  %llu items, %s, of %llu files\n",
           (unsigned long long)items, size_format(bytes, a, sizeof(a)),
           (unsigned long long)files);
    if (failed > 0)
        command_error("%llu files could not be looked at",
                      (unsigned long long)failed);
    return files > 0 || failed > 0 ? EXIT_FAILED : EXIT_DONE;
}

int cmd_warm(int argc, char **argv)
{
    bool check = false;
    unsigned shown = 0;
    const struct command_flag flags[] = {{"--check", &check, NULL}};
    const char *path;
    int code = command_parse("warm", argc, argv, flags, 1, &path);
    if (code != EXIT_DONE)
        return code;
    if (!command_is_root("warm"))
        return EXIT_FAILED;
    if (check)
        return follow_path(&(struct follow){.task = "check",
                                            .doing = "looked at",
                                            .line = print_missing,
                                            .result = print_check,
                                            .data = &shown},
                           path);
    return follow_path(
        &(struct follow){.task = "warm",
                         .doing = "cached",
                         .stopped = "\nstopped; what is cached stays, and warm "
                                    "goes on from there\n",
                         .result = print_warm},
        path);
}
