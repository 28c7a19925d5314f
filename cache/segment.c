/* SPDX-License-Identifier: Apache-2.0 */
/* O_DIRECT is used if statx says, or a file system that does not tell lets us
 * find out, that SEGMENT_ALIGN is enough. Otherwise pages are dropped behind
 * reads and writes. */
#include "cache/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "util/log.h"

#define FOLDER "segments"
enum { NAME_BYTES = 32 };

static void file_name(uint32_t number, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, FOLDER "/%08x", number);
}

static bool takes_direct(int fd)
{
    struct statx stx;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) != 0 ||
        !(stx.stx_mask & STATX_DIOALIGN))
        return true; /* it does not say: the first read or write will */
    return stx.stx_dio_offset_align != 0 &&
           stx.stx_dio_offset_align <= SEGMENT_ALIGN &&
           stx.stx_dio_mem_align <= SEGMENT_ALIGN;
}

static int open_file(int folder_fd, uint32_t number, int flags,
                     struct segment_file *file)
{
    char name[NAME_BYTES];
    int more = O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags;

    file_name(number, name);
    file->preallocated = false;
    file->direct = true;
    file->fd = openat(folder_fd, name, more | O_DIRECT, 0600);
    if (file->fd < 0 && errno == EINVAL) {
        file->direct = false;
        file->fd = openat(folder_fd, name, more, 0600);
    }
    if (file->fd < 0)
        return -errno;
    if (file->direct && !takes_direct(file->fd)) {
        int now = fcntl(file->fd, F_GETFL);
        if (now >= 0)
            fcntl(file->fd, F_SETFL, now & ~O_DIRECT);
        file->direct = false;
    }
    return 0;
}

/* True when O_DIRECT was refused only now: the caller tries again without. */
static bool leave_direct(struct segment_file *file)
{
    int flags = fcntl(file->fd, F_GETFL);

    if (!file->direct || flags < 0 ||
        fcntl(file->fd, F_SETFL, flags & ~O_DIRECT) != 0)
        return false;
    file->direct = false;
    return true;
}

int segment_create(int folder_fd, uint32_t number, uint64_t bytes,
                   struct segment_file *file)
{
    if (mkdirat(folder_fd, FOLDER, 0700) != 0 && errno != EEXIST)
        return -errno;
    int err = open_file(folder_fd, number, O_CREAT | O_EXCL, file);
    if (err != 0)
        return err;
    if (fallocate(file->fd, 0, 0, (off_t)bytes) == 0)
        file->preallocated = true;
    else if (errno != EOPNOTSUPP && errno != ENOSYS)
        err = -errno;
    /* Without fallocate the file grows as it is written: posix_fallocate would
     * write zeros. */
    if (err == 0 && !file->preallocated &&
        ftruncate(file->fd, (off_t)bytes) != 0)
        err = -errno;
    if (err != 0) {
        segment_close(file);
        segment_remove(folder_fd, number);
    }
    return err;
}

int segment_open(int folder_fd, uint32_t number, struct segment_file *file)
{
    struct stat st;
    int err = open_file(folder_fd, number, 0, file);

    if (err == 0 && fstat(file->fd, &st) == 0)
        file->preallocated =
            (uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size;
    return err;
}

void segment_close(struct segment_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

void segment_remove(int folder_fd, uint32_t number)
{
    char name[NAME_BYTES];

    file_name(number, name);
    if (unlinkat(folder_fd, name, 0) != 0 && errno != ENOENT)
        log_debug("segment %s stays: %s", name, strerror(errno));
}

int segment_read(struct segment_file *file, char *buffer, size_t length,
                 uint64_t offset)
{
    size_t done = 0;

    while (done < length) {
        ssize_t n = pread(file->fd, buffer + done, length - done,
                          (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && leave_direct(file))
            continue;
        if (n < 0)
            return -errno;
        done += (size_t)n;
        if (n == 0 || (done < length && done % SEGMENT_ALIGN != 0))
            return -ENODATA;
    }
    if (!file->direct)
        posix_fadvise(file->fd, (off_t)offset, (off_t)length,
                      POSIX_FADV_DONTNEED);
    return 0;
}

int segment_write(struct segment_file *file, struct iovec *iov, int count,
                  uint64_t offset)
{
    while (count > 0) {
        ssize_t n = pwritev(file->fd, iov, count, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && leave_direct(file))
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EIO;
        offset += (uint64_t)n;
        while (count > 0 && (size_t)n >= iov->iov_len) {
            n -= (ssize_t)iov->iov_len;
            iov++;
            count--;
        }
        if (count > 0) {
            iov->iov_base = (char *)iov->iov_base + n;
            iov->iov_len -= (size_t)n;
        }
    }
    return 0;
}

int segment_sync(struct segment_file *file)
{
    if (fdatasync(file->fd) != 0)
        return -errno;
    if (!file->direct)
        posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
    return 0;
}

static DIR *open_folder(int folder_fd)
{
    int fd = openat(folder_fd, FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    if (!folder && fd >= 0)
        close(fd);
    return folder;
}

void segment_each(int folder_fd, segment_cb visit, void *data)
{
    DIR *folder = open_folder(folder_fd);
    const struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        char *end;
        unsigned long number = strtoul(entry->d_name, &end, 16);
        if (strlen(entry->d_name) == 8 && *end == '\0')
            visit((uint32_t)number, data);
    }
    if (folder)
        closedir(folder);
}

static bool disk_has_room(int folder_fd, uint64_t bytes, uint64_t percent)
{
    struct statvfs disk;

    if (fstatvfs(folder_fd, &disk) != 0)
        return false;
    uint64_t unit = disk.f_frsize;
    bool inodes = disk.f_files == 0 || /* it does not count them */
                  disk.f_favail >= disk.f_files / 100 * percent + 1;
    return inodes &&
           disk.f_bavail * unit >= disk.f_blocks * unit / 100 * percent + bytes;
}

uint64_t segment_fit(int folder_fd, uint64_t bytes, unsigned free_percent)
{
    while (bytes > 0 && !disk_has_room(folder_fd, bytes, free_percent))
        bytes = (bytes / 2) & ~(uint64_t)(SEGMENT_ALIGN - 1);
    return bytes;
}

uint64_t segment_disk_bytes(int folder_fd)
{
    DIR *folder = open_folder(folder_fd);
    const struct dirent *entry;
    uint64_t bytes = 0;

    while (folder && (entry = readdir(folder))) {
        struct stat st;
        if (fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ==
                0 &&
            S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_blocks * 512;
    }
    if (folder)
        closedir(folder);
    return bytes;
}
