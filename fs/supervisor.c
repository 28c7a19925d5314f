/* SPDX-License-Identifier: Apache-2.0 */
/* One thread and one poll loop. Start: shared area, /dev/fuse, a detached
 * mount, the worker; when it has answered a stat of the root (asked by a child
 * without /dev/fuse) the mount is shown, cloned for the pinner, and reported.
 * So nothing is visible before it answers, and a failed start leaves nothing.
 *
 * End: the public mount disappears from mountinfo, the pinner and the clone
 * go, and the kernel ends the connection; or copies of the mount live on in
 * other namespaces, and worker and supervisor stay until they are gone. */
#include "fs/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>

#include "fs/children.h"
#include "fs/control.h"
#include "fs/lifecycle.h"
#include "fs/mount.h"
#include "fs/prepare.h"
#include "fs/process.h"
#include "fs/requests.h"
#include "util/clock.h"
#include "util/log.h"

enum {
    READAHEAD_KIB = 256, /* more makes a fault of a mapped file read too much */
    START_LIMIT_MS = 60000, /* a source that does not answer must not hang us */
    START_POLL_MS = 5,
    ASK_PAUSE_MS = 100,
    IDLE_POLL_MS = 1000,
    SLOTS_LEAST = 4, /* who holds one never waits, so few suffice */
};

struct supervisor {
    struct shared *shared;
    struct child child[CHILD_ROLES];
    struct requests *requests;
    int control[2]; /* [0] ours, [1] the workers' */
    int mount_fd;   /* until the mount is shown and cloned */
    int signals;
    int mounts;    /* /proc/self/mountinfo */
    bool has_tree; /* the pinner's clone of the mount is open */
    bool connection_ended;
    bool gave_up;
    int stop_signals;
};

static struct supervisor supervisor = {.mount_fd = -1, .mounts = -1};

/* ---- start ---- */

static int fail(char *message, size_t bytes, const char *what, int err)
{
    snprintf(message, bytes, "%s: %s", what, strerror(-err));
    return 1;
}

static unsigned slot_count(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (cpus < SLOTS_LEAST)
        return SLOTS_LEAST;
    return cpus > SHARED_SLOTS ? SHARED_SLOTS : (unsigned)cpus;
}

static int make_area(const struct config *config, const struct budget *budget,
                     char *message, size_t bytes)
{
    int fd;
    int err = shared_create(config, slot_count(), &fd, &supervisor.shared);
    if (err != 0)
        return fail(message, bytes,
                    "cannot lock the shared memory area; it needs "
                    "CAP_IPC_LOCK",
                    err);

    struct shared *shared = supervisor.shared;
    shared->capacity_bytes = budget->dram_bytes;
    shared->nvme_capacity_bytes = budget->nvme_bytes;
    snprintf(shared->nvme_why_none, sizeof(shared->nvme_why_none), "%s",
             budget->nvme_why_none);
    shared->started_ns = clock_now_ns();
    atomic_store(&shared->supervisor_pid, getpid());
    atomic_store(&shared->pinner_generation, 1);
    atomic_store(&shared->swept_generation, 1);
    err = process_place_descriptor(fd, PROCESS_FD_SHARED);
    if (err == 0)
        err = control_pair(supervisor.control);
    if (err == 0)
        err =
            process_place_descriptor(supervisor.control[1], PROCESS_FD_CONTROL);
    return err ? fail(message, bytes, "start", err) : 0;
}

static int make_mount(char *message, size_t bytes)
{
    struct shared *shared = supervisor.shared;
    const char *step = "";
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return fail(message, bytes,
                    "cannot open /dev/fuse (load the fuse module, or give the "
                    "container the device)",
                    -errno);
    int err = process_place_descriptor(fd, PROCESS_FD_FUSE);
    if (err == 0)
        supervisor.mount_fd =
            mount_create(PROCESS_FD_FUSE, shared->config.dataset, &step);
    if (err == 0 && supervisor.mount_fd < 0) {
        snprintf(message, bytes,
                 "cannot make a FUSE mount (%s): %s; coordlfs needs root with "
                 "CAP_SYS_ADMIN and Linux 5.14 or later",
                 step, strerror(-supervisor.mount_fd));
        return 1;
    }
    if (err == 0)
        err = mount_device(supervisor.mount_fd, &shared->device_major,
                           &shared->device_minor);
    return err ? fail(message, bytes, "mount", err) : 0;
}

static int watch_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    supervisor.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return supervisor.signals < 0 ? -errno : 0;
}

/* A process without /dev/fuse that asks the mount for its root; exits with 0
 * when that was answered. */
static pid_t ask_root(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct stat st;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(PROCESS_FD_FUSE);
        _exit(fstat(supervisor.mount_fd, &st) != 0 || !S_ISDIR(st.st_mode));
    }
    return pid;
}

static bool worker_answers(void)
{
    struct shared *shared = supervisor.shared;

    return atomic_load(&shared->worker_ready) ==
           atomic_load(&shared->worker_generation) + 1;
}

static void reap(void);
static void take_signals(void);

/* Until the root was answered. Returns 0, or 1 with the reason in message. */
static int wait_for_answer(char *message, size_t bytes)
{
    struct shared *shared = supervisor.shared;
    uint64_t until = clock_now_ms() + START_LIMIT_MS;
    pid_t asker = 0;
    int status;

    while (clock_now_ms() < until) {
        if (atomic_load(&shared->failed)) {
            snprintf(message, bytes, "%s", shared->message);
            return shared->exit_code ? shared->exit_code : 1;
        }
        reap();
        take_signals();
        if (supervisor.stop_signals > 0) {
            snprintf(message, bytes, "interrupted");
            return 1;
        }
        if (supervisor.gave_up || supervisor.connection_ended) {
            snprintf(message, bytes,
                     "the worker ends before it answers; see "
                     "the log");
            return 1;
        }
        lifecycle_start_due(shared, supervisor.child, CHILD_WORKER);
        if (asker <= 0 && worker_answers())
            asker = ask_root();
        if (asker > 0 && waitpid(asker, &status, WNOHANG) == asker) {
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
            asker = 0;
            clock_sleep_ns(ASK_PAUSE_MS * 1000000ull);
        }
        clock_sleep_ns(START_POLL_MS * 1000000ull);
    }
    if (asker > 0)
        kill(asker, SIGKILL);
    snprintf(message, bytes, "the source does not answer within %d s",
             START_LIMIT_MS / 1000);
    return 1;
}

static int show(char *message, size_t bytes)
{
    struct shared *shared = supervisor.shared;
    /* Before the mount is visible: one without a socket counts as dead. */
    int err =
        requests_create(shared, supervisor.control[0], &supervisor.requests);
    if (err != 0) {
        snprintf(message, bytes, "cannot make the control socket in %s: %s",
                 CONTROL_FOLDER, strerror(-err));
        return 1;
    }
    err = mount_show(supervisor.mount_fd, shared->config.mountpoint);
    if (err != 0) {
        snprintf(message, bytes, "cannot mount at %s: %s",
                 shared->config.mountpoint, strerror(-err));
        return 1;
    }
    atomic_store(&shared->mounted, 1);
    mount_set_readahead(shared->device_major, shared->device_minor,
                        READAHEAD_KIB);
    err = process_place_descriptor(mount_clone(supervisor.mount_fd),
                                   PROCESS_FD_TREE);
    supervisor.has_tree = err == 0;
    close(supervisor.mount_fd);
    supervisor.mount_fd = -1;
    if (err == 0) {
        supervisor.mounts = open(MOUNTINFO_PATH, O_RDONLY | O_CLOEXEC);
        err = supervisor.mounts < 0 ? -errno : 0;
    }
    if (err == 0)
        return 0;
    /* Shown already: stop() takes it away again. */
    snprintf(message, bytes, "cannot set the mount at %s up: %s",
             shared->config.mountpoint, strerror(-err));
    return 1;
}

static int start(const struct config *config, const struct budget *budget,
                 char *message, size_t bytes)
{
    int code = make_area(config, budget, message, bytes);

    if (code == 0)
        code = make_mount(message, bytes);
    if (code == 0 && watch_signals() != 0)
        code = fail(message, bytes, "signals", -errno);
    if (code == 0)
        code = wait_for_answer(message, bytes);
    if (code == 0)
        code = show(message, bytes);
    return code;
}

/* ---- running ---- */

static void close_tree(void)
{
    if (supervisor.has_tree && process_release_descriptor(PROCESS_FD_TREE) != 0)
        close(PROCESS_FD_TREE);
    supervisor.has_tree = false;
}

static void give_up(enum child_role role)
{
    struct shared *shared = supervisor.shared;

    if (role == CHILD_PINNER) {
        atomic_store(&shared->pinner_failed, 1);
        log_error("the pinner crashed 5 times in a row: nothing is pinned any "
                  "more, and what is read comes from the source or the page "
                  "cache. Look for the cause above, then mount again");
        return;
    }
    supervisor.gave_up = true;
    log_error("the worker crashed 5 times in a row before it answered: giving "
              "up; readers of %s get errors from now on. Look for the cause "
              "above, or mount with another --cache-dir",
              shared->config.mountpoint);
    if (mount_abort(shared->device_minor) != 0)
        log_warn("the connection ends with this process");
}

static void reap(void)
{
    int status;

    for (int i = 0; i < CHILD_ROLES; i++) {
        struct child *child = &supervisor.child[i];
        if (child->pid == 0 || waitpid(child->pid, &status, WNOHANG) <= 0)
            continue;
        if (i == CHILD_PINNER && !atomic_load(&supervisor.shared->mounted)) {
            child->pid = 0; /* as it should, with the public mount */
            continue;
        }
        switch (
            child_died(supervisor.shared, child, (enum child_role)i, status)) {
        case CHILD_RESTART:
            break;
        case CHILD_ENDED:
            supervisor.connection_ended = true;
            break;
        case CHILD_GIVE_UP:
            give_up((enum child_role)i);
            break;
        }
    }
}

static void end_public_mount(void)
{
    struct shared *shared = supervisor.shared;

    if (!atomic_load(&shared->mounted) ||
        lifecycle_is_mounted(shared->device_major, shared->device_minor))
        return;
    log_info("%s: unmounted; letting go of %llu pinned items",
             shared->config.mountpoint,
             (unsigned long long)atomic_load(&shared->dram.items));
    prepare_sign_lock(&shared->config, "stopping");
    atomic_store(&shared->orphaned, 1);
    atomic_store(&shared->mounted, 0);
    close_tree();
    /* It may wait for a worker that is being replaced: reaped when it ends. */
    if (supervisor.child[CHILD_PINNER].pid != 0)
        kill(supervisor.child[CHILD_PINNER].pid, SIGKILL);
    atomic_store(&shared->pinner_pid, 0);
}

static void take_signals(void)
{
    struct signalfd_siginfo info;
    struct shared *shared = supervisor.shared;

    while (read(supervisor.signals, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGCHLD || info.ssi_signo == SIGHUP)
            continue;
        supervisor.stop_signals++;
        log_info("signal %u: %s", info.ssi_signo,
                 supervisor.stop_signals == 1 ? "unmounting" : "aborting");
        if (atomic_load(&shared->mounted))
            lifecycle_unmount(shared);
        if (supervisor.stop_signals > 1 &&
            mount_abort(shared->device_minor) != 0)
            supervisor.connection_ended = true;
    }
}

static void poll_once(void)
{
    struct shared *shared = supervisor.shared;
    struct pollfd polled[2 + REQUESTS_POLLED];
    uint64_t wait_ms = IDLE_POLL_MS;

    polled[0] = (struct pollfd){.fd = supervisor.signals, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = supervisor.mounts, .events = POLLPRI};
    nfds_t count = 2 + requests_fill(supervisor.requests, polled + 2);
    bool wants_pinner =
        atomic_load(&shared->mounted) && !atomic_load(&shared->pinner_failed);
    if (supervisor.child[CHILD_WORKER].pid == 0 ||
        (wants_pinner && supervisor.child[CHILD_PINNER].pid == 0))
        wait_ms = START_POLL_MS;
    poll(polled, count, (int)wait_ms);
    take_signals();
    reap();
    end_public_mount();
    requests_serve(supervisor.requests, polled + 2, count - 2);
    lifecycle_start_due(shared, supervisor.child, CHILD_WORKER);
    if (atomic_load(&shared->mounted) && wants_pinner)
        lifecycle_start_due(shared, supervisor.child, CHILD_PINNER);
}

static void stop(void)
{
    struct shared *shared = supervisor.shared;

    if (!shared)
        return;
    atomic_store(&shared->state, SHARED_STOPPING);
    prepare_sign_lock(&shared->config, "stopping");
    if (atomic_load(&shared->mounted))
        lifecycle_unmount(shared);
    if (supervisor.mount_fd >= 0)
        close(supervisor.mount_fd);
    close_tree();
    for (int i = 0; i < CHILD_ROLES; i++)
        lifecycle_end_child(&supervisor.child[i]);
    if (supervisor.requests)
        requests_destroy(supervisor.requests);
}

int supervisor_run(const struct config *config, const struct budget *budget,
                   supervisor_report report, void *data)
{
    static char message[2 * PATH_MAX + 512];
    int code = start(config, budget, message, sizeof(message));

    if (code != 0) {
        stop();
        report(code, message, data);
        return code;
    }
    struct shared *shared = supervisor.shared;
    lifecycle_start_due(shared, supervisor.child, CHILD_PINNER);
    atomic_store(&shared->state, SHARED_READY);
    log_info("%s is mounted at %s", config->dataset, config->mountpoint);
    sd_notifyf(0, "READY=1\nSTATUS=%s is mounted at %s", config->dataset,
               config->mountpoint);
    report(0, "", data);
    while (!supervisor.connection_ended && !supervisor.gave_up)
        poll_once();
    sd_notify(0, "STOPPING=1");
    stop();
    return supervisor.gave_up ? 1 : 0;
}
