/* SPDX-License-Identifier: Apache-2.0 */
/* fsopen, fsconfig, fsmount, move_mount and open_tree; and the connections'
 * control file system, mounted detached where the machine has not mounted it.
 */
#include "fs/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/control.h"
#include "util/clock.h"
#include "util/log.h"

enum { HEAL_TRIES = 8, PROBE_LIMIT_MS = 1000, PROBE_POLL_MS = 5 };

static int set_string(int context, const char *key, const char *value)
{
    return syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, key, value, 0) !=
                   0
               ? -errno
               : 0;
}

static int set_flag(int context, const char *key)
{
    return syscall(SYS_fsconfig, context, FSCONFIG_SET_FLAG, key, NULL, 0) != 0
               ? -errno
               : 0;
}

static int configure(int context, int fuse_fd, const char *source)
{
    char fd_text[16];
    int err;

    snprintf(fd_text, sizeof(fd_text), "%d", fuse_fd);
    if ((err = set_string(context, "source", source)) != 0 ||
        (err = set_string(context, "subtype", "coordlfs")) != 0 ||
        (err = set_string(context, "fd", fd_text)) != 0 ||
        (err = set_string(context, "rootmode", "40000")) != 0 ||
        (err = set_string(context, "user_id", "0")) != 0 ||
        (err = set_string(context, "group_id", "0")) != 0 ||
        (err = set_flag(context, "default_permissions")) != 0 ||
        (err = set_flag(context, "allow_other")) != 0 ||
        (err = set_flag(context, "ro")) != 0)
        return err;
    return 0;
}

int mount_create(int fuse_fd, const char *source, const char **step)
{
    AUTO_CLOSE int context = (int)syscall(SYS_fsopen, "fuse", FSOPEN_CLOEXEC);

    *step = "fsopen";
    if (context < 0)
        return -errno;
    *step = "fsconfig";
    int err = configure(context, fuse_fd, source);
    if (err != 0)
        return err;
    *step = "mount";
    if (syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0)
        return -errno;
    int fd =
        (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC,
                     MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return fd < 0 ? -errno : fd;
}

int mount_device(int mount_fd, unsigned *major, unsigned *minor)
{
    struct statx stx;

    /* No field is asked for, so no request is sent. */
    if (statx(mount_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &stx) != 0)
        return -errno;
    *major = stx.stx_dev_major;
    *minor = stx.stx_dev_minor;
    return 0;
}

int mount_show(int mount_fd, const char *path)
{
    return syscall(SYS_move_mount, mount_fd, "", AT_FDCWD, path,
                   MOVE_MOUNT_F_EMPTY_PATH) != 0
               ? -errno
               : 0;
}

void mount_set_readahead(unsigned major, unsigned minor, unsigned kib)
{
    char path[96];

    snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", major,
             minor);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || dprintf(fd, "%u", kib) < 0)
        log_debug("the kernel's readahead stays as it is: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
}

int mount_clone(int mount_fd)
{
    int fd = (int)syscall(SYS_open_tree, mount_fd, "",
                          AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* ---- connections ---- */

/* A file of a connection's folder. */
static int open_connection(unsigned minor, const char *name, int flags)
{
    char path[96];

    snprintf(path, sizeof(path), "/sys/fs/fuse/connections/%u/%s", minor, name);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT)
        return fd < 0 ? -errno : fd;

    AUTO_CLOSE int context =
        (int)syscall(SYS_fsopen, "fusectl", FSOPEN_CLOEXEC);
    if (context < 0 ||
        syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0)
        return -errno;
    AUTO_CLOSE int tree =
        (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, 0);
    if (tree < 0)
        return -errno;
    snprintf(path, sizeof(path), "%u/%s", minor, name);
    fd = openat(tree, path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int mount_abort(unsigned minor)
{
    AUTO_CLOSE int fd = open_connection(minor, "abort", O_WRONLY);

    if (fd < 0)
        return fd;
    return write(fd, "1", 1) != 1 ? -errno : 0;
}

/* ---- stale mounts ---- */

/* The topmost mount at exactly path, or NULL. */
static const struct mountinfo_entry *topmost(const struct mountinfo *info,
                                             const char *path)
{
    const struct mountinfo_entry *top = NULL;

    for (size_t i = 0; i < info->count; i++)
        if (strcmp(info->entries[i].mountpoint, path) == 0)
            top = &info->entries[i];
    return top;
}

/* Whether the kernel itself says that the connection has ended. Asked by a
 * process of its own, since a living server may not answer in time. */
static bool is_disconnected(const char *path)
{
    uint64_t until = clock_now_ms() + PROBE_LIMIT_MS;
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        struct statx stx;
        /* The kernel would answer from what it knows. The latter error when the
         * server ends in the middle of the question. */
        _exit(statx(AT_FDCWD, path, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS,
                    &stx) != 0 &&
              (errno == ENOTCONN || errno == ECONNABORTED));
    }
    while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
        if (clock_now_ms() > until) {
            kill(pid, SIGKILL);
            return false;
        }
        clock_sleep_ns(PROBE_POLL_MS * 1000000ull);
    }
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

/* Whether who listens answers, or takes its time: not when it is just being
 * killed, and its socket still takes connections. Closes fd. */
static bool has_answer(int fd)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    char byte;
    bool answers = true;

    if (!control_send_line(fd, "state"))
        answers = false;
    else if (poll(&poller, 1, PROBE_LIMIT_MS) > 0)
        answers = recv(fd, &byte, 1, MSG_DONTWAIT) > 0;
    close(fd);
    return answers;
}

/* A socket that nobody listens at is a dead supervisor's. Without a socket it
 * may be one of another container, whose /run is not ours. */
static bool has_supervisor(const struct mountinfo_entry *entry)
{
    uint64_t until = clock_now_ms() + PROBE_LIMIT_MS;
    int fd = control_connect(entry->major, entry->minor);

    while (fd >= 0 && !has_answer(fd) && clock_now_ms() < until) {
        clock_sleep_ns(PROBE_POLL_MS * 1000000ull);
        fd = control_connect(entry->major, entry->minor);
    }
    if (fd == -ENOENT)
        return !is_disconnected(entry->mountpoint);
    return fd != -ECONNREFUSED;
}

/* 1: removed one, look again. 0: nothing there. */
static int heal_once(const char *path)
{
    struct mountinfo info;
    int err = mountinfo_init(&info, MOUNTINFO_PATH);
    if (err != 0)
        return err;

    const struct mountinfo_entry *entry = topmost(&info, path);
    if (!entry || !mountinfo_is_coordlfs(entry)) {
        err = 0;
    } else if (has_supervisor(entry)) {
        err = -EBUSY;
    } else {
        log_info("%s: removing a mount whose daemon is gone", path);
        int abort_err = mount_abort(entry->minor);
        if (abort_err != 0 && abort_err != -ENOENT)
            log_warn("%s: cannot abort its connection: %s", path,
                     strerror(-abort_err));
        err = umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) != 0 ? -errno : 1;
        control_unlink(entry->major, entry->minor, 0);
    }
    mountinfo_fini(&info);
    return err;
}

int mount_heal(const char *path)
{
    for (int i = 0; i < HEAL_TRIES; i++) {
        int err = heal_once(path);
        if (err <= 0)
            return err;
    }
    return -EBUSY;
}
