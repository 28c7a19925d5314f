/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <fcntl.h>
#include <regex.h>
#include <sys/mman.h>

static enum log_level last_level;
static char last_message[2048];
static int messages;

static void keep(enum log_level level, const char *message)
{
    last_level = level;
    snprintf(last_message, sizeof(last_message), "%s", message);
    messages++;
}

static int begin(void **state)
{
    (void)state;
    messages = 0;
    last_message[0] = '\0';
    log_set_level(LOG_LEVEL_INFO);
    log_set_sink(keep);
    return 0;
}

static int end(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_INFO);
    log_set_sink(NULL);
    return 0;
}

static void names_levels(void **state)
{
    (void)state;
    for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_TRACE; level++)
        assert_int_equal(log_level_parse(log_level_name((enum log_level)level)),
                         level);
    assert_string_equal(log_level_name(LOG_LEVEL_WARN), "warn");
    assert_null(log_level_name((enum log_level)(LOG_LEVEL_TRACE + 1)));
    assert_int_equal(log_level_parse("warning"), -1);
    assert_int_equal(log_level_parse(""), -1);
}

static int evaluations;

static int evaluate(void)
{
    return ++evaluations;
}

static void formats_only_levels_that_are_on(void **state)
{
    (void)state;
    log_info("mounted %s with %d threads", "/data", 4);
    assert_int_equal(messages, 1);
    assert_int_equal(last_level, LOG_LEVEL_INFO);
    assert_string_equal(last_message, "mounted /data with 4 threads");

    log_debug("%d", evaluate());
    assert_int_equal(messages, 1);
    assert_int_equal(evaluations, 0);

    log_set_level(LOG_LEVEL_TRACE);
    assert_true(log_enabled(LOG_LEVEL_TRACE));
    log_trace("%d", evaluate());
    assert_int_equal(messages, 2);
    assert_int_equal(evaluations, 1);

    log_set_level(LOG_LEVEL_ERROR);
    assert_false(log_enabled(LOG_LEVEL_WARN));
    log_warn("%d", evaluate());
    assert_int_equal(evaluations, 1);
    log_error("stop");
    assert_int_equal(last_level, LOG_LEVEL_ERROR);
}

static void cuts_long_messages(void **state)
{
    char text[3000];

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_info("%s", text);
    assert_int_equal(strlen(last_message), 1023);
}

static void keeps_names_on_their_line(void **state)
{
    char text[3000];

    (void)state;
    log_info("changed: %s", "a\nb\t\x1b[31m\x7f \xff\xc3\xa9\\");
    assert_string_equal(last_message, "changed: a\\x0ab\\x09\\x1b[31m\\x7f "
                                      "\xff\xc3\xa9\\");
    memset(text, '\n', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_info("%s", text);
    assert_int_equal(strlen(last_message), 1020);
}

static void writes_lines_to_a_descriptor(void **state)
{
    AUTO_CLOSE int fd = memfd_create("log", MFD_CLOEXEC);
    char text[512] = "";
    regex_t pattern;

    (void)state;
    assert_true(fd >= 0);
    log_to_fd(fd, "pinner");
    log_warn("the tier is full");
    log_set_sink(keep);

    assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
    assert_int_equal(regcomp(&pattern,
                             "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:"
                             "[0-9]{2}\\.[0-9]{3} warn pinner: the tier is "
                             "full\n$",
                             REG_EXTENDED),
                     0);
    assert_int_equal(regexec(&pattern, text, 0, NULL, 0), 0);
    regfree(&pattern);
}

static void writes_to_stderr_by_default(void **state)
{
    AUTO_CLOSE int fd = memfd_create("stderr", MFD_CLOEXEC);
    AUTO_CLOSE int saved = dup(STDERR_FILENO);
    char text[512] = "";

    (void)state;
    assert_true(fd >= 0 && saved >= 0);
    dup2(fd, STDERR_FILENO);
    log_set_sink(NULL);
    log_error("no %s", "device");
    log_set_sink(keep);
    dup2(saved, STDERR_FILENO);

    assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
    assert_string_equal(text, "coordlfs: error: no device\n");
}

static void survives_a_sink_that_fails(void **state)
{
    AUTO_CLOSE int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    log_to_fd(fd, "worker");
    log_info("lost");
    log_set_sink(keep);
    log_info("kept");
    assert_string_equal(last_message, "kept");
}

static void limits_repetition(void **state)
{
    struct log_limit limit = {0};
    int passed = 0;

    (void)state;
    for (int i = 0; i < 1000; i++)
        passed += log_limit_pass(&limit);
    /* one, or two where a second ended meanwhile */
    assert_in_range(passed, 1, 2);
    assert_int_equal(limit.suppressed, 1000 - passed);

    limit.last_s -= 1;
    assert_true(log_limit_pass(&limit));
}

static void watch_takes_what_was_announced(void **state)
{
    watch_begin(state);
    expect_log(LOG_LEVEL_WARN, "full");
    assert_true(watch_pending());
    log_warn("the tier is full");
    assert_false(watch_pending());
    assert_int_equal(watch_end(state), 0);
}

static void watch_fails_for_anything_else(void **state)
{
    AUTO_CLOSE int fd = memfd_create("stderr", MFD_CLOEXEC);
    AUTO_CLOSE int saved = dup(STDERR_FILENO);
    char text[512] = "";

    assert_true(fd >= 0 && saved >= 0);
    watch_begin(state);
    expect_log(LOG_LEVEL_WARN, "full");
    log_warn("the disk is slow");
    log_info("nobody minds");
    dup2(fd, STDERR_FILENO);
    int err = watch_end(state);
    dup2(saved, STDERR_FILENO);

    assert_int_equal(err, -1);
    assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
    assert_non_null(strstr(text, "warn: the disk is slow"));
    assert_non_null(strstr(text, "warn: full"));
    assert_null(strstr(text, "nobody"));
}

#define log_test(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(names_levels),
        log_test(formats_only_levels_that_are_on),
        log_test(cuts_long_messages),
        log_test(keeps_names_on_their_line),
        log_test(writes_lines_to_a_descriptor),
        log_test(writes_to_stderr_by_default),
        log_test(survives_a_sink_that_fails),
        log_test(limits_repetition),
        log_test(watch_takes_what_was_announced),
        log_test(watch_fails_for_anything_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
