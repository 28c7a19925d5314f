/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs list`. */
#include <stdio.h>
#include <stdlib.h>

#include "fs/follow.h"
#include "util/size.h"

static void print_row(const json_t *line, const char *path)
{
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES], c[SIZE_TEXT_BYTES];

    printf("%10s %10s %10s  %s\n",
           size_format(follow_number(line, "size"), a, sizeof(a)),
           size_format(follow_number(line, "dram_bytes"), b, sizeof(b)),
           size_format(follow_number(line, "nvme_bytes"), c, sizeof(c)), path);
}

static void print_file(const json_t *line, void *data)
{
    const char *path = json_string_value(json_object_get(line, "path"));
    bool *begun = data;

    if (!*begun)
        printf("%10s %10s %10s  %s\n", "size", "in DRAM", "on NVMe", "file");
    *begun = true;
    print_row(line, path ? path : "?");
}

static void print_json(const json_t *line, void *data)
{
    (void)data;
    json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
}

static int finish(const json_t *line)
{
    uint64_t unlisted = follow_number(line, "unlisted");

    if (unlisted > 0)
        fprintf(stderr,
                "coordlfs: note: %llu directories or files below are not known "
                "yet, as nobody has looked at them\n",
                (unsigned long long)unlisted);
    if (fflush(stdout) != 0)
        return EXIT_FAILED;
    return follow_number(line, "failed") > 0 ? EXIT_FAILED : EXIT_DONE;
}

static int print_total(const json_t *line, double seconds, void *data)
{
    char text[64];

    (void)seconds;
    (void)data;
    snprintf(text, sizeof(text), "total of %llu files",
             (unsigned long long)follow_number(line, "files"));
    print_row(line, text);
    return finish(line);
}

static int finish_json(const json_t *line, double seconds, void *data)
{
    (void)seconds;
    (void)data;
    return finish(line);
}

int cmd_list(int argc, char **argv)
{
    bool as_json = false, begun = false;
    const struct command_flag flags[] = {{"--json", &as_json, NULL}};
    const char *path;
    int code = command_parse("list", argc, argv, flags, 1, &path);
    if (code != EXIT_DONE)
        return code;
    if (!command_is_root("list"))
        return EXIT_FAILED;
    return follow_path(
        &(struct follow){.task = "list",
                         .quiet = true,
                         .line = as_json ? print_json : print_file,
                         .result = as_json ? finish_json : print_total,
                         .data = &begun},
        path);
}
