/* SPDX-License-Identifier: Apache-2.0 */
/* The mount table is consulted before any path is touched: a stale mount in the
 * way would hang or fail whoever does. */
#include "fs/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cache/index.h"
#include "fs/control.h"
#include "fs/mount.h"
#include "fs/process.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/path.h"

enum {
    STOPPING_WAIT_MS = 5000, /* for a holder that is on its way out */
    RUNNING_WAIT_MS = 200,
    STOPPING_POLL_MS = 20,
    LOCK_BYTES = PATH_MAX + 64,
};

int prepare_machine(void)
{
    if (geteuid() != 0) {
        command_error("mount needs root (CAP_SYS_ADMIN to mount, CAP_IPC_LOCK "
                      "to pin memory): use sudo, or run the container with "
                      "both capabilities");
        return EXIT_FAILED;
    }
    if (access("/dev/fuse", R_OK | W_OK) != 0) {
        command_error("/dev/fuse: %s; load the fuse module (modprobe fuse), or "
                      "give the container the device (--device /dev/fuse)",
                      strerror(errno));
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

/* ---- paths ---- */

static bool is_ours(const char *folder, void *info)
{
    return mountinfo_find_path(info, folder) != NULL;
}

static void say_taken(const char *what, const char *path,
                      const struct mountinfo_entry *entry)
{
    int pid =
        (int)command_query(entry->major, entry->minor, "daemon.supervisor_pid");

    if (strcmp(entry->mountpoint, path) == 0)
        command_error("%s %s is already a coordlfs mount, served by process "
                      "%d; `coordlfs umount %s` ends it",
                      what, path, pid, path);
    else
        command_error("%s %s lies inside the coordlfs mount at %s, served by "
                      "process %d; mount a directory outside it",
                      what, path, entry->mountpoint, pid);
}

/* Finds the real path as far as it can be told without looking into a mount of
 * ours. A dead one at that path or around it is removed, and *again set; a
 * living one is refused. */
static int resolve_outside(const char *what, const char *path, char *real,
                           bool *again)
{
    struct mountinfo info;
    if (mountinfo_init(&info, MOUNTINFO_PATH) != 0)
        return EXIT_FAILED;

    int code = EXIT_FAILED;
    const struct mountinfo_entry *entry = NULL;
    int err = path_real(path, is_ours, &info, real, PATH_MAX);
    if (err != 0) {
        command_error("%s %s: %s", what, path, strerror(-err));
        goto end;
    }
    entry = mountinfo_find_path(&info, real);
    err = entry ? mount_heal(entry->mountpoint) : 0;
    if (err == -EBUSY) {
        say_taken(what, real, entry);
        code = strcmp(entry->mountpoint, real) == 0 ? EXIT_BUSY : EXIT_FAILED;
    } else if (err != 0) {
        command_error("%s %s lies in a dead mount that cannot be removed: %s",
                      what, path, strerror(-err));
    } else {
        *again = entry != NULL;
        code = EXIT_DONE;
    }
end:
    mountinfo_fini(&info);
    return code;
}

static int resolve_folder(const char *what, const char *path, char *real)
{
    bool again = true;
    struct stat st;

    while (again) {
        int code = resolve_outside(what, path, real, &again);
        if (code != EXIT_DONE)
            return code;
    }
    if (stat(real, &st) != 0) {
        command_error("%s %s: %s; it must be a directory that exists", what,
                      path, strerror(errno));
        return EXIT_FAILED;
    }
    if (!S_ISDIR(st.st_mode)) {
        command_error("%s %s is not a directory; name the one that holds the "
                      "files",
                      what, path);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

static int refuse_inside(const struct config *config, const char *what,
                         const char *path)
{
    char real[PATH_MAX];
    const char *folders[] = {config->dataset, config->mountpoint};
    const char *names[] = {"dataset", "mount point"};

    if (*path == '\0')
        return EXIT_DONE;
    int err = path_real(path, NULL, NULL, real, sizeof(real));
    if (err != 0) {
        command_error("the %s %s: %s", what, path, strerror(-err));
        return EXIT_FAILED;
    }
    for (int i = 0; i < 2; i++) {
        if (!path_is_inside(real, folders[i]))
            continue;
        command_error("the %s %s lies inside the %s %s, where the daemon would "
                      "wait for itself; choose a place outside",
                      what, path, names[i], folders[i]);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

int prepare_check_places(const struct config *config)
{
    if (strcmp(config->dataset, config->mountpoint) != 0 &&
        path_is_inside(config->mountpoint, config->dataset)) {
        command_error("the mount point %s lies inside the dataset %s; choose "
                      "one outside, or mount in place without MOUNTPOINT",
                      config->mountpoint, config->dataset);
        return EXIT_FAILED;
    }
    int code = refuse_inside(config, "cache directory", config->cache_dir);
    if (code == EXIT_DONE)
        code = refuse_inside(config, "log file", config->log_file);
    if (code == EXIT_DONE)
        code = refuse_inside(config, "configuration file", config->config_file);
    if (code == EXIT_DONE)
        code = refuse_inside(config, "control socket", CONTROL_FOLDER);
    return code;
}

int prepare_paths(struct config *config,
                  const struct config_positional *positional)
{
    const char *second = positional->values[positional->count > 1 ? 1 : 0];
    int code =
        resolve_folder("DATASET", positional->values[0], config->dataset);

    if (code == EXIT_DONE)
        code = resolve_folder("MOUNTPOINT", second, config->mountpoint);
    return code == EXIT_DONE ? prepare_check_places(config) : code;
}

/* ---- descriptors ---- */

/* As process_place_descriptor, for the result of an open. */
static int place(int fd, enum process_fd number)
{
    return process_place_descriptor(fd < 0 ? -errno : fd, number);
}

/* Makes a folder and those above it. */
static int make_folder(const char *path)
{
    char part[PATH_MAX];

    snprintf(part, sizeof(part), "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0755) != 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return mkdir(part, 0700) != 0 && errno != EEXIST ? -errno : 0;
}

static int open_cache(const struct config *config)
{
    AUTO_FREE char *path = NULL;
    char name[CONFIG_ID_BYTES];

    if (config->cache_id[0] != '\0')
        snprintf(name, sizeof(name), "%s", config->cache_id);
    else
        snprintf(name, sizeof(name), "%016llx",
                 (unsigned long long)hash_path(config->dataset,
                                               strlen(config->dataset)));
    if (asprintf(&path, "%s/%s", config->cache_dir, name) < 0)
        return EXIT_FAILED;
    int err = make_folder(path);
    if (err == 0)
        err = place(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                    PROCESS_FD_CACHE);
    if (err == 0)
        err = place(openat(PROCESS_FD_CACHE, "lock",
                           O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600),
                    PROCESS_FD_LOCK);
    if (err == 0)
        return EXIT_DONE;
    command_error("cannot use the cache directory %s: %s; name a writable "
                  "place on a local disk with --cache-dir",
                  path, strerror(-err));
    return EXIT_FAILED;
}

void prepare_sign_lock(const struct config *config, const char *state)
{
    char text[LOCK_BYTES];
    int n = snprintf(text, sizeof(text), "%s process %d, mounted at %s", state,
                     (int)getpid(), config->mountpoint);

    if (pwrite(PROCESS_FD_LOCK, text, (size_t)n, 0) != n ||
        ftruncate(PROCESS_FD_LOCK, n) != 0)
        log_debug("the lock file was not written: %s", strerror(errno));
}

/* How long to wait for a holder that is in that state. One that says "running"
 * may have been unmounted a moment ago; an unsigned lock was just taken. */
static uint64_t patience_ms(const char *holder)
{
    return strncmp(holder, "running", 7) == 0 ? RUNNING_WAIT_MS
                                              : STOPPING_WAIT_MS;
}

static int take_lock(const struct config *config)
{
    uint64_t began = clock_now_ms();
    char holder[LOCK_BYTES];

    while (flock(PROCESS_FD_LOCK, LOCK_EX | LOCK_NB) != 0) {
        ssize_t n = pread(PROCESS_FD_LOCK, holder, sizeof(holder) - 1, 0);
        holder[n > 0 ? n : 0] = '\0';
        bool starting = strncmp(holder, "starting", 8) == 0;
        if (!starting && clock_now_ms() - began < patience_ms(holder)) {
            clock_sleep_ns(STOPPING_POLL_MS * 1000000ull);
            continue;
        }
        const char *by = strchr(holder, ' ');
        command_error("the cache of %s in %s is in use by %s; unmount that, or "
                      "give another --cache-dir or --cache-id",
                      config->dataset, config->cache_dir,
                      by ? by + 1 : "another mount");
        return EXIT_BUSY;
    }
    prepare_sign_lock(config, "starting");
    return EXIT_DONE;
}

static int check_format(const struct config *config)
{
    char text[32] = "";
    AUTO_CLOSE int fd = openat(PROCESS_FD_CACHE, "format",
                               O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        command_error("cannot write to the cache directory %s: %s",
                      config->cache_dir, strerror(errno));
        return EXIT_FAILED;
    }
    ssize_t n = read(fd, text, sizeof(text) - 1);
    long format = n > 0 ? strtol(text, NULL, 10) : 0;
    if (format > INDEX_FORMAT) {
        command_error("the cache of %s in %s has index format %ld, newer than "
                      "this program's %d; use a newer coordlfs, or another "
                      "--cache-dir",
                      config->dataset, config->cache_dir, format, INDEX_FORMAT);
        return EXIT_FAILED;
    }
    int length = snprintf(text, sizeof(text), "%d\n", INDEX_FORMAT);
    if (format < INDEX_FORMAT &&
        pwrite(fd, text, (size_t)length, 0) != length) {
        command_error("cannot write to the cache directory %s: %s",
                      config->cache_dir, strerror(errno));
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

static int open_log(const struct config *config)
{
    int fd = -1;

    if (config->log_file[0] != '\0') {
        fd = open(config->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                  0640);
        if (fd < 0) {
            command_error("cannot write the log file %s: %s; name another "
                          "place with --log-file",
                          config->log_file, strerror(errno));
            return EXIT_FAILED;
        }
    } else if (config->foreground) {
        fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, PROCESS_FD_END);
    }
    if (fd < 0 && access("/dev/log", F_OK) != 0)
        command_error("note: there is no syslog here, so nothing is logged; "
                      "--log-file FILE keeps the log");
    return fd < 0 || place(fd, PROCESS_FD_LOG) == 0 ? EXIT_DONE : EXIT_FAILED;
}

int prepare_descriptors(const struct config *config)
{
    int err = process_reserve_descriptors();
    if (err != 0) {
        command_error("cannot open /dev/null: %s", strerror(-err));
        return EXIT_FAILED;
    }
    int fd = open(config->dataset, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        command_error("cannot read the dataset %s: %s", config->dataset,
                      strerror(errno));
        return EXIT_FAILED;
    }
    close(fd);
    err = place(open(config->dataset, O_PATH | O_DIRECTORY | O_CLOEXEC),
                PROCESS_FD_DATASET);
    if (err != 0) {
        command_error("%s: %s", config->dataset, strerror(-err));
        return EXIT_FAILED;
    }
    int code = open_cache(config);
    if (code == EXIT_DONE)
        code = take_lock(config);
    if (code == EXIT_DONE)
        code = check_format(config);
    if (code == EXIT_DONE)
        code = open_log(config);
    return code;
}
