/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "fs/control.h"

static int pair[2];

static int begin(void **state)
{
    watch_begin(state);
    return control_pair(pair);
}

static int end(void **state)
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
    return watch_end(state);
}

static void a_connection_arrives_with_its_text(void **state)
{
    int pipe_fds[2];
    char *text = NULL;
    char byte;

    (void)state;
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(control_pass(pair[0], pipe_fds[0], "warm a/b \xff"), 0);
    close(pipe_fds[0]);
    int fd = control_receive(pair[1], &text);
    assert_true(fd >= 0);
    assert_string_equal(text, "warm a/b \xff");
    free(text);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(pipe_fds[1], "x", 1), 1);
    assert_int_equal(read(fd, &byte, 1), 1);
    close(fd);
    close(pipe_fds[1]);
}

static void requests_keep_their_bounds_and_order(void **state)
{
    char *text;

    (void)state;
    assert_int_equal(control_pass(pair[0], 0, "one"), 0);
    assert_int_equal(control_pass(pair[0], 0, ""), 0);
    assert_int_equal(control_pass(pair[0], 0, "three"), 0);
    static const char *const wanted[] = {"one", "", "three"};
    for (int i = 0; i < 3; i++) {
        int fd = control_receive(pair[1], &text);
        assert_true(fd >= 0);
        assert_string_equal(text, wanted[i]);
        free(text);
        close(fd);
    }
    assert_int_equal(control_receive(pair[1], &text), -EAGAIN);
}

static void the_longest_request_arrives_whole(void **state)
{
    AUTO_FREE char *line = malloc(CONTROL_LINE_BYTES);
    char *text;

    (void)state;
    assert_non_null(line);
    memset(line, 'a', CONTROL_LINE_BYTES);
    line[CONTROL_LINE_BYTES - 1] = '\0';
    assert_int_equal(control_pass(pair[0], 0, line), 0);
    int fd = control_receive(pair[1], &text);
    assert_true(fd >= 0);
    assert_string_equal(text, line);
    free(text);
    close(fd);
}

static void nothing_arrives_without_a_connection(void **state)
{
    char *text = NULL;

    (void)state;
    assert_int_equal(send(pair[0], "text", 5, 0), 5);
    assert_int_equal(control_receive(pair[1], &text), -EPROTO);
    assert_int_equal(control_pass(pair[0], -1, "text"), -EBADF);
    assert_int_equal(control_receive(pair[1], &text), -EAGAIN);
    close(pair[0]);
    pair[0] = -1;
    assert_true(control_receive(pair[1], &text) < 0);
    assert_int_equal(control_pass(pair[1], 0, "text"), -EPIPE);
    assert_null(text);
}

/* A socket that is full must not hold up who passes on. */
static void passing_on_never_waits(void **state)
{
    int err = 0;

    (void)state;
    for (int i = 0; i < 100000 && err == 0; i++)
        err = control_pass(pair[0], 0, "warm");
    assert_true(err == -EAGAIN || err == -ETOOMANYREFS);
}

/* ---- lines ---- */

static void *read_all(void *data)
{
    char buffer[4096];
    int fd = *(int *)data;
    size_t *total = calloc(1, sizeof(*total));
    ssize_t n;

    while ((n = read(fd, buffer, sizeof(buffer))) > 0)
        *total += (size_t)n;
    return total;
}

static void a_line_ends_with_its_newline(void **state)
{
    int stream[2];
    char buffer[64] = "";

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stream), 0);
    assert_true(control_send_line(stream[0], "ok"));
    assert_true(control_send_line(stream[0], ""));
    assert_int_equal(read(stream[1], buffer, sizeof(buffer)), 4);
    assert_string_equal(buffer, "ok\n\n");
    close(stream[1]);
    assert_false(control_send_line(stream[0], "anybody?"));
    close(stream[0]);
}

static void a_line_of_any_length_is_sent_whole(void **state)
{
    enum { LONG_BYTES = 3 << 20 };
    AUTO_FREE char *line = malloc(LONG_BYTES + 1);
    AUTO_FREE size_t *total = NULL;
    int stream[2];
    pthread_t reader;

    (void)state;
    assert_non_null(line);
    memset(line, 'a', LONG_BYTES);
    line[LONG_BYTES] = '\0';
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stream), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_all, &stream[1]), 0);
    bool sent = control_send_line(stream[0], line);
    close(stream[0]);
    pthread_join(reader, (void **)&total);
    close(stream[1]);
    assert_true(sent);
    assert_int_equal(*total, LONG_BYTES + 1);
}

/* ---- names ---- */

static const struct {
    const char *name, *text;
} names[] = {
    {"", ""},
    {"plain name.jpg", "plain name.jpg"},
    {"tab\there", "tab\\x09here"},
    {"line\nend\r", "line\\x0aend\\x0d"},
    {"\x1b[2J", "\\x1b[2J"},
    {"\x7f", "\\x7f"},
    {"\"quoted'", "\"quoted'"},
    {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
    {"\xe2\x82\xac", "\xe2\x82\xac"},
    {"\xf0\x9f\x90\xb1", "\xf0\x9f\x90\xb1"},
    {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
    /* no UTF-8: single bytes, cut sequences, over-long forms, surrogates, what
     * is past the last character */
    {"\x80", "\\x80"},
    {"\xff\xfe", "\\xff\\xfe"},
    {"\xc3", "\\xc3"},
    {"\xc3z", "\\xc3z"},
    {"\xe2\x82", "\\xe2\\x82"},
    {"\xe2\x82z", "\\xe2\\x82z"},
    {"\xf0\x9f\x90", "\\xf0\\x9f\\x90"},
    {"\xc0\xaf", "\\xc0\\xaf"},
    {"\xc1\x81", "\\xc1\\x81"},
    {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},
    {"\xe0\x9f\xbf", "\\xe0\\x9f\\xbf"},
    {"\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf"},
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
    {"\xed\x9f\xbf", "\xed\x9f\xbf"},
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
    {"\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"},
    {"\xfc\x80\x80\x80\x80\x80", "\\xfc\\x80\\x80\\x80\\x80\\x80"},
    {"\xc3\xc3\xbc", "\\xc3\xc3\xbc"},
};

static void names_become_printable(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        AUTO_FREE char *text = control_printable(names[i].name);
        assert_non_null(text);
        assert_string_equal(text, names[i].text);
    }
}

/* U+0080 to U+009F are control characters too; terminals obey some of them,
 * as U+009B for ESC [. */
static void no_control_character_passes(void **state)
{
    (void)state;
    for (int i = 0x80; i <= 0x9f; i++) {
        char name[] = {(char)0xc2, (char)i, '\0'}, wanted[16];
        snprintf(wanted, sizeof(wanted), "\\xc2\\x%02x", (unsigned)i);
        char *text = control_printable(name);
        bool right = text && strcmp(text, wanted) == 0;
        free(text);
        assert_true(right);
    }
    AUTO_FREE char *space = control_printable("\xc2\xa0");
    assert_string_equal(space, "\xc2\xa0");
}

/* ---- the socket of a mount ---- */

enum { NO_DEVICE = UINT32_MAX }; /* as a major number */

static void a_mount_that_is_not_there_is_not_reached(void **state)
{
    (void)state;
    assert_int_equal(control_connect(NO_DEVICE, NO_DEVICE), -ENOENT);
    control_unlink(NO_DEVICE, NO_DEVICE, 0);
    control_unlink(NO_DEVICE, NO_DEVICE, 1);
}

static void the_socket_is_its_makers(void **state)
{
    unsigned minor = (unsigned)getpid();
    uint64_t first_inode, second_inode;

    (void)state;
    if (geteuid() != 0)
        skip();
    int first = control_listen(NO_DEVICE, minor, &first_inode);
    assert_true(first >= 0);
    int client = control_connect(NO_DEVICE, minor);
    assert_true(client >= 0);
    close(client);
    close(first);
    assert_int_equal(control_connect(NO_DEVICE, minor), -ECONNREFUSED);

    /* the device number is another mount's now */
    int second = control_listen(NO_DEVICE, minor, &second_inode);
    assert_true(second >= 0);
    if (first_inode != second_inode)
        control_unlink(NO_DEVICE, minor, first_inode);
    client = control_connect(NO_DEVICE, minor);
    assert_true(client >= 0);
    close(client);
    control_unlink(NO_DEVICE, minor, second_inode);
    assert_int_equal(control_connect(NO_DEVICE, minor), -ENOENT);
    close(second);
}

static void any_path_is_one_line(void **state)
{
    static const char *const paths[] = {
        "", "a/b c%20", "two\nlines\n", "back\\slash\\n", "\\", "\n", "\xff",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        AUTO_FREE char *text = control_escape(paths[i]);
        assert_non_null(text);
        assert_null(strchr(text, '\n'));
        control_unescape(text);
        assert_string_equal(text, paths[i]);
    }
    char cut[] = "a\\"; /* nothing after it */
    control_unescape(cut);
    assert_string_equal(cut, "a\\");
}

#define pair_test(function)                                                    \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        pair_test(a_connection_arrives_with_its_text),
        pair_test(requests_keep_their_bounds_and_order),
        pair_test(the_longest_request_arrives_whole),
        pair_test(nothing_arrives_without_a_connection),
        pair_test(passing_on_never_waits),
        watched_test(a_line_ends_with_its_newline),
        watched_test(a_line_of_any_length_is_sent_whole),
        watched_test(any_path_is_one_line),
        watched_test(names_become_printable),
        watched_test(no_control_character_passes),
        watched_test(a_mount_that_is_not_there_is_not_reached),
        watched_test(the_socket_is_its_makers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
