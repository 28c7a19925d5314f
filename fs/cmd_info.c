/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs info`: the worker tells what of a file is cached. Where a symbolic
 * link leads the kernel knows best, so it is asked here. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/control.h"
#include "fs/follow.h"
#include "util/path.h"
#include "util/size.h"

static void print_tiers(const json_t *line)
{
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES], c[SIZE_TEXT_BYTES],
        d[SIZE_TEXT_BYTES];
    uint64_t items = follow_number(line, "items");
    uint64_t dram = follow_number(line, "dram_items");
    uint64_t nvme = follow_number(line, "nvme_items");
    const char *where = dram > 0 && nvme > 0 ? "in DRAM and on NVMe"
                        : dram > 0           ? "in DRAM"
                                             : "on NVMe";

    printf("  size     %s, %llu item%s\n",
           size_format(follow_number(line, "size"), a, sizeof(a)),
           (unsigned long long)items, items == 1 ? "" : "s");
    if (items == 0) {
        printf("  cached   an empty file needs no room\n");
        return;
    }
    if (dram + nvme == 0) {
        printf("  cached   nothing\n");
        return;
    }
    printf("  cached   %s of it, %s\n",
           size_format(follow_number(line, "cached_bytes"), b, sizeof(b)),
           where);
    printf("  DRAM     %s, %llu of %llu items\n",
           size_format(follow_number(line, "dram_bytes"), c, sizeof(c)),
           (unsigned long long)dram, (unsigned long long)items);
    printf("  NVMe     %s, %llu of %llu items\n",
           size_format(follow_number(line, "nvme_bytes"), d, sizeof(d)),
           (unsigned long long)nvme, (unsigned long long)items);
}

/* The path of a link, and the mount that it is in. */
static void print_link(const char *path)
{
    struct command_target target = {.mountpoint = NULL};
    char raw[PATH_MAX], real[PATH_MAX];
    ssize_t n = readlink(path, raw, sizeof(raw) - 1);

    if (n < 0) {
        printf("  target   cannot be read: %s\n", strerror(errno));
        return;
    }
    raw[n] = '\0';
    AUTO_FREE char *text = control_printable(raw);
    printf("  target   %s\n", text ? text : "?");
    if (!realpath(path, real)) {
        printf("  leads    nowhere: %s\n", strerror(errno));
        return;
    }
    AUTO_FREE char *end = control_printable(real);
    if (command_find(path, true, &target) != EXIT_DONE ||
        !path_is_inside(real, target.mountpoint))
        printf("  leads    out of the dataset, to %s, which is not cached\n",
               end ? end : "?");
    else
        printf("  leads    to %s, of which info tells more\n", end ? end : "?");
    command_target_fini(&target);
}

static int print_result(const json_t *line, double seconds, void *data)
{
    const char *type = json_string_value(json_object_get(line, "type"));
    const char *path = data;
    AUTO_FREE char *text = control_printable(path);

    (void)seconds;
    type = type ? type : "?";
    printf("%s\n", text ? text : "?");
    if (strcmp(type, "file") == 0) {
        print_tiers(line);
    } else if (strcmp(type, "link") == 0) {
        printf("  type     symbolic link\n");
        print_link(path);
    } else if (strcmp(type, "directory") == 0) {
        printf("  type     directory; coordlfs list shows what is below\n");
    } else {
        printf("  type     %s: not a regular file, so nothing of it is "
               "cached\n",
               type);
    }
    return EXIT_DONE;
}

int cmd_info(int argc, char **argv)
{
    AUTO_FREE const char **paths = calloc((size_t)argc + 1, sizeof(*paths));
    size_t count;
    if (!paths)
        return EXIT_FAILED;

    int code = command_parse_paths("info", argc, argv, NULL, 0, paths, &count);
    if (code != EXIT_DONE)
        return code;
    if (count == 0) {
        command_error("info needs a FILE; see coordlfs help info");
        return EXIT_USAGE;
    }
    if (!command_is_root("info"))
        return EXIT_FAILED;
    for (size_t i = 0; i < count; i++) {
        int now = follow_path(&(struct follow){.task = "info",
                                               .quiet = true,
                                               .keep_last_name = true,
                                               .result = print_result,
                                               .data = (void *)paths[i]},
                              paths[i]);
        code = code == EXIT_DONE ? now : code;
    }
    return code;
}
