/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that dies takes the connection with it; its successor is asked for
 * the same, which does what is left. */
#include "fs/follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fs/control.h"
#include "util/clock.h"
#include "util/size.h"

enum {
    BAR = 20,
    LINE_BYTES = 256,
    ASK_AGAIN_MS = 100,
    SILENCE_MS = 30000, /* a slow directory may take longer */
    LINE_PAUSE_MS = 5000,
    TRIES_MOST = 600,
    RATE_MS = 5000, /* the rate is that of the last one or two of these */
};

/* How much had been done at a time. */
struct sample {
    uint64_t at_ms;
    uint64_t done;
};

struct view {
    const struct follow *follow;
    const struct command_target *target;
    bool terminal;
    bool open_line;
    bool took_line;
    uint64_t began_ms;
    uint64_t printed_ms;
    struct sample older, newer; /* at_ms 0: none yet */
};

static const char *stopped_text;

uint64_t follow_number(const json_t *line, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(line, name));
}

/* Columns of the terminal, or more than any line when there is none. */
static size_t line_width(const struct view *view)
{
    struct winsize size;

    if (view->terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
        size.ws_col > 1)
        return size.ws_col - 1u;
    return view->terminal ? 79 : LINE_BYTES;
}

/* ---- progress ---- */

static void note_rate(struct view *view, uint64_t done)
{
    uint64_t now = clock_now_ms();

    if (view->newer.at_ms == 0)
        view->older = view->newer = (struct sample){now, done};
    if (now - view->newer.at_ms < RATE_MS)
        return;
    view->older = view->newer;
    view->newer = (struct sample){now, done};
}

/* Seconds that are left at the rate of late; 0 while that is not known. */
static uint64_t seconds_left(const struct view *view, uint64_t done,
                             uint64_t total)
{
    uint64_t took = clock_now_ms() - view->older.at_ms;

    if (took < 2000 || done <= view->older.done || total <= done)
        return 0;
    double rate = (double)(done - view->older.done) / (double)took;
    return 1 + (uint64_t)((double)(total - done) / rate / 1000);
}

static void format_left(uint64_t seconds, char *text, size_t text_bytes)
{
    unsigned long long s = seconds;

    if (s == 0)
        *text = '\0';
    else if (s < 100)
        snprintf(text, text_bytes, ", %llu s left", s);
    else if (s < 6000)
        snprintf(text, text_bytes, ", %llu min left", (s + 30) / 60);
    else
        snprintf(text, text_bytes, ", %llu h %llu min left", s / 3600,
                 s % 3600 / 60);
}

static void format_progress(const struct view *view, const json_t *line,
                            char *text)
{
    uint64_t total = follow_number(line, "total_bytes");
    uint64_t done = follow_number(line, "bytes");
    const char *counted =
        json_object_get(line, "loaded_bytes") ? "loaded_bytes" : "bytes";
    uint64_t took = clock_now_ms() - view->began_ms + 1;
    int filled = total ? (int)((double)done * BAR / (double)total) : BAR;
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES], c[SIZE_TEXT_BYTES];
    char bar[BAR + 1], left[64];

    if (!json_is_true(json_object_get(line, "scanned"))) {
        snprintf(text, LINE_BYTES, "looking: %llu files, %s",
                 (unsigned long long)follow_number(line, "total_files"),
                 size_format(total, a, sizeof(a)));
        return;
    }
    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)(filled < BAR ? filled : BAR));
    bar[BAR] = '\0';
    format_left(seconds_left(view, done, total), left, sizeof(left));
    /* What matters least comes last: a narrow terminal cuts it off. */
    snprintf(
        text, LINE_BYTES, "[%s] %s of %s, %s/s%s, %llu of %llu files %s", bar,
        size_format(done, a, sizeof(a)), size_format(total, b, sizeof(b)),
        size_format(follow_number(line, counted) * 1000 / took, c, sizeof(c)),
        left, (unsigned long long)follow_number(line, "files"),
        (unsigned long long)follow_number(line, "total_files"),
        view->follow->doing);
}

static void print_progress(struct view *view, const json_t *line)
{
    uint64_t now = clock_now_ms();
    char text[LINE_BYTES];

    if (json_is_true(json_object_get(line, "scanned")))
        note_rate(view, follow_number(line, "bytes"));
    if (view->follow->quiet ||
        (!view->terminal && now - view->printed_ms < LINE_PAUSE_MS))
        return;
    view->printed_ms = now;
    view->open_line = view->terminal;
    format_progress(view, line, text);
    printf("%s%.*s%s", view->terminal ? "\r\033[K" : "", (int)line_width(view),
           text, view->terminal ? "" : "\n");
    fflush(stdout);
}

/* Ctrl-C: leaves the terminal's line in order. */
static void on_interrupt(int signal)
{
    ssize_t n = write(STDERR_FILENO, stopped_text, strlen(stopped_text));

    (void)n;
    _exit(128 + signal);
}

static void end_line(struct view *view)
{
    if (view->open_line)
        fputs("\r\033[K", stdout);
    view->open_line = false;
    fflush(stdout);
}

/* ---- lines ---- */

static void print_failure(const struct view *view, const json_t *line,
                          const char *kind)
{
    const char *path = json_string_value(json_object_get(line, kind));
    const char *error = json_string_value(json_object_get(line, "error"));

    command_error("%s: %s", path && *path ? path : view->target->mountpoint,
                  error ? error : "?");
}

/* One line of the worker; -1: more will come, else an exit code. */
static int take_line(struct view *view, const char *text)
{
    const struct follow *follow = view->follow;
    json_t *line = json_loads(text, 0, NULL);
    int code = -1;

    if (!line) {
        end_line(view);
        command_error("%s: its daemon says: %s; it may be of another version",
                      view->target->mountpoint, text);
        return EXIT_FAILED;
    }
    if (json_object_get(line, "done")) {
        end_line(view);
        code = follow->result(line,
                              (double)(clock_now_ms() - view->began_ms) / 1000,
                              follow->data);
    } else if (json_object_get(line, "fatal")) {
        end_line(view);
        print_failure(view, line, "fatal");
        code = EXIT_FAILED;
    } else if (json_object_get(line, "failed") &&
               json_object_get(line, "error")) {
        end_line(view);
        print_failure(view, line, "failed");
    } else if (json_object_get(line, "total_files")) {
        print_progress(view, line);
    } else if (follow->line) {
        view->took_line = true;
        end_line(view);
        follow->line(line, follow->data);
    }
    json_decref(line);
    return code;
}

/* Takes the whole lines of text; -1: more will come. *used is what is left. */
static int take_lines(struct view *view, char *text, size_t *used)
{
    char *begin = text, *newline;

    while ((newline = memchr(begin, '\n', *used - (size_t)(begin - text)))) {
        *newline = '\0';
        int code = take_line(view, begin);
        if (code >= 0)
            return code;
        begin = newline + 1;
    }
    *used -= (size_t)(begin - text);
    memmove(text, begin, *used);
    return *used == CONTROL_LINE_BYTES ? EXIT_FAILED : -1;
}

/* Whether the mount still has its supervisor. */
static bool is_served(const struct view *view)
{
    AUTO_FREE char *answer = malloc(COMMAND_ANSWER_BYTES);

    return answer && command_ask(view->target, "state", answer) == 0;
}

/* Follows one worker; -1: it went away. Its death ends the connection, so
 * silence means only that it waits for something. */
static int follow_worker(struct view *view, int fd)
{
    AUTO_FREE char *buffer = malloc(CONTROL_LINE_BYTES);
    size_t used = 0;
    int code = -1;
    if (!buffer)
        return EXIT_FAILED;

    while (code < 0) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        if (poll(&poller, 1, SILENCE_MS) == 0) {
            if (!is_served(view))
                return -1;
            continue;
        }
        ssize_t n = recv(fd, buffer + used, CONTROL_LINE_BYTES - used, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        used += (size_t)n;
        code = take_lines(view, buffer, &used);
    }
    return code;
}

static int follow_target(const struct follow *follow,
                         const struct command_target *target)
{
    struct view view = {.follow = follow,
                        .target = target,
                        .terminal = isatty(STDOUT_FILENO),
                        .began_ms = clock_now_ms()};
    AUTO_FREE char *argument = control_escape(target->relative);
    AUTO_FREE char *request = NULL;

    view.printed_ms = view.began_ms;
    if (!argument || asprintf(&request, "%s %s", follow->task, argument) < 0) {
        request = NULL;
        return EXIT_FAILED;
    }
    stopped_text = follow->stopped;
    if (stopped_text)
        signal(SIGINT, on_interrupt);
    for (int i = 0; i < TRIES_MOST; i++) {
        AUTO_CLOSE int fd = control_connect(target->major, target->minor);
        if (fd < 0) {
            end_line(&view);
            command_error("%s: its daemon is gone (%s)", target->mountpoint,
                          strerror(-fd));
            return EXIT_FAILED;
        }
        int code =
            control_send_line(fd, request) ? follow_worker(&view, fd) : -1;
        if (code >= 0)
            return code;
        if (view.took_line)
            break;
        view.newer.at_ms = 0;
        clock_sleep_ns(ASK_AGAIN_MS * 1000000ull);
    }
    end_line(&view);
    command_error("%s: the daemon has restarted meanwhile; try again",
                  target->mountpoint);
    return EXIT_FAILED;
}

int follow_path(const struct follow *follow, const char *path)
{
    struct command_target target;
    int code = command_find(path, false, &target);

    if (code == EXIT_DONE)
        code = command_resolve(&target, !follow->keep_last_name);
    if (code == EXIT_DONE)
        code = follow_target(follow, &target);
    command_target_fini(&target);
    return code;
}

int follow_command(const struct follow *follow, int argc, char **argv)
{
    const char *path;
    int code = command_parse(follow->task, argc, argv, NULL, 0, &path);

    if (code != EXIT_DONE)
        return code;
    if (!command_is_root(follow->task))
        return EXIT_FAILED;
    return follow_path(follow, path);
}
