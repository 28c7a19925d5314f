/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs status`: asks the supervisor, and shows it to a person. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/command.h"
#include "util/size.h"

static uint64_t number(const json_t *object, const char *a, const char *b,
                       const char *c)
{
    const json_t *value = json_object_get(object, a);

    if (b)
        value = json_object_get(value, b);
    if (c)
        value = json_object_get(value, c);
    return (uint64_t)json_integer_value(value);
}

static const char *string(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));

    return value ? value : "?";
}

static void print_tier(const char *label, const json_t *status,
                       const char *name)
{
    const json_t *tier =
        json_object_get(json_object_get(status, "tiers"), name);
    uint64_t capacity = number(tier, "capacity_bytes", NULL, NULL);
    const char *reason =
        json_string_value(json_object_get(tier, "limit_reason"));
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES], c[SIZE_TEXT_BYTES];

    if (capacity == 0) {
        printf("%s  none: %s\n", label, reason ? reason : "?");
        return;
    }
    printf("%s  %s of %s: %llu items, %s%s%s\n", label,
           size_format(number(tier, "used_bytes", NULL, NULL), a, sizeof(a)),
           size_format(capacity, b, sizeof(b)),
           (unsigned long long)number(tier, "items", NULL, NULL),
           size_format(number(tier, "item_bytes", NULL, NULL), c, sizeof(c)),
           reason ? "; full: " : "", reason ? reason : "");
}

static void print_cache(const json_t *status)
{
    printf("cached      %llu of %llu known items\n",
           (unsigned long long)number(status, "items", "cached", NULL),
           (unsigned long long)number(status, "items", "known", NULL));
    print_tier("DRAM      ", status, "dram");
    print_tier("NVMe      ", status, "nvme");
}

static void print_traffic(const json_t *status)
{
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES], c[SIZE_TEXT_BYTES],
        d[SIZE_TEXT_BYTES];

    printf(
        "source      %s read, %llu errors\n",
        size_format(number(status, "source", "read_bytes", NULL), a, sizeof(a)),
        (unsigned long long)number(status, "source", "errors", NULL));
    printf(
        "answered    %s from buffers, %s from NVMe, %s from the source "
        "(hits in DRAM do not reach the daemon)\n",
        size_format(number(status, "served", "buffer", "bytes"), b, sizeof(b)),
        size_format(number(status, "served", "nvme", "bytes"), d, sizeof(d)),
        size_format(number(status, "served", "source", "bytes"), c, sizeof(c)));
}

static void print_status(const json_t *status)
{
    const json_t *degraded = json_object_get(status, "degraded");
    size_t i;
    const json_t *line;

    printf("dataset     %s\nmounted at  %s\nstate       %s\n",
           string(status, "dataset"), string(status, "mountpoint"),
           string(status, "state"));
    print_cache(status);
    print_traffic(status);
    printf("daemon      worker %llu, pinner %llu, supervisor %llu, up %llu s, "
           "restarts %llu\n",
           (unsigned long long)number(status, "daemon", "pid", NULL),
           (unsigned long long)number(status, "daemon", "pinner_pid", NULL),
           (unsigned long long)number(status, "daemon", "supervisor_pid", NULL),
           (unsigned long long)number(status, "daemon", "uptime_seconds", NULL),
           (unsigned long long)number(status, "daemon", "restarts", NULL));
    json_array_foreach(degraded, i, line)
        printf("degraded    %s\n", json_string_value(line));
}

static int show(const struct command_target *target, bool as_json)
{
    AUTO_FREE char *answer = malloc(COMMAND_ANSWER_BYTES);
    json_error_t error;
    if (!answer)
        return EXIT_FAILED;

    int err = command_ask(target, "status", answer);
    if (err != 0) {
        command_error("%s: its daemon does not answer (%s); `coordlfs umount "
                      "--force %s` ends it",
                      target->mountpoint, strerror(-err), target->mountpoint);
        return EXIT_FAILED;
    }
    if (as_json) {
        fputs(answer, stdout);
        return EXIT_DONE;
    }
    json_t *status = json_loads(answer, 0, &error);
    if (!status) {
        command_error("%s: unreadable answer: %s", target->mountpoint,
                      error.text);
        return EXIT_FAILED;
    }
    print_status(status);
    json_decref(status);
    return EXIT_DONE;
}

/* --ready and --live say it with the exit code alone. */
static int probe(const struct command_target *target, bool ready)
{
    AUTO_FREE char *answer = malloc(COMMAND_ANSWER_BYTES);

    if (!answer || command_ask(target, "state", answer) != 0)
        return EXIT_FAILED;
    if (ready && strncmp(answer, "ready", 5) != 0 &&
        strncmp(answer, "degraded", 8) != 0)
        return EXIT_FAILED;
    return EXIT_DONE;
}

int cmd_status(int argc, char **argv)
{
    bool as_json = false, ready = false, live = false;
    const struct command_flag flags[] = {{"--json", &as_json, NULL},
                                         {"--ready", &ready, NULL},
                                         {"--live", &live, NULL}};
    struct command_target target;
    const char *path;
    int code = command_parse("status", argc, argv, flags, 3, &path);
    if (code != EXIT_DONE)
        return code;
    if (!command_is_root("status"))
        return EXIT_FAILED;

    bool probes = ready || live;
    code = command_find(path, probes, &target);
    if (code == EXIT_DONE)
        code = probes ? probe(&target, ready) : show(&target, as_json);
    else if (probes && code != EXIT_USAGE)
        code = EXIT_FAILED;
    command_target_fini(&target);
    return code;
}
