/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs stats`: the difference between two looks at the status, line by
 * line. It asks the supervisor alone, so it works whatever the worker does. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/command.h"
#include "util/clock.h"
#include "util/size.h"

enum { HEADER_EVERY = 20, PLACES = 5, LONGEST_S = 86400 };

static const char *const places[PLACES] = {"buffer", "dram", "nvme", "peer",
                                           "source"};

struct look {
    uint64_t at_ns;
    uint64_t reads[PLACES];
    uint64_t bytes[PLACES];
    uint64_t source_bytes;
    uint64_t dram_items, dram_bytes, nvme_items, nvme_bytes;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static uint64_t number(const json_t *object, const char *a, const char *b)
{
    const json_t *inner = json_object_get(object, a);

    return (uint64_t)json_integer_value(json_object_get(inner, b));
}

/* 0 or -errno. */
static int take_look(const struct command_target *target, struct look *look)
{
    AUTO_FREE char *answer = malloc(COMMAND_ANSWER_BYTES);
    int err = answer ? command_ask(target, "status", answer) : -ENOMEM;
    json_t *status = err == 0 ? json_loads(answer, 0, NULL) : NULL;

    if (!status)
        return err ? err : -EPROTO;
    const json_t *served = json_object_get(status, "served");
    const json_t *tiers = json_object_get(status, "tiers");
    look->at_ns = clock_now_ns();
    for (int i = 0; i < PLACES; i++) {
        look->reads[i] = number(served, places[i], "reads");
        look->bytes[i] = number(served, places[i], "bytes");
    }
    look->source_bytes = number(status, "source", "read_bytes");
    look->dram_items = number(tiers, "dram", "items");
    look->dram_bytes = number(tiers, "dram", "item_bytes");
    look->nvme_items = number(tiers, "nvme", "items");
    look->nvme_bytes = number(tiers, "nvme", "item_bytes");
    json_decref(status);
    return 0;
}

static void print_header(void)
{
    printf("%-34s  %-34s %8s  %-16s  %s\n",
           "--------- READs/s served ---------",
           "---------- MiB/s served ----------", "MiB/s of", "----- DRAM -----",
           "----- NVMe -----");
    for (int group = 0; group < 2; group++) {
        for (int i = 0; i < PLACES; i++)
            printf("%s%6s", i > 0 ? " " : "", places[i]);
        fputs("  ", stdout);
    }
    printf("%7s  %6s %9s  %6s %9s\n", "source", "items", "bytes", "items",
           "bytes");
}

/* A count in at most six columns. */
static void print_count(uint64_t count)
{
    if (count < 1000000)
        printf("%6llu", (unsigned long long)count);
    else
        printf("%5.1fM", (double)count / 1e6);
}

static void print_line(const struct look *old, const struct look *now)
{
    double seconds = (double)(now->at_ns - old->at_ns) / 1e9;
    double to_mib = 1 / seconds / (1 << 20);
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];

    for (int i = 0; i < PLACES; i++) {
        fputs(i > 0 ? " " : "", stdout);
        print_count((
            uint64_t)((double)(now->reads[i] - old->reads[i]) / seconds + 0.5));
    }
    fputs("  ", stdout);
    for (int i = 0; i < PLACES; i++)
        printf("%s%6.1f", i > 0 ? " " : "",
               (double)(now->bytes[i] - old->bytes[i]) * to_mib);
    printf("  %7.1f  ",
           (double)(now->source_bytes - old->source_bytes) * to_mib);
    print_count(now->dram_items);
    printf(" %9s  ", size_format(now->dram_bytes, a, sizeof(a)));
    print_count(now->nvme_items);
    printf(" %9s\n", size_format(now->nvme_bytes, b, sizeof(b)));
    fflush(stdout);
}

static void sleep_until(uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000),
                          .tv_nsec = (long)(at_ns % 1000000000)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static int run(const struct command_target *target, uint64_t interval_ns,
               uint64_t count)
{
    struct look old, now;
    uint64_t next = clock_now_ns();
    int err = take_look(target, &old);

    for (uint64_t i = 0; err == 0 && i < count; i++) {
        next += interval_ns;
        sleep_until(next);
        if (interrupted)
            return EXIT_DONE;
        err = take_look(target, &now);
        if (err != 0)
            break;
        if (i % HEADER_EVERY == 0)
            print_header();
        print_line(&old, &now);
        old = now;
    }
    if (err == 0 || interrupted)
        return EXIT_DONE;
    if (err == -ENOENT || err == -ECONNREFUSED || err == -EPIPE ||
        err == -ECONNRESET) {
        command_error("%s has been unmounted", target->mountpoint);
        return EXIT_NOT_MOUNTED;
    }
    command_error("%s: its daemon does not answer: %s", target->mountpoint,
                  strerror(-err));
    return EXIT_FAILED;
}

/* A decimal number from least to most. */
static bool read_number(const char *text, double least, double most,
                        double *value)
{
    char *end;

    if (text[strspn(text, "0123456789.")] != '\0')
        return false;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value >= least && *value <= most;
}

int cmd_stats(int argc, char **argv)
{
    const char *interval_text = "1", *count_text = NULL, *path;
    const struct command_flag flags[] = {{"--interval", NULL, &interval_text},
                                         {"--count", NULL, &count_text}};
    double interval, count = 0;
    struct command_target target;
    int code = command_parse("stats", argc, argv, flags, 2, &path);
    if (code != EXIT_DONE)
        return code;
    if (!read_number(interval_text, 0.1, LONGEST_S, &interval)) {
        command_error("--interval %s is not a number of seconds from 0.1 to "
                      "%d",
                      interval_text, LONGEST_S);
        return EXIT_USAGE;
    }
    if (count_text && (!read_number(count_text, 1, 1e15, &count) ||
                       strchr(count_text, '.'))) {
        command_error("--count %s is not a whole number from 1 up", count_text);
        return EXIT_USAGE;
    }
    if (!command_is_root("stats"))
        return EXIT_FAILED;

    code = command_find(path, false, &target);
    /* No SA_RESTART: Ctrl-C ends the sleep. */
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
    if (code == EXIT_DONE)
        code = run(&target, (uint64_t)(interval * 1e9),
                   count_text ? (uint64_t)count : UINT64_MAX);
    command_target_fini(&target);
    return code;
}
