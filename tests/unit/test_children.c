/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "fs/children.h"
#include "util/clock.h"

#define EXIT(code) W_EXITCODE(code, 0)
#define SIGNAL(number) W_EXITCODE(0, number)
#define CORE(number) (W_EXITCODE(0, number) | WCOREFLAG)

static struct shared *area; /* no more of it than the header */
static struct child child;

static int begin(void **state)
{
    watch_begin(state);
    area = calloc(1, sizeof(*area));
    child = (struct child){.pid = 4711};
    return area ? 0 : -1;
}

static int end(void **state)
{
    free(area);
    return watch_end(state);
}

static const struct {
    int status;
    bool crash;
} crash_cases[] = {
    {EXIT(0), false},        {EXIT(1), true},          {EXIT(127), true},
    {EXIT(255), true},       {SIGNAL(SIGKILL), false}, {SIGNAL(SIGTERM), false},
    {SIGNAL(SIGSEGV), true}, {CORE(SIGSEGV), true},    {SIGNAL(SIGBUS), true},
    {CORE(SIGABRT), true},   {SIGNAL(SIGABRT), true},  {SIGNAL(SIGILL), true},
    {SIGNAL(SIGFPE), true},  {SIGNAL(SIGSYS), true},
};

static void tells_a_crash_from_a_kill(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(crash_cases) / sizeof(crash_cases[0]); i++)
        if (child_is_crash(crash_cases[i].status) != crash_cases[i].crash)
            fail_msg("row %zu", i);
}

static const struct {
    unsigned crashes;
    uint64_t since_first_ms;
    bool gives_up;
} give_up_cases[] = {
    {0, 0, false},          {1, 0, false},         {4, 0, false},
    {4, 59999, false},      {5, 0, true},          {5, 60000, true},
    {5, 60001, false},      {6, 1000, true},       {UINT_MAX, 0, true},
    {5, UINT64_MAX, false}, {4, UINT64_MAX, false}};

static void gives_up_after_five_in_a_minute(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(give_up_cases) / sizeof(give_up_cases[0]);
         i++)
        if (child_gives_up(give_up_cases[i].crashes,
                           give_up_cases[i].since_first_ms) !=
            give_up_cases[i].gives_up)
            fail_msg("row %zu", i);
}

static void waits_longer_each_time_but_not_long(void **state)
{
    static const unsigned wait_ms[] = {0, 50, 100, 150, 200, 200, 200};

    (void)state;
    for (unsigned i = 0; i < sizeof(wait_ms) / sizeof(wait_ms[0]); i++)
        assert_int_equal(child_backoff_ms(i), wait_ms[i]);
    assert_int_equal(child_backoff_ms(1000000), 200);
}

/* The worker of that generation answers. */
static void answer(void)
{
    atomic_store(&area->worker_ready,
                 atomic_load(&area->worker_generation) + 1);
}

/* Dies after it has run for so long. */
static enum child_verdict die_after(enum child_role role, int status,
                                    uint64_t run_s)
{
    child.pid = 4711;
    child.start_ns = 0;
    child.started_ns = clock_now_ns() - run_s * 1000000000ull;
    enum child_verdict verdict = child_died(area, &child, role, status);
    assert_int_equal(child.pid, 0);
    return verdict;
}

static enum child_verdict die(enum child_role role, int status)
{
    return die_after(role, status, 0);
}

/* Makes room for more announcements. */
static void forget_log(void)
{
    SCOPED_LOCK(&watch.lock);
    watch.expected_count = 0;
}

/* As die; the warning that a signal was the cause is announced. */
static enum child_verdict crash(enum child_role role, int status)
{
    enum child_verdict verdict;

    expect_log(LOG_LEVEL_WARN, " 4711 crashed with signal ");
    verdict = die(role, status);
    assert_false(watch_pending());
    forget_log();
    return verdict;
}

static void a_worker_that_leaves_is_not_replaced(void **state)
{
    (void)state;
    assert_int_equal(die(CHILD_WORKER, EXIT(0)), CHILD_ENDED);
    assert_int_equal(atomic_load(&area->worker_generation), 0);
    assert_int_equal(atomic_load(&area->metrics.worker_restarts), 0);
}

static void a_killed_child_is_replaced_at_once_for_ever(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 100; i++) {
        assert_int_equal(die(CHILD_WORKER, SIGNAL(i % 2 ? SIGKILL : SIGTERM)),
                         CHILD_RESTART);
        assert_int_equal(child.start_ns, 0);
        assert_int_equal(child.crashes, 0);
        assert_int_equal(atomic_load(&area->worker_generation), i);
        assert_int_equal(atomic_load(&area->metrics.worker_restarts), i);
    }
    for (unsigned i = 1; i <= 100; i++) {
        assert_int_equal(die(CHILD_PINNER, SIGNAL(SIGKILL)), CHILD_RESTART);
        assert_int_equal(child.start_ns, 0);
        assert_int_equal(atomic_load(&area->pinner_generation), i);
    }
    assert_int_equal(atomic_load(&area->worker_generation), 100);
    assert_int_equal(atomic_load(&area->metrics.pinner_restarts), 100);
}

static void five_crashes_without_an_answer_are_enough(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 4; i++) {
        uint64_t before = clock_now_ns();
        assert_int_equal(crash(CHILD_WORKER, SIGNAL(SIGSEGV)), CHILD_RESTART);
        assert_int_equal(child.crashes, i);
        assert_in_range(child.start_ns, before + 50000000ull * i,
                        clock_now_ns() + 50000000ull * i);
    }
    assert_int_equal(crash(CHILD_WORKER, SIGNAL(SIGSEGV)), CHILD_GIVE_UP);
    assert_int_equal(atomic_load(&area->metrics.worker_restarts), 5);
}

static void an_answer_begins_the_count_again(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            assert_int_equal(crash(CHILD_WORKER, SIGNAL(SIGBUS)),
                             CHILD_RESTART);
        answer();
        assert_int_equal(crash(CHILD_WORKER, SIGNAL(SIGBUS)), CHILD_RESTART);
        assert_int_equal(child.crashes, 1);
        assert_int_equal(die(CHILD_WORKER, SIGNAL(SIGKILL)), CHILD_RESTART);
    }
    /* a predecessor's answer is not its own */
    answer();
    assert_int_equal(die(CHILD_WORKER, SIGNAL(SIGKILL)), CHILD_RESTART);
    for (int i = 0; i < 4; i++)
        assert_int_equal(crash(CHILD_WORKER, SIGNAL(SIGBUS)), CHILD_RESTART);
    assert_int_equal(crash(CHILD_WORKER, SIGNAL(SIGBUS)), CHILD_GIVE_UP);
}

static void a_kill_in_between_begins_the_count_again(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 4; i++)
            assert_int_equal(crash(CHILD_WORKER, CORE(SIGABRT)), CHILD_RESTART);
        assert_int_equal(die(CHILD_WORKER, SIGNAL(SIGTERM)), CHILD_RESTART);
        assert_int_equal(child.crashes, 0);
    }
}

static void crashes_far_apart_are_not_counted_together(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(crash(CHILD_WORKER, SIGNAL(SIGSEGV)), CHILD_RESTART);
        child.first_crash_ns -= 20 * 1000000000ull; /* time passes */
    }
}

static void exits_are_crashes_and_are_warned_of(void **state)
{
    (void)state;
    for (int i = 1; i <= 5; i++) {
        expect_log(LOG_LEVEL_WARN, "worker 4711 exited with 3");
        assert_int_equal(die(CHILD_WORKER, EXIT(3)),
                         i < 5 ? CHILD_RESTART : CHILD_GIVE_UP);
    }
}

static void a_pinner_that_exits_is_replaced(void **state)
{
    (void)state;
    expect_log(LOG_LEVEL_WARN, "pinner 4711 exited with 1");
    assert_int_equal(die(CHILD_PINNER, EXIT(1)), CHILD_RESTART);
    assert_true(child.start_ns != 0);
    assert_int_equal(atomic_load(&area->metrics.pinner_restarts), 1);
    assert_int_equal(atomic_load(&area->metrics.worker_restarts), 0);
}

/* It is no signal that ended it. */
static void an_end_without_a_cause_is_told_as_it_is(void **state)
{
    (void)state;
    expect_log(LOG_LEVEL_WARN, "pinner 4711 exited with 0");
    assert_int_equal(die(CHILD_PINNER, EXIT(0)), CHILD_RESTART);
    assert_int_equal(child.start_ns, 0);
    assert_int_equal(atomic_load(&area->metrics.pinner_restarts), 1);
}

static void a_pinner_that_crashes_and_crashes_is_left_off(void **state)
{
    (void)state;
    for (int i = 1; i <= 4; i++)
        assert_int_equal(crash(CHILD_PINNER, SIGNAL(SIGSEGV)), CHILD_RESTART);
    assert_int_equal(crash(CHILD_PINNER, SIGNAL(SIGSEGV)), CHILD_GIVE_UP);
}

static void a_pinner_that_ran_for_a_while_is_sound(void **state)
{
    (void)state;
    for (int i = 1; i <= 12; i++) {
        expect_log(LOG_LEVEL_WARN, "pinner 4711 crashed with signal ");
        assert_int_equal(
            die_after(CHILD_PINNER, SIGNAL(SIGSEGV), i % 4 == 0 ? 3600 : 1),
            CHILD_RESTART);
    }
}

#define child_test(function)                                                   \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        watched_test(tells_a_crash_from_a_kill),
        watched_test(gives_up_after_five_in_a_minute),
        watched_test(waits_longer_each_time_but_not_long),
        child_test(a_worker_that_leaves_is_not_replaced),
        child_test(a_killed_child_is_replaced_at_once_for_ever),
        child_test(five_crashes_without_an_answer_are_enough),
        child_test(an_answer_begins_the_count_again),
        child_test(a_kill_in_between_begins_the_count_again),
        child_test(crashes_far_apart_are_not_counted_together),
        child_test(exits_are_crashes_and_are_warned_of),
        child_test(a_pinner_that_exits_is_replaced),
        child_test(an_end_without_a_cause_is_told_as_it_is),
        child_test(a_pinner_that_crashes_and_crashes_is_left_off),
        child_test(a_pinner_that_ran_for_a_while_is_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
