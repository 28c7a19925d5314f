/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs mount`: checks, becomes a daemon unless told otherwise, and returns
 * when the mount answers. The daemon keeps no descriptor of its caller, who may
 * be waiting for the end of a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "fs/budget.h"
#include "fs/command.h"
#include "fs/control.h"
#include "fs/mount.h"
#include "fs/prepare.h"
#include "fs/process.h"
#include "fs/supervisor.h"
#include "util/hash.h"
#include "util/path.h"

enum { REPORT_BYTES = 2 * PATH_MAX + 1024 };

/* Where the daemon tells its parent how the start went. */
struct report {
    int fd;         /* of the pipe; -1 in the foreground */
    int place_lock; /* held while mounting, so that two do not stack */
};

static void report(int exit_code, const char *message, void *data)
{
    struct report *to = data;

    if (to->fd < 0) {
        if (exit_code != 0)
            command_error("%s", message);
    } else {
        char text[REPORT_BYTES];
        int n = snprintf(text, sizeof(text), "%c%s", exit_code, message);
        if (write(to->fd, text, (size_t)n) != n)
            log_debug("the mount command has gone");
        close(to->fd);
    }
    if (to->place_lock >= 0)
        close(to->place_lock);
    to->place_lock = -1;
}

/* In the parent: relays the daemon's report. */
static int relay(int fd)
{
    char text[REPORT_BYTES];
    size_t used = 0;
    ssize_t n;

    while (used < sizeof(text) - 1) {
        n = read(fd, text + used, sizeof(text) - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    text[used] = '\0';
    if (used == 0) {
        command_error("the daemon ended while it started; see the log (syslog, "
                      "or --log-file)");
        return EXIT_FAILED;
    }
    if (text[0] != 0)
        command_error("%s", text + 1);
    return text[0];
}

/* One mount command at a time for a mount point; released by the report. */
static int lock_place(const struct config *config, int *lock)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%016llx.lock", CONTROL_FOLDER,
             (unsigned long long)hash_path(config->mountpoint,
                                           strlen(config->mountpoint)));
    if (mkdir(CONTROL_FOLDER, 0755) != 0 && errno != EEXIST) {
        command_error(
            "cannot make %s, where the control sockets are: %s; mount "
            "a tmpfs at /run",
            CONTROL_FOLDER, strerror(errno));
        return EXIT_FAILED;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) {
        command_error("%s: %s", path, strerror(errno));
        return EXIT_FAILED;
    }
    *lock = fd;
    if (mount_heal(config->mountpoint) != 0) {
        command_error("%s has just been mounted by another command",
                      config->mountpoint);
        return EXIT_BUSY;
    }
    return EXIT_DONE;
}

static int run(const struct config *config, const struct budget *budget,
               struct report *to)
{
    process_open_log(config, "supervisor");
    prepare_sign_lock(config, "running");
    int code = supervisor_run(config, budget, report, to);
    log_info("ended");
    return code;
}

static int daemonize(const struct config *config, const struct budget *budget,
                     int place_lock)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        command_error("pipe: %s", strerror(errno));
        return EXIT_FAILED;
    }
    pid_t pid = fork();
    if (pid < 0) {
        command_error("fork: %s", strerror(errno));
        return EXIT_FAILED;
    }
    if (pid > 0) {
        close(pipe_fds[1]);
        return relay(pipe_fds[0]);
    }
    struct report to = {.fd = pipe_fds[1], .place_lock = place_lock};
    close(pipe_fds[0]);
    setsid();
    if (chdir("/") != 0)
        _exit(EXIT_FAILED);
    umask(022);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (dup2(null, fd) < 0)
            _exit(EXIT_FAILED);
    close(null);
    _exit(run(config, budget, &to));
}

static int mount_dataset(struct config *config,
                         const struct config_positional *positional)
{
    struct budget budget;
    int place_lock = -1;
    int code = prepare_machine();

    if (code == EXIT_DONE)
        code = prepare_paths(config, positional);
    if (code != EXIT_DONE)
        return code;
    /* What the caller left open would live as long as the daemon. */
    close_range(STDERR_FILENO + 1, ~0u, 0);
    code = prepare_descriptors(config);
    if (code == EXIT_DONE)
        code = budget_resolve(config, &budget);
    if (code == EXIT_DONE)
        code = lock_place(config, &place_lock);
    if (code != EXIT_DONE)
        return code;
    if (!config->foreground)
        return daemonize(config, &budget, place_lock);
    return run(config, &budget,
               &(struct report){.fd = -1, .place_lock = place_lock});
}

/* Looks at a folder without entering a mount of ours, which may be dead. */
static int check_folder(const char *what, const char *path, char *real)
{
    char absolute[PATH_MAX];
    struct mountinfo info;
    struct stat st;
    int err = path_absolute(path, NULL, absolute, sizeof(absolute));

    if (err == 0)
        err = mountinfo_init(&info, MOUNTINFO_PATH);
    if (err != 0) {
        command_error("%s %s: %s", what, path, strerror(-err));
        return EXIT_FAILED;
    }
    bool ours = mountinfo_find_path(&info, absolute) != NULL;
    mountinfo_fini(&info);
    if (ours) {
        printf("%-17s %s, in a coordlfs mount\n", what, absolute);
        memcpy(real, absolute, strlen(absolute) + 1);
        return EXIT_DONE;
    }
    if (!realpath(absolute, real) || stat(real, &st) != 0 ||
        !S_ISDIR(st.st_mode)) {
        command_error("%s %s: it must be a directory that exists", what, path);
        return EXIT_FAILED;
    }
    printf("%-17s %s\n", what, real);
    return EXIT_DONE;
}

/* --check-config: changes nothing. */
static int check_config(struct config *config,
                        const struct config_positional *positional)
{
    config_print(stdout, config, positional);
    if (positional->count == 0)
        return EXIT_DONE;
    int code = check_folder("DATASET", positional->values[0], config->dataset);
    memcpy(config->mountpoint, config->dataset, sizeof(config->mountpoint));
    if (code == EXIT_DONE && positional->count > 1)
        code = check_folder("MOUNTPOINT", positional->values[1],
                            config->mountpoint);
    return code == EXIT_DONE ? prepare_check_places(config) : code;
}

int cmd_mount(int argc, char **argv)
{
    static struct config config;
    struct config_positional positional;
    char error[CONFIG_ERROR_BYTES];
    int err =
        config_load(&config, argc, argv, &positional, error, sizeof(error));

    if (err != 0) {
        command_error("%s", error);
        return EXIT_USAGE;
    }
    if (config.check_config)
        return check_config(&config, &positional);
    if (positional.count == 0) {
        command_error("mount needs the DATASET's directory; see coordlfs help "
                      "mount");
        return EXIT_USAGE;
    }
    return mount_dataset(&config, &positional);
}
