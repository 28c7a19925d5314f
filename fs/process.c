/* SPDX-License-Identifier: Apache-2.0 */
/* Common start of worker and pinner. */
#include "fs/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "util/log.h"

int process_place_descriptor(int fd, enum process_fd number)
{
    if (fd < 0 || fd == (int)number)
        return fd < 0 ? fd : 0;
    int err = dup3(fd, number, O_CLOEXEC) < 0 ? -errno : 0;
    close(fd);
    return err;
}

int process_release_descriptor(enum process_fd number)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    return process_place_descriptor(fd < 0 ? -errno : fd, number);
}

int process_reserve_descriptors(void)
{
    int err = 0;

    for (int i = PROCESS_FD_FUSE; err == 0 && i < PROCESS_FD_END; i++)
        err = process_release_descriptor((enum process_fd)i);
    return err;
}

bool process_logs_to_descriptor(const struct config *config)
{
    return config->foreground || config->log_file[0] != '\0';
}

void process_open_log(const struct config *config, const char *role)
{
    log_set_level(config->log_level);
    if (process_logs_to_descriptor(config))
        log_to_fd(PROCESS_FD_LOG, role);
    else
        log_to_syslog(role);
}

void process_raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

void process_keep_capabilities(uint64_t mask)
{
    struct __user_cap_header_struct header = {.version =
                                                  _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_capget, &header, data) != 0)
        return;
    for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        uint32_t kept = (uint32_t)(mask >> (32 * i));
        data[i].effective &= kept;
        data[i].permitted &= kept;
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &header, data) != 0)
        log_warn("capabilities stay as they are: %s", strerror(errno));
}

struct shared *process_begin(const char *role)
{
    struct shared *shared;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, role);
    /* Ends on the supervisor's word; the terminal's is not ours. */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    process_raise_limits();
    int err = shared_attach(PROCESS_FD_SHARED, &shared);
    if (err != 0) {
        fprintf(stderr, "coordlfs: %s: shared area: %s\n", role,
                strerror(-err));
        _exit(1);
    }
    /* The supervisor may have died before the request above took effect. */
    if (getppid() != shared->supervisor_pid)
        _exit(0);
    process_open_log(&shared->config, role);
    return shared;
}
