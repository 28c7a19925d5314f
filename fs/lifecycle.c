/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing here touches the mounted file system: mounts are recognised by their
 * device number in mountinfo. */
#include "fs/lifecycle.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "util/clock.h"
#include "util/log.h"
#include "util/mountinfo.h"

enum { REAP_LIMIT_MS = 5000, REAP_POLL_MS = 2 };

void lifecycle_start_due(struct shared *shared, struct child *children,
                         enum child_role role)
{
    struct child *child = &children[role];

    if (child->pid != 0 || clock_now_ns() < child->start_ns)
        return;
    int err = child_start(shared, child, role);
    if (err != 0) {
        log_warn("cannot start a process: %s; trying again", strerror(-err));
        child->start_ns = clock_now_ns() + 100 * 1000000ull;
    }
}

void lifecycle_end_child(struct child *child)
{
    uint64_t until = clock_now_ms() + REAP_LIMIT_MS;

    if (child->pid == 0)
        return;
    kill(child->pid, SIGKILL);
    while (waitpid(child->pid, NULL, WNOHANG) == 0) {
        if (clock_now_ms() > until) {
            log_warn("process %d does not end: it waits in the kernel",
                     (int)child->pid);
            return;
        }
        clock_sleep_ns(REAP_POLL_MS * 1000000ull);
    }
    child->pid = 0;
}

bool lifecycle_is_mounted(unsigned major, unsigned minor)
{
    struct mountinfo info;

    if (mountinfo_init(&info, MOUNTINFO_PATH) != 0)
        return true;
    bool found = mountinfo_count_device(&info, major, minor) > 0;
    mountinfo_fini(&info);
    return found;
}

/* The last mount at path, which covers the others. */
static const struct mountinfo_entry *topmost(const struct mountinfo *info,
                                             const char *path)
{
    const struct mountinfo_entry *top = NULL;

    for (size_t i = 0; i < info->count; i++)
        if (strcmp(info->entries[i].mountpoint, path) == 0)
            top = &info->entries[i];
    return top;
}

void lifecycle_unmount(struct shared *shared)
{
    unsigned major = shared->device_major, minor = shared->device_minor;
    const char *path = shared->config.mountpoint;
    struct mountinfo info;

    if (mountinfo_init(&info, MOUNTINFO_PATH) != 0)
        return;
    const struct mountinfo_entry *top = topmost(&info, path);
    bool ours = top && top->major == major && top->minor == minor;
    const struct mountinfo_entry *ours_elsewhere =
        mountinfo_find_device(&info, major, minor);
    if (!ours && ours_elsewhere &&
        strcmp(ours_elsewhere->mountpoint, path) != 0) {
        /* a folder above it was renamed */
        path = ours_elsewhere->mountpoint;
        ours = topmost(&info, path) == ours_elsewhere;
    }
    if (ours && umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) != 0)
        log_warn("cannot unmount %s: %s", path, strerror(errno));
    else if (!ours)
        log_warn("%s is covered by another mount, which is left alone", path);
    mountinfo_fini(&info);
}
