/* SPDX-License-Identifier: Apache-2.0 */
/* A child is this very program, executed again, so that it begins without
 * anything of the supervisor's but the descriptors it is given. */
#include "fs/children.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "fs/process.h"
#include "util/clock.h"
#include "util/log.h"

enum {
    CRASHES_MOST = 5,
    CRASH_WINDOW_MS = 60000,
    SOUND_MS = 10000,
    BACKOFF_STEP_MS = 50,
    BACKOFF_MOST_MS = 200,
};

static const char *const role_names[CHILD_ROLES] = {"worker", "pinner"};

static const int worker_fds[] = {
    PROCESS_FD_FUSE,   PROCESS_FD_DATASET, PROCESS_FD_CACHE,  PROCESS_FD_LOCK,
    PROCESS_FD_SHARED, PROCESS_FD_LOG,     PROCESS_FD_CONTROL};
static const int pinner_fds[] = {PROCESS_FD_LOCK, PROCESS_FD_SHARED,
                                 PROCESS_FD_LOG, PROCESS_FD_TREE};

bool child_is_crash(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status) != 0;
    return WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM;
}

bool child_gives_up(unsigned crashes, uint64_t since_first_ms)
{
    return crashes >= CRASHES_MOST && since_first_ms <= CRASH_WINDOW_MS;
}

unsigned child_backoff_ms(unsigned crashes)
{
    unsigned wait_ms = crashes * BACKOFF_STEP_MS;

    return wait_ms < BACKOFF_MOST_MS ? wait_ms : BACKOFF_MOST_MS;
}

/* In the child: only async-signal-safe calls. */
static void __attribute__((noreturn))
become(const struct config *config, enum child_role role)
{
    const int *fds = role == CHILD_WORKER ? worker_fds : pinner_fds;
    size_t count = role == CHILD_WORKER
                       ? sizeof(worker_fds) / sizeof(*worker_fds)
                       : sizeof(pinner_fds) / sizeof(*pinner_fds);
    char *arguments[] = {"coordlfs", "_child", (char *)role_names[role], NULL};
    sigset_t none;

    for (size_t i = 0; i < count; i++)
        if (fds[i] != PROCESS_FD_LOG || process_logs_to_descriptor(config))
            fcntl(fds[i], F_SETFD, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv("/proc/self/exe", arguments);
    _exit(127);
}

int child_start(struct shared *shared, struct child *child,
                enum child_role role)
{
    pid_t pid = fork();

    if (pid < 0)
        return -errno;
    if (pid == 0)
        become(&shared->config, role);
    child->pid = pid;
    child->started_ns = clock_now_ns();
    child->start_ns = 0;
    if (role == CHILD_WORKER) {
        atomic_store(&shared->worker_pid, pid);
    } else {
        atomic_store(&shared->pinner_pid, pid);
        event_signal(&shared->worker_event);
    }
    log_debug("%s %d started", role_names[role], (int)pid);
    return 0;
}

/* A pinner answers nobody: it counts as sound when it has run for a while. */
static bool has_answered(struct shared *shared, const struct child *child,
                         enum child_role role)
{
    if (role == CHILD_PINNER)
        return clock_now_ns() - child->started_ns > SOUND_MS * 1000000ull;
    return atomic_load(&shared->worker_ready) ==
           atomic_load(&shared->worker_generation) + 1;
}

static void log_death(enum child_role role, pid_t pid, int status)
{
    if (WIFEXITED(status))
        log_warn("%s %d exited with %d; starting another", role_names[role],
                 (int)pid, WEXITSTATUS(status));
    else if (child_is_crash(status))
        log_warn("%s %d crashed with signal %d (%s); starting another",
                 role_names[role], (int)pid, WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        log_info("%s %d was ended by signal %d (%s); starting another",
                 role_names[role], (int)pid, WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
}

/* The next one is another generation, and is counted. */
static void count_restart(struct shared *shared, enum child_role role)
{
    if (role == CHILD_WORKER) {
        atomic_fetch_add(&shared->worker_generation, 1);
        atomic_fetch_add(&shared->metrics.worker_restarts, 1);
    } else {
        atomic_fetch_add(&shared->pinner_generation, 1);
        atomic_fetch_add(&shared->metrics.pinner_restarts, 1);
    }
}

enum child_verdict child_died(struct shared *shared, struct child *child,
                              enum child_role role, int status)
{
    uint64_t now = clock_now_ns();
    pid_t pid = child->pid;
    bool answered = has_answered(shared, child, role);

    child->pid = 0;
    if (role == CHILD_WORKER && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return CHILD_ENDED;
    log_death(role, pid, status);
    count_restart(shared, role);
    if (!child_is_crash(status)) {
        child->crashes = 0;
        return CHILD_RESTART;
    }
    if (answered || child->crashes == 0 ||
        now - child->first_crash_ns > CRASH_WINDOW_MS * 1000000ull) {
        child->crashes = 0;
        child->first_crash_ns = now;
    }
    child->crashes++;
    if (child_gives_up(child->crashes,
                       (now - child->first_crash_ns) / 1000000u))
        return CHILD_GIVE_UP;
    child->start_ns = now + child_backoff_ms(child->crashes) * 1000000ull;
    return CHILD_RESTART;
}
