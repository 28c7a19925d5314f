/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a mount by any path in it. The mount table is looked at before a path
 * is touched, since a path into a dead mount hangs or fails. */
#include "fs/command.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fs/commands.h"
#include "fs/control.h"
#include "util/clock.h"
#include "util/nearest.h"
#include "util/path.h"

enum { ANSWER_LIMIT_MS = 5000 };

void command_error(const char *format, ...)
{
    va_list arguments;

    fputs("coordlfs: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

bool command_is_root(const char *command)
{
    if (geteuid() == 0)
        return true;
    command_error("%s needs root: use sudo", command);
    return false;
}

void command_unknown(const char *name)
{
    AUTO_FREE char *text = control_printable(name);
    const char *nearest = commands_nearest(name);

    if (nearest)
        command_error("there is no command %s; did you mean %s?",
                      text ? text : name, nearest);
    else
        command_error("there is no command %s; see coordlfs help",
                      text ? text : name);
}

static int unknown_option(const struct command *command, const char *name)
{
    struct nearest nearest;

    nearest_init(&nearest, name, strlen(name));
    for (int i = 0; i < COMMAND_OPTIONS && command->options[i].name; i++)
        nearest_offer(&nearest, command->options[i].name);
    if (nearest.best)
        command_error("%s has no option %s; did you mean %s?", command->name,
                      name, nearest.best);
    else
        command_error("%s has no option %s; see coordlfs help %s",
                      command->name, name, command->name);
    return EXIT_USAGE;
}

/* One option; next is the argument after it, or NULL, and *used says whether
 * that is its value. */
static int take_option(const struct command *command, const char *argument,
                       const char *next, const struct command_flag *flags,
                       size_t count, bool *used)
{
    size_t length = strcspn(argument, "=");
    const char *value = argument[length] == '=' ? argument + length + 1 : NULL;

    for (size_t i = 0; i < count; i++) {
        if (strlen(flags[i].name) != length ||
            memcmp(flags[i].name, argument, length) != 0)
            continue;
        if (flags[i].value && value) {
            command_error("%s takes no value", flags[i].name);
            return EXIT_USAGE;
        }
        if (flags[i].value) {
            *flags[i].value = true;
            return EXIT_DONE;
        }
        *used = !value;
        *flags[i].text = value ? value : next;
        if (*flags[i].text)
            return EXIT_DONE;
        command_error("%s needs a value; see coordlfs help %s", flags[i].name,
                      command->name);
        return EXIT_USAGE;
    }
    return unknown_option(command, argument);
}

/* The table that help and manual are made from has the same options. */
static bool is_in_table(const struct command *command,
                        const struct command_flag *flags, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (i == COMMAND_OPTIONS || !command->options[i].name ||
            strcmp(command->options[i].name, flags[i].name) != 0)
            return false;
    return count == COMMAND_OPTIONS || !command->options[count].name;
}

int command_parse_paths(const char *name, int argc, char **argv,
                        const struct command_flag *flags, size_t count,
                        const char **paths, size_t *path_count)
{
    const struct command *command = commands_find(name);
    bool options = true;

    assert(command && is_in_table(command, flags, count));
    *path_count = 0;
    for (int i = 0; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool used = false;

        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (!options || argv[i][0] != '-' || argv[i][1] == '\0') {
            paths[(*path_count)++] = argv[i];
        } else {
            int code = take_option(command, argv[i], next, flags, count, &used);
            if (code != EXIT_DONE)
                return code;
        }
        i += used;
    }
    return EXIT_DONE;
}

int command_parse(const char *command, int argc, char **argv,
                  const struct command_flag *flags, size_t count,
                  const char **path)
{
    AUTO_FREE const char **paths = calloc((size_t)argc + 1, sizeof(*paths));
    size_t path_count;
    if (!paths)
        return EXIT_FAILED;

    int code = command_parse_paths(command, argc, argv, flags, count, paths,
                                   &path_count);
    if (code != EXIT_DONE)
        return code;
    if (path_count > 1) {
        command_error("%s takes one path, but got %s and %s", command, paths[0],
                      paths[1]);
        return EXIT_USAGE;
    }
    *path = path_count > 0 ? paths[0] : NULL;
    return EXIT_DONE;
}

static int fill_target(const struct mountinfo_entry *entry, const char *path,
                       struct command_target *target)
{
    const char *relative = "";

    if (path) {
        relative = path + strlen(entry->mountpoint);
        while (*relative == '/')
            relative++;
    }
    target->major = entry->major;
    target->minor = entry->minor;
    target->mountpoint = strdup(entry->mountpoint);
    target->relative = strdup(relative);
    return target->mountpoint && target->relative ? EXIT_DONE : EXIT_FAILED;
}

static int find_only(const struct mountinfo *info, bool quiet,
                     struct command_target *target)
{
    const struct mountinfo_entry *first = mountinfo_next_coordlfs(info, NULL);
    const struct mountinfo_entry *entry = first;

    if (!first) {
        if (!quiet)
            command_error("nothing is mounted");
        return EXIT_NOT_MOUNTED;
    }
    if (!mountinfo_next_coordlfs(info, first))
        return fill_target(first, NULL, target);
    if (!quiet) {
        command_error("there are several mounts; name one of them:");
        for (; entry; entry = mountinfo_next_coordlfs(info, entry))
            fprintf(stderr, "  %s\n", entry->mountpoint);
    }
    return EXIT_USAGE;
}

static bool is_ours(const char *folder, void *info)
{
    return mountinfo_find_path(info, folder) != NULL;
}

static int find_path(struct mountinfo *info, const char *path, bool quiet,
                     struct command_target *target)
{
    char real[PATH_MAX];
    int err = path_real(path, is_ours, info, real, sizeof(real));
    const struct mountinfo_entry *entry =
        err == 0 ? mountinfo_find_path(info, real) : NULL;

    if (entry)
        return fill_target(entry, real, target);
    if (!quiet && err != 0)
        command_error("%s: %s", path, strerror(-err));
    else if (!quiet)
        command_error("%s is not a coordlfs mount, nor inside one", path);
    return EXIT_NOT_MOUNTED;
}

int command_find(const char *path, bool quiet, struct command_target *target)
{
    struct mountinfo info;

    *target = (struct command_target){.mountpoint = NULL};
    if (mountinfo_init(&info, MOUNTINFO_PATH) != 0)
        return EXIT_FAILED;
    int code = path ? find_path(&info, path, quiet, target)
                    : find_only(&info, quiet, target);
    mountinfo_fini(&info);
    return code;
}

void command_target_fini(struct command_target *target)
{
    free(target->mountpoint);
    free(target->relative);
}

/* The real path of a path in the mount, or of its directory and its last name;
 * empty where there is none. */
static void real_path(const char *path, bool follow_last, char *real)
{
    char folder[PATH_MAX];
    size_t length = (size_t)(strrchr(path, '/') - path);

    if (follow_last) {
        if (!realpath(path, real))
            *real = '\0';
        return;
    }
    memcpy(folder, path, length);
    folder[length] = '\0';
    if (!realpath(length > 0 ? folder : "/", real) ||
        strlen(real) + strlen(path + length) >= PATH_MAX)
        *real = '\0';
    else
        memcpy(real + (strcmp(real, "/") == 0 ? 0 : strlen(real)),
               path + length, strlen(path + length) + 1);
}

int command_resolve(struct command_target *target, bool follow_last)
{
    AUTO_FREE char *answer = malloc(COMMAND_ANSWER_BYTES);
    char path[PATH_MAX], real[PATH_MAX];

    if (!answer)
        return EXIT_FAILED;
    int err = command_ask(target, "state", answer);
    if (err != 0) {
        command_error("%s: its daemon does not answer (%s)", target->mountpoint,
                      strerror(-err));
        return EXIT_FAILED;
    }
    size_t length = strlen(target->mountpoint);
    int n = snprintf(path, sizeof(path), "%s%s%s", target->mountpoint,
                     length > 1 ? "/" : "", target->relative);
    if (*target->relative == '\0' || n < 0 || (size_t)n >= sizeof(path))
        return EXIT_DONE;
    real_path(path, follow_last, real);
    if (*real == '\0')
        return EXIT_DONE;
    if (!path_is_inside(real, target->mountpoint)) {
        command_error("%s leads out of the dataset, to %s, which is not cached",
                      path, real);
        return EXIT_FAILED;
    }
    free(target->relative);
    const char *relative = real + length;
    target->relative = strdup(relative + strspn(relative, "/"));
    return target->relative ? EXIT_DONE : EXIT_FAILED;
}

int command_ask(const struct command_target *target, const char *request,
                char *answer)
{
    uint64_t until = clock_now_ms() + ANSWER_LIMIT_MS;
    size_t used = 0;
    AUTO_CLOSE int fd = control_connect(target->major, target->minor);

    if (fd < 0)
        return fd;
    if (!control_send_line(fd, request))
        return -EPIPE;
    while (used < COMMAND_ANSWER_BYTES - 1) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        int64_t left = (int64_t)(until - clock_now_ms());
        if (left <= 0 || poll(&poller, 1, (int)left) == 0)
            return -ETIMEDOUT;
        ssize_t n = recv(fd, answer + used, COMMAND_ANSWER_BYTES - 1 - used, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    answer[used] = '\0';
    return used > 0 ? 0 : -EPIPE;
}

uint64_t command_query(unsigned major, unsigned minor, const char *name)
{
    struct command_target target = {.major = major, .minor = minor};
    AUTO_FREE char *answer = malloc(COMMAND_ANSWER_BYTES);
    AUTO_FREE char *names = strdup(name);
    char *rest = NULL;

    if (!answer || !names || command_ask(&target, "status", answer) != 0)
        return 0;
    json_t *status = json_loads(answer, 0, NULL);
    const json_t *value = status;
    for (char *part = strtok_r(names, ".", &rest); part;
         part = strtok_r(NULL, ".", &rest))
        value = json_object_get(value, part);
    uint64_t number = (uint64_t)json_integer_value(value);
    json_decref(status);
    return number;
}
