/* SPDX-License-Identifier: Apache-2.0 */
/* Levelled log with a replaceable sink.
 *
 * error = cannot go on, warn = degraded, info = once per mount or process,
 * debug = per object, trace = per item. The arguments of a level that is off
 * are not formatted. Callable from every thread; a message is at most 1 KiB,
 * longer ones are cut. */
#ifndef UTIL_LOG_H
#define UTIL_LOG_H

#include <stdbool.h>

#include "util/cleanup.h"

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
    LOG_LEVEL_TRACE,
};

/* Receives one message without a newline. */
typedef void (*log_sink)(enum log_level level, const char *message);

/* Names in the order of enum log_level; NULL past the end. */
const char *log_level_name(enum log_level level);

/* The level called name, or -1. */
int log_level_parse(const char *name);

void log_set_level(enum log_level level);

/* NULL brings back the default sink: "coordlfs: warn: ..." on stderr. */
void log_set_sink(log_sink sink);

/* Writes lines with time, level and role to fd (borrowed until the next
 * call). */
void log_to_fd(int fd, const char *role);

/* Writes to syslog, facility daemon, as "coordlfs[pid]: role: ...". */
void log_to_syslog(const char *role);

bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

/* True at most once per second for each state; use it to limit the log of
 * events that the outside can cause at any rate. */
struct log_limit {
    _Atomic long last_s;
    _Atomic unsigned long suppressed;
};
bool log_limit_pass(struct log_limit *limit);

#define log_at(level, ...)                                                     \
    (log_enabled(level) ? log_write(level, __VA_ARGS__) : (void)0)
#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_trace(...) log_at(LOG_LEVEL_TRACE, __VA_ARGS__)

#endif
