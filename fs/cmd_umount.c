/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs umount`: what umount(8) does, and then waits for the daemon's
 * processes to be gone, or names who is in the way. */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "fs/command.h"
#include "fs/control.h"
#include "fs/holders.h"
#include "fs/mount.h"
#include "fs/overlays.h"
#include "util/clock.h"
#include "util/path.h"

enum {
    END_LIMIT_MS = 2000,
    FORCE_LIMIT_MS = 10000, /* pinned memory is given back meanwhile */
    PROCESSES = 3,
};

/* The daemon's processes, as descriptors that become readable at their end. */
struct watch {
    pid_t pid[PROCESSES];
    int pidfd[PROCESSES];
    int count;
};

static json_t *get_status(const struct command_target *target)
{
    AUTO_FREE char *answer = malloc(COMMAND_ANSWER_BYTES);

    if (!answer || command_ask(target, "status", answer) != 0)
        return NULL;
    return json_loads(answer, 0, NULL);
}

static void watch_init(struct watch *watch, const json_t *status)
{
    static const char *const names[PROCESSES] = {"supervisor_pid", "pid",
                                                 "pinner_pid"};
    const json_t *daemon = json_object_get(status, "daemon");

    watch->count = 0;
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid =
            (pid_t)json_integer_value(json_object_get(daemon, names[i]));
        int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
        if (fd < 0)
            continue;
        watch->pid[watch->count] = pid;
        watch->pidfd[watch->count++] = fd;
    }
}

/* True when all have ended within limit_ms. */
static bool watch_wait(struct watch *watch, int limit_ms)
{
    uint64_t until = clock_now_ms() + (uint64_t)limit_ms;
    bool ended = true;

    for (int i = 0; i < watch->count; i++) {
        struct pollfd poller = {.fd = watch->pidfd[i], .events = POLLIN};
        int64_t left = (int64_t)(until - clock_now_ms());
        ended = poll(&poller, 1, left > 0 ? (int)left : 0) > 0 && ended;
        close(watch->pidfd[i]);
    }
    return ended;
}

static size_t print_overlays(const struct mountinfo *info, const char *folder)
{
    const struct mountinfo_entry *overlay = NULL;
    size_t count = 0;

    for (; (overlay = overlays_next(info, folder, overlay)); count++)
        fprintf(stderr, "  the overlay at %s has it as a layer\n",
                overlay->mountpoint);
    return count;
}

static int say_busy(const struct command_target *target,
                    const struct watch *watch)
{
    struct mountinfo info;

    command_error("%s is in use:", target->mountpoint);
    if (mountinfo_init(&info, MOUNTINFO_PATH) == 0) {
        const struct mountinfo_entry *entry =
            mountinfo_find_device(&info, target->major, target->minor);
        size_t count = print_overlays(&info, target->mountpoint);
        if (entry)
            count += holders_print(stderr, &info, entry, watch->pid,
                                   (size_t)watch->count);
        if (count == 0)
            fputs(
                "  by a process that has let go by now, or cannot be seen from "
                "here; try again\n",
                stderr);
        mountinfo_fini(&info);
    }
    return EXIT_BUSY;
}

/* The kernel would unmount what an overlay needs without a word, and a daemon
 * without a mount would stay. */
static bool has_overlay(const char *mountpoint)
{
    struct mountinfo info;
    bool found = false;

    if (mountinfo_init(&info, MOUNTINFO_PATH) == 0) {
        found = overlays_next(&info, mountpoint, NULL) != NULL;
        mountinfo_fini(&info);
    }
    return found;
}

static int unmount(const struct command_target *target)
{
    json_t *status = get_status(target);
    struct watch watch;

    if (!status) {
        /* No daemon: what is left is a dead mount. */
        int err = mount_heal(target->mountpoint);
        if (err == 0)
            return EXIT_DONE;
        command_error("%s: its daemon does not answer: %s; --force ends it",
                      target->mountpoint, strerror(-err));
        return EXIT_FAILED;
    }
    watch_init(&watch, status);
    json_decref(status);
    int err = has_overlay(target->mountpoint) ? EBUSY : 0;
    if (err == 0 && umount2(target->mountpoint, UMOUNT_NOFOLLOW) != 0)
        err = errno;
    if (err != 0) {
        watch_wait(&watch, 0);
        if (err == EBUSY)
            return say_busy(target, &watch);
        command_error("%s: %s", target->mountpoint, strerror(err));
        return EXIT_FAILED;
    }
    if (!watch_wait(&watch, END_LIMIT_MS))
        printf("%s is unmounted here; copies of the mount live on in other "
               "mount namespaces\n(containers, say) and keep the daemon. "
               "`coordlfs umount --force %s` ends them.\n",
               target->mountpoint, target->mountpoint);
    return EXIT_DONE;
}

/* ---- --force ---- */

static int force(const struct command_target *target, bool visible)
{
    json_t *status = get_status(target);
    struct watch watch = {.count = 0};

    if (status)
        watch_init(&watch, status);
    json_decref(status);
    int err = mount_abort(target->minor);
    if (err != 0 && err != -ENOENT)
        command_error("%s: cannot abort its connection: %s", target->mountpoint,
                      strerror(-err));
    if (visible &&
        umount2(target->mountpoint, MNT_DETACH | UMOUNT_NOFOLLOW) != 0 &&
        errno != EINVAL) {
        command_error("%s: %s", target->mountpoint, strerror(errno));
        return EXIT_FAILED;
    }
    if (!watch_wait(&watch, FORCE_LIMIT_MS)) {
        command_error("%s: its processes do not end", target->mountpoint);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

/* A daemon whose mount is only visible in other namespaces: asked for its mount
 * point through every control socket. */
static bool find_hidden(const char *path, struct command_target *target)
{
    char absolute[PATH_MAX];
    bool found = false;

    if (path_real(path, NULL, NULL, absolute, sizeof(absolute)) != 0)
        return false;
    /* as the status has it */
    AUTO_FREE char *shown = control_printable(absolute);
    if (!shown)
        return false;
    DIR *directory = opendir(CONTROL_FOLDER);
    for (const struct dirent *entry;
         directory && !found && (entry = readdir(directory));) {
        if (sscanf(entry->d_name, "%u-%u.sock", &target->major,
                   &target->minor) != 2)
            continue;
        json_t *status = get_status(target);
        const char *mountpoint =
            json_string_value(json_object_get(status, "mountpoint"));
        found = mountpoint && strcmp(mountpoint, shown) == 0;
        json_decref(status);
    }
    if (directory)
        closedir(directory);
    target->mountpoint = found ? strdup(absolute) : NULL;
    return target->mountpoint != NULL;
}

int cmd_umount(int argc, char **argv)
{
    bool forced = false;
    const struct command_flag flags[] = {{"--force", &forced, NULL}};
    struct command_target target;
    const char *path;
    int code = command_parse("umount", argc, argv, flags, 1, &path);
    if (code != EXIT_DONE)
        return code;
    if (!command_is_root("umount"))
        return EXIT_FAILED;

    code = command_find(path, forced && path, &target);
    if (code == EXIT_DONE) {
        code = forced ? force(&target, true) : unmount(&target);
    } else if (code == EXIT_NOT_MOUNTED && forced && path) {
        if (find_hidden(path, &target))
            code = force(&target, false);
        else
            command_error("%s is not a coordlfs mount, nor inside one", path);
    }
    command_target_fini(&target);
    return code;
}
