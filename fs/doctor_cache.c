/* SPDX-License-Identifier: Apache-2.0 */
/* The cache directory, or the folder that it would be made in. What cannot be
 * known otherwise is tried with a file that has no name. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fs/doctor.h"
#include "util/mountinfo.h"
#include "util/path.h"

enum { PROBE_BYTES = 1 << 20, BLOCK = 4096, LEAST_BYTES = 1 << 20 };

/* The longest part of path that is there. */
static void find_existing(const char *path, char *existing)
{
    struct stat st;

    snprintf(existing, PATH_MAX, "%s", path);
    while (stat(existing, &st) != 0 || !S_ISDIR(st.st_mode)) {
        char *slash = strrchr(existing, '/');
        if (!slash || slash == existing) {
            snprintf(existing, PATH_MAX, "/");
            return;
        }
        *slash = '\0';
    }
}

/* The mount that path lies in, the last one that was made of several. */
static const struct mountinfo_entry *find_mount(const struct mountinfo *info,
                                                const char *path)
{
    const struct mountinfo_entry *found = NULL;

    for (size_t i = 0; i < info->count; i++)
        if (path_is_inside(path, info->entries[i].mountpoint) &&
            (!found ||
             strlen(info->entries[i].mountpoint) >= strlen(found->mountpoint)))
            found = &info->entries[i];
    return found;
}

static bool is_remote(const char *fstype)
{
    static const char *const remote[] = {"nfs",    "nfs4",   "cifs",
                                         "smb3",   "ceph",   "9p",
                                         "lustre", "beegfs", "gluster"};

    if (strncmp(fstype, "fuse", 4) == 0)
        return true;
    for (size_t i = 0; i < sizeof(remote) / sizeof(remote[0]); i++)
        if (strcmp(fstype, remote[i]) == 0)
            return true;
    return false;
}

static void check_kind(struct doctor *doctor, const char *folder)
{
    struct mountinfo info;

    if (mountinfo_init(&info, MOUNTINFO_PATH) != 0)
        return;
    const struct mountinfo_entry *mount = find_mount(&info, folder);
    if (mount && is_remote(mount->fstype))
        doctor_problem(doctor,
                       "the cache directory is on a network file system (%s); "
                       "name a place on a local disk with --cache-dir",
                       mount->fstype);
    else if (mount && strcmp(mount->fstype, "tmpfs") == 0)
        doctor_note(doctor, "the cache directory is on a tmpfs: it takes "
                            "memory, and is gone after a reboot");
    else if (mount && strcmp(mount->fstype, "overlay") == 0)
        doctor_note(doctor, "the cache directory is on an overlay, as in a "
                            "container, and is gone with it; a volume stays");
    else if (mount)
        doctor_ok(doctor, "it is on %s, %s", mount->source, mount->fstype);
    mountinfo_fini(&info);
}

/* A file in folder that goes when it is closed, or -errno. */
static int open_probe(const char *folder, int flags)
{
    AUTO_FREE char *path = NULL;
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);

    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd < 0 ? -errno : fd;
    if (asprintf(&path, "%s/.coordlfs-doctor.%d", folder, (int)getpid()) < 0) {
        path = NULL;
        return -ENOMEM;
    }
    fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd < 0)
        return -errno;
    unlink(path);
    return fd;
}

static void check_direct(struct doctor *doctor, const char *folder)
{
    AUTO_CLOSE int fd = open_probe(folder, O_DIRECT);
    AUTO_FREE char *block = aligned_alloc(BLOCK, BLOCK);
    int err = fd < 0 ? -fd : 0;

    if (!block)
        return;
    memset(block, 0, BLOCK);
    if (err == 0 && pwrite(fd, block, BLOCK, 0) != BLOCK)
        err = errno;
    if (err != 0)
        doctor_note(doctor,
                    "O_DIRECT does not work there (%s): the NVMe tier then "
                    "goes through the page cache, which is slower",
                    strerror(err));
    else
        doctor_ok(doctor, "O_DIRECT works there");
}

/* False: nothing can be written there. */
static bool check_write(struct doctor *doctor, const char *folder)
{
    AUTO_CLOSE int fd = open_probe(folder, 0);

    if (fd < 0) {
        doctor_problem(doctor,
                       "nothing can be written in %s: %s; name a writable "
                       "place on a local disk with --cache-dir",
                       folder, strerror(-fd));
        return false;
    }
    if (fallocate(fd, 0, 0, PROBE_BYTES) != 0)
        doctor_note(doctor,
                    "room cannot be reserved there (fallocate: %s): the cache "
                    "finds a full disk only when it writes",
                    strerror(errno));
    else
        doctor_ok(doctor, "room can be reserved there (fallocate)");
    return true;
}

static void check_room(struct doctor *doctor, const char *folder)
{
    const struct config *config = doctor->config;
    struct statvfs disk;
    char free_text[SIZE_TEXT_BYTES], total[SIZE_TEXT_BYTES];

    if (statvfs(folder, &disk) != 0)
        return;
    uint64_t room = disk.f_bavail * disk.f_frsize;
    uint64_t all = disk.f_blocks * disk.f_frsize;
    uint64_t keep = all / 100 * (unsigned)config->free_space;
    size_format(room, free_text, sizeof(free_text));
    size_format(all, total, sizeof(total));
    if (config->nvme.kind == SIZE_BYTES && all > 0 && config->nvme.value > all)
        doctor_problem(doctor,
                       "--nvme is more than the whole disk of %s; give less, a "
                       "percentage, or auto",
                       total);
    else if (room < keep + LEAST_BYTES)
        doctor_note(doctor,
                    "%s of %s are free there, which is no more than "
                    "--free-space %d%%: there is no room for an NVMe tier",
                    free_text, total, config->free_space);
    else
        doctor_ok(doctor, "%s of %s are free there", free_text, total);
    if (disk.f_files > 0 && disk.f_favail < 1000)
        doctor_note(doctor, "only %llu more files can be made there",
                    (unsigned long long)disk.f_favail);
}

static void check_dataset_disk(struct doctor *doctor, const char *folder)
{
    struct stat cache, source;
    struct mountinfo info;

    if (!doctor->dataset || doctor->config->nvme.kind != SIZE_AUTO ||
        mountinfo_init(&info, MOUNTINFO_PATH) != 0)
        return;
    /* A mount of ours may be dead, and is not the dataset's disk anyway. */
    bool mounted = mountinfo_find_path(&info, doctor->dataset) != NULL;
    mountinfo_fini(&info);
    if (mounted || stat(folder, &cache) != 0 ||
        stat(doctor->dataset, &source) != 0)
        return;
    if (cache.st_dev == source.st_dev)
        doctor_note(doctor,
                    "the cache directory is on the dataset's own disk: with "
                    "--nvme auto there is no NVMe tier; --nvme SIZE makes one, "
                    "--cache-dir names another disk");
    else
        doctor_ok(doctor, "it is on another disk than the dataset");
}

void doctor_check_cache(struct doctor *doctor)
{
    const char *wanted = doctor->config->cache_dir;
    char folder[PATH_MAX];

    find_existing(wanted, folder);
    if (strcmp(folder, wanted) == 0)
        doctor_ok(doctor, "cache directory: %s", wanted);
    else
        doctor_ok(doctor, "cache directory: %s, which mount would make",
                  wanted);
    if (doctor->dataset && path_is_inside(wanted, doctor->dataset))
        doctor_problem(doctor,
                       "the cache directory %s lies inside the dataset, where "
                       "the daemon would wait for itself; name a place outside "
                       "with --cache-dir",
                       wanted);
    check_kind(doctor, folder);
    if (!check_write(doctor, folder))
        return;
    check_direct(doctor, folder);
    check_room(doctor, folder);
    check_dataset_disk(doctor, folder);
}
