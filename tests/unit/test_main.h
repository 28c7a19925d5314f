/* SPDX-License-Identifier: Apache-2.0 */
/* What every unit test shares: cmocka, and a watch over the log.
 *
 * List tests with watched_test(function): a warn or error that is logged
 * without having been announced by expect_log fails the test, and so does an
 * announced message that never comes. A test with a setup and teardown of its
 * own calls watch_begin and watch_end in them. Any thread may log; the failure
 * is raised in the test's own thread, when the test ends. */
#ifndef TEST_MAIN_H
#define TEST_MAIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "util/cleanup.h"
#include "util/log.h"

enum { WATCH_EXPECTED = 16, WATCH_TEXT_BYTES = 256 };

struct watch {
    pthread_mutex_t lock;
    /* guarded by lock */
    struct {
        enum log_level level;
        char substring[WATCH_TEXT_BYTES];
        bool seen;
    } expected[WATCH_EXPECTED];
    int expected_count;
    char unexpected[WATCH_TEXT_BYTES]; /* the first one, "" for none */
};

static struct watch watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Each announcement stands for one message; of several that fit, the first that
 * was not seen yet. */
static inline void watch_sink(enum log_level level, const char *message)
{
    SCOPED_LOCK(&watch.lock);

    for (int i = 0; i < watch.expected_count; i++)
        if (!watch.expected[i].seen && watch.expected[i].level == level &&
            strstr(message, watch.expected[i].substring) != NULL) {
            watch.expected[i].seen = true;
            return;
        }
    if (level <= LOG_LEVEL_WARN && watch.unexpected[0] == '\0')
        snprintf(watch.unexpected, sizeof(watch.unexpected), "%s: %s",
                 log_level_name(level), message);
}

/* Announces that the code under test will log a message of this level with this
 * substring in it. */
static inline void expect_log(enum log_level level, const char *substring)
{
    SCOPED_LOCK(&watch.lock);

    assert_true(watch.expected_count < WATCH_EXPECTED);
    assert_true(strlen(substring) < WATCH_TEXT_BYTES);
    watch.expected[watch.expected_count].level = level;
    watch.expected[watch.expected_count].seen = false;
    strcpy(watch.expected[watch.expected_count].substring, substring);
    watch.expected_count++;
}

/* True where a message still to come was announced. */
static inline bool watch_pending(void)
{
    SCOPED_LOCK(&watch.lock);

    for (int i = 0; i < watch.expected_count; i++)
        if (!watch.expected[i].seen)
            return true;
    return false;
}

static inline int watch_begin(void **state)
{
    (void)state;
    pthread_mutex_lock(&watch.lock);
    watch.expected_count = 0;
    watch.unexpected[0] = '\0';
    pthread_mutex_unlock(&watch.lock);
    log_set_sink(watch_sink);
    return 0;
}

/* Prints what went wrong; the result makes cmocka count the test as failed. */
static inline int watch_end(void **state)
{
    int err = 0;

    (void)state;
    log_set_sink(NULL);
    pthread_mutex_lock(&watch.lock);
    if (watch.unexpected[0] != '\0') {
        print_error("logged without having been announced: %s\n",
                    watch.unexpected);
        err = -1;
    }
    for (int i = 0; i < watch.expected_count; i++)
        if (!watch.expected[i].seen) {
            print_error("announced but never logged: %s: %s\n",
                        log_level_name(watch.expected[i].level),
                        watch.expected[i].substring);
            err = -1;
        }
    pthread_mutex_unlock(&watch.lock);
    return err;
}

#define watched_test(function)                                                 \
    cmocka_unit_test_setup_teardown(function, watch_begin, watch_end)

#endif
