/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/event.h"

enum { LONG_MS = 20000, ROUNDS = 200 };

/* Two events in memory that processes share. */
static struct event *events;

static int begin(void **state)
{
    watch_begin(state);
    events = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return events == MAP_FAILED ? -1 : 0;
}

static int end(void **state)
{
    munmap(events, 4096);
    return watch_end(state);
}

/* False when the event is not signalled in time. */
static bool wait_past(struct event *event, uint32_t seen)
{
    uint64_t until = clock_now_ms() + LONG_MS;

    while (event_read(event) == seen) {
        if (clock_now_ms() > until)
            return false;
        event_wait(event, seen, LONG_MS);
    }
    return true;
}

static void wait_for(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void wakes_another_process(void **state)
{
    uint32_t seen = event_read(&events[0]);
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0)
        _exit(wait_past(&events[0], seen) ? 0 : 1);
    clock_sleep_ns(20 * 1000000);
    event_signal(&events[0]);
    wait_for(child);
}

/* The child answers each signal with one of its own: a lost one would stop
 * both. */
static void loses_no_signal(void **state)
{
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        if (child != 0)
            event_signal(&events[0]);
        if (!wait_past(&events[child != 0], i)) {
            if (child == 0)
                _exit(1);
            fail_msg("round %u: no answer", i);
        }
        if (child == 0)
            event_signal(&events[1]);
    }
    if (child == 0)
        _exit(0);
    wait_for(child);
}

static void does_not_wait_for_what_has_happened(void **state)
{
    uint32_t seen = event_read(&events[0]);
    uint64_t before = clock_now_ms();

    (void)state;
    event_signal(&events[0]);
    event_wait(&events[0], seen, LONG_MS);
    event_wait(&events[0], seen, -1);
    assert_true(clock_now_ms() - before < LONG_MS / 2);
}

static void gives_up_after_the_timeout(void **state)
{
    (void)state;
    event_wait(&events[0], event_read(&events[0]), 0);
    event_wait(&events[0], event_read(&events[0]), 10);
    event_wait(&events[0], event_read(&events[0]), 1010);
    assert_int_equal(event_read(&events[0]), 0);
}

static void *wait_in_thread(void *data)
{
    bool *woken = data;

    *woken = wait_past(&events[0], 0);
    return NULL;
}

static void wakes_every_waiter(void **state)
{
    pthread_t threads[8];
    bool woken[8] = {false};

    (void)state;
    for (int i = 0; i < 8; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, wait_in_thread, &woken[i]), 0);
    clock_sleep_ns(20 * 1000000);
    event_signal(&events[0]);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 8; i++)
        assert_true(woken[i]);
}

#define event_test(function)                                                   \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        event_test(wakes_another_process),
        event_test(loses_no_signal),
        event_test(does_not_wait_for_what_has_happened),
        event_test(gives_up_after_the_timeout),
        event_test(wakes_every_waiter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
