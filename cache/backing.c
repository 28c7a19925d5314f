/* SPDX-License-Identifier: Apache-2.0 */
/* The source reader. O_DIRECT is tried first; a file system that refuses it is
 * read through the page cache and the pages are dropped behind the read.
 *
 * The bandwidth limit is a virtual clock: each read takes the next free span
 * of time and sleeps until its own begins. Unused time is not saved up beyond
 * a small burst, so that the limit holds over every interval that matters to
 * shared storage. */
#include "cache/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "util/clock.h"
#include "util/log.h"
#include "util/path.h"

enum {
    PAGE = 4096,             /* O_DIRECT alignment that every device takes */
    BURST_NS = 20 * 1000000, /* 20 ms of the rate */
    LINK_BYTES = 64 * 1024,  /* longer than any file system allows */
    NS_PER_S = 1000000000,
};

struct backing {
    int root_fd;
    uint64_t bytes_per_second;
    struct metrics *metrics;
    dev_t device;           /* of the root; others may be mounted below it */
    _Atomic bool no_direct; /* that device refused O_DIRECT */

    pthread_mutex_t lock;
    /* guarded by lock: */
    uint64_t free_ns; /* when the next read may begin */
};

struct backing *backing_create(int root_fd, uint64_t bytes_per_second,
                               struct metrics *metrics)
{
    struct backing *backing = calloc(1, sizeof(*backing));
    struct stat st;

    if (!backing)
        return NULL;
    backing->root_fd = root_fd;
    if (fstat(root_fd, &st) == 0)
        backing->device = st.st_dev;
    backing->bytes_per_second = bytes_per_second;
    backing->metrics = metrics;
    pthread_mutex_init(&backing->lock, NULL);
    return backing;
}

void backing_destroy(struct backing *backing)
{
    pthread_mutex_destroy(&backing->lock);
    free(backing);
}

/* Counts and logs an error that is the source's fault; returns it. */
static int source_error(struct backing *backing, const char *what,
                        const char *path, int err)
{
    static struct log_limit limit;

    if (err == -ENOENT || err == -ENOTDIR)
        return err;
    atomic_fetch_add(&backing->metrics->source_errors, 1);
    if (log_limit_pass(&limit))
        log_warn("source: %s %s: %s", what, path, strerror(-err));
    return err;
}

int backing_stat(struct backing *backing, const char *path, struct stat *st)
{
    AUTO_CLOSE int fd =
        path_open_beneath(backing->root_fd, path, O_PATH | O_NOFOLLOW);

    if (fd < 0)
        return source_error(backing, "stat", path, fd);
    if (fstat(fd, st) != 0)
        return source_error(backing, "stat", path, -errno);
    return 0;
}

/* From now on files of the root's device are opened without. What is mounted
 * inside the dataset is asked each time: it says nothing of the others. */
static void forget_direct(struct backing *backing,
                          const struct backing_file *file)
{
    if (file->stat.st_dev == backing->device &&
        !atomic_exchange(&backing->no_direct, true))
        log_info("source: no O_DIRECT here, dropping pages behind the read");
}

int backing_open(struct backing *backing, const char *path,
                 struct backing_file *file)
{
    /* O_NONBLOCK: a FIFO in the place of the file must not block us. */
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
    bool direct = !atomic_load(&backing->no_direct);
    int fd = path_open_beneath(backing->root_fd, path,
                               flags | (direct ? O_DIRECT : 0));

    bool refused = fd == -EINVAL && direct;
    if (refused) {
        direct = false;
        fd = path_open_beneath(backing->root_fd, path, flags);
    }
    if (fd < 0)
        return source_error(backing, "open", path, fd);
    if (fstat(fd, &file->stat) != 0) {
        int err = -errno;
        close(fd);
        return source_error(backing, "stat", path, err);
    }
    if (!S_ISREG(file->stat.st_mode)) {
        close(fd);
        return -EINVAL;
    }
    if (refused)
        forget_direct(backing, file);
    file->fd = fd;
    file->direct = direct;
    return 0;
}

void backing_close(struct backing_file *file)
{
    close(file->fd);
    file->fd = -1;
}

static void wait_for_turn(struct backing *backing, size_t bytes)
{
    if (backing->bytes_per_second == 0)
        return;

    uint64_t span = (uint64_t)((double)bytes * NS_PER_S /
                               (double)backing->bytes_per_second);
    uint64_t now = clock_now_ns();
    pthread_mutex_lock(&backing->lock);
    uint64_t begin = backing->free_ns;
    if (begin + BURST_NS < now)
        begin = now - BURST_NS;
    backing->free_ns = begin + span;
    pthread_mutex_unlock(&backing->lock);
    if (begin + span > now)
        clock_sleep_ns(begin + span - now);
}

/* Leaves O_DIRECT for this file, where the file system accepts the flag and
 * then refuses the read. */
static bool leave_direct(struct backing *backing, struct backing_file *file)
{
    if (!file->direct)
        return false;
    int flags = fcntl(file->fd, F_GETFL);
    if (flags < 0 || fcntl(file->fd, F_SETFL, flags & ~O_DIRECT) != 0)
        return false;
    file->direct = false;
    forget_direct(backing, file);
    return true;
}

int backing_read(struct backing *backing, struct backing_file *file,
                 char *buffer, size_t length, uint64_t offset, size_t *start,
                 size_t *done)
{
    uint64_t first = offset & ~(uint64_t)(PAGE - 1);
    size_t lead = (size_t)(offset - first);
    size_t want = (lead + length + PAGE - 1) & ~(size_t)(PAGE - 1);
    size_t got = 0;

    wait_for_turn(backing, length);
    while (got < want) {
        ssize_t n =
            pread(file->fd, buffer + got, want - got, (off_t)(first + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && leave_direct(backing, file))
            continue;
        if (n < 0)
            return source_error(backing, "read", "", -errno);
        got += (size_t)n;
        /* A direct read ends inside a page only at the end of the file, and
         * cannot be continued from there. */
        if (n == 0 || (file->direct && got % PAGE != 0))
            break;
    }
    if (!file->direct)
        posix_fadvise(file->fd, (off_t)first, (off_t)want, POSIX_FADV_DONTNEED);

    size_t usable = got > lead ? got - lead : 0;
    *start = lead;
    *done = usable < length ? usable : length;
    atomic_fetch_add(&backing->metrics->source_read_bytes, *done);
    return 0;
}

int backing_readlink(struct backing *backing, const char *path, char **target)
{
    AUTO_CLOSE int fd =
        path_open_beneath(backing->root_fd, path, O_PATH | O_NOFOLLOW);
    if (fd < 0)
        return source_error(backing, "open", path, fd);

    AUTO_FREE char *link = malloc(LINK_BYTES);
    if (!link)
        return -ENOMEM;
    ssize_t n = readlinkat(fd, "", link, LINK_BYTES - 1);
    if (n < 0)
        return source_error(backing, "readlink", path, -errno);
    *target = strndup(link, (size_t)n);
    return *target ? 0 : -ENOMEM;
}

int backing_statvfs(struct backing *backing, struct statvfs *st)
{
    return fstatvfs(backing->root_fd, st) != 0 ? -errno : 0;
}

int backing_list(struct backing *backing, const char *path, struct stat *st,
                 backing_name_cb visit, void *data)
{
    int fd = path_open_beneath(backing->root_fd, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return source_error(backing, "open", path, fd);

    int err = fstat(fd, st) != 0 ? -errno : 0;
    DIR *directory = err == 0 ? fdopendir(fd) : NULL;
    if (!directory) {
        err = err ? err : -errno;
        close(fd);
        return source_error(backing, "list", path, err);
    }
    while (err == 0) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (!entry) {
            if (errno != 0)
                err = source_error(backing, "list", path, -errno);
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        err = visit(entry->d_name, entry->d_type, data);
    }
    closedir(directory);
    return err;
}
