/* SPDX-License-Identifier: Apache-2.0 */
/* After the fork the child does nothing but system calls: another thread of the
 * worker may have held any lock. */
#include "fs/notify.h"

#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/process.h"
#include "util/clock.h"

enum { BATCH_BYTES = 256 << 10 };

/* It keeps nothing open but what it writes to: it may have to wait longer than
 * its parent lives. */
static void __attribute__((noreturn))
write_all(const struct notify *notify, pid_t parent)
{
    struct fuse_out_header header;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    close_range(0, PROCESS_FD_FUSE - 1, 0);
    close_range(PROCESS_FD_FUSE + 1, ~0u, 0);
    for (size_t at = 0; at < notify->used; at += header.len) {
        memcpy(&header, notify->bytes + at, sizeof(header));
        /* Refused for a name that the kernel does not have: as well. */
        ssize_t n = write(PROCESS_FD_FUSE, notify->bytes + at, header.len);
        (void)n;
    }
    _exit(0);
}

/* Waits for the child as long as it may take. One that takes longer is reaped
 * at a later turn. */
static int wait_child(pid_t pid)
{
    AUTO_CLOSE int fd = pidfd_open(pid, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    uint64_t until = clock_now_ms() + NOTIFY_MS;
    int n = 0;

    if (fd < 0)
        return errno == ESRCH ? 0 : -errno; /* reaped by another thread */
    for (uint64_t now = clock_now_ms(); n <= 0 && now < until;
         now = clock_now_ms())
        n = poll(&ended, 1, (int)(until - now));
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return n > 0 ? 0 : -ETIMEDOUT;
}

int notify_flush(struct notify *notify)
{
    if (notify->used == 0)
        return 0;
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        write_all(notify, parent);
    notify->used = 0;
    return wait_child(pid);
}

/* Adds a message: its code, what it says, and a name and its end or nothing. */
static int add(struct notify *notify, int code, const void *what,
               size_t what_bytes, const char *name, size_t name_bytes)
{
    struct fuse_out_header header = {
        .len = (uint32_t)(sizeof(header) + what_bytes + name_bytes),
        .error = code,
    };

    if (notify->used + header.len > notify->room) {
        size_t room = notify->room ? notify->room * 2 : 4096;
        char *bytes = realloc(notify->bytes, room);
        if (!bytes)
            return -ENOMEM;
        notify->bytes = bytes;
        notify->room = room;
    }
    char *at = notify->bytes + notify->used;
    memcpy(at, &header, sizeof(header));
    memcpy(at + sizeof(header), what, what_bytes);
    memcpy(at + sizeof(header) + what_bytes, name, name_bytes);
    notify->used += header.len;
    return notify->used < BATCH_BYTES ? 0 : notify_flush(notify);
}

int notify_name(struct notify *notify, uint64_t directory, const char *name)
{
    size_t length = strlen(name);
    struct fuse_notify_inval_entry_out entry = {.parent = directory,
                                                .namelen = (uint32_t)length};

    return add(notify, FUSE_NOTIFY_INVAL_ENTRY, &entry, sizeof(entry), name,
               length + 1);
}

int notify_data(struct notify *notify, uint64_t id)
{
    struct fuse_notify_inval_inode_out inode = {.ino = id};

    return add(notify, FUSE_NOTIFY_INVAL_INODE, &inode, sizeof(inode), "", 0);
}

void notify_fini(struct notify *notify)
{
    free(notify->bytes);
}
