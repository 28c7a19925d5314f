/* SPDX-License-Identifier: Apache-2.0 */
/* The log. A message is formatted into a buffer on the stack and handed to the
 * sink in one call, so that lines of several threads and processes do not mix:
 * one write(2) per line, to a descriptor opened with O_APPEND. */
#include "util/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

enum { MESSAGE_BYTES = 1024 };

static const char *const names[] = {"error", "warn", "info", "debug", "trace"};
enum { LEVELS = sizeof(names) / sizeof(names[0]) };

static _Atomic int current_level = LOG_LEVEL_INFO;
static int sink_fd = -1;
static char sink_role[32];

static void write_all(int fd, const char *line, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, line, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* there is nowhere left to report it */
        line += n;
        length -= (size_t)n;
    }
}

static void stderr_sink(enum log_level level, const char *message)
{
    char line[MESSAGE_BYTES + 64];
    int n = snprintf(line, sizeof(line), "coordlfs: %s: %s\n", names[level],
                     message);
    write_all(STDERR_FILENO, line, (size_t)n);
}

static void fd_sink(enum log_level level, const char *message)
{
    struct timespec now;
    struct tm local;
    char line[MESSAGE_BYTES + 128];
    char when[32];

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &local);
    int n = snprintf(line, sizeof(line), "%s.%03ld %s %s: %s\n", when,
                     now.tv_nsec / 1000000, names[level], sink_role, message);
    write_all(sink_fd, line, (size_t)n);
}

static void syslog_sink(enum log_level level, const char *message)
{
    static const int priority[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG,
                                   LOG_DEBUG};
    syslog(priority[level], "%s: %s", sink_role, message);
}

static log_sink current_sink = stderr_sink;

const char *log_level_name(enum log_level level)
{
    return (unsigned)level < LEVELS ? names[level] : NULL;
}

int log_level_parse(const char *name)
{
    for (int i = 0; i < LEVELS; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

void log_set_level(enum log_level level)
{
    atomic_store(&current_level, (int)level);
}

void log_set_sink(log_sink sink)
{
    current_sink = sink ? sink : stderr_sink;
}

void log_to_fd(int fd, const char *role)
{
    snprintf(sink_role, sizeof(sink_role), "%s", role);
    sink_fd = fd;
    current_sink = fd_sink;
}

void log_to_syslog(const char *role)
{
    snprintf(sink_role, sizeof(sink_role), "%s", role);
    openlog("coordlfs", LOG_PID, LOG_DAEMON);
    current_sink = syslog_sink;
}

bool log_enabled(enum log_level level)
{
    return (int)level <=
           atomic_load_explicit(&current_level, memory_order_relaxed);
}

/* A name with a newline must not begin a line of its own, nor one with escape
 * sequences speak to a terminal: control characters become \xNN. */
static void make_printable(const char *text, char *out, size_t out_bytes)
{
    size_t used = 0;

    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool control = c < ' ' || c == 0x7f;
        size_t length = control ? 4 : 1;
        if (used + length >= out_bytes)
            break;
        if (control)
            sprintf(out + used, "\\x%02x", c);
        else
            out[used] = *text;
        used += length;
    }
    out[used] = '\0';
}

void log_write(enum log_level level, const char *format, ...)
{
    char text[MESSAGE_BYTES], message[MESSAGE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    make_printable(text, message, sizeof(message));
    current_sink(level, message);
}

bool log_limit_pass(struct log_limit *limit)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    long last = atomic_load(&limit->last_s);
    if (now.tv_sec <= last ||
        !atomic_compare_exchange_strong(&limit->last_s, &last, now.tv_sec)) {
        atomic_fetch_add(&limit->suppressed, 1);
        return false;
    }
    return true;
}
