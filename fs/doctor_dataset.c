/* SPDX-License-Identifier: Apache-2.0 */
/* A look at the top of a dataset, for a few seconds at most: a whole walk of a
 * large one takes hours. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/doctor.h"
#include "util/clock.h"
#include "util/mountinfo.h"
#include "util/path.h"

enum {
    SAMPLE_MS = 3000,
    LEVELS = 4,
    FOLDERS_MOST = 2000,
    LINKS_MOST = 2000,
    HUGE_ENTRIES = 1000000,
};

struct sample {
    struct doctor *doctor;
    struct mountinfo mounts;
    uint64_t until_ms;
    uint64_t entries, links, links_outside, unreadable;
    char outside[PATH_MAX]; /* the first such link */
    char huge[PATH_MAX];    /* the directory with most entries */
    uint64_t huge_entries;
    bool cut; /* there is more than was looked at */
    /* Folders that are still to be looked at, relative to the dataset. */
    struct {
        char *path;
        int level;
    } folders[FOLDERS_MOST];
    size_t count;
};

static void look_at_link(struct sample *sample, const char *path)
{
    char full[PATH_MAX], real[PATH_MAX];
    const char *top = sample->doctor->dataset;

    if (++sample->links > LINKS_MOST) {
        sample->cut = true;
        return;
    }
    int n = snprintf(full, sizeof(full), "%s/%s", top, path);
    if ((size_t)n >= sizeof(full) || !realpath(full, real) ||
        path_is_inside(real, top))
        return;
    if (sample->links_outside++ == 0)
        snprintf(sample->outside, sizeof(sample->outside), "%s", path);
}

/* Another file system in the dataset is not looked into: it may be dead. */
static bool is_mount(const struct sample *sample, const char *path)
{
    size_t length = strlen(sample->doctor->dataset);

    for (size_t i = 0; i < sample->mounts.count; i++) {
        const char *point = sample->mounts.entries[i].mountpoint;
        if (path_is_inside(point, sample->doctor->dataset) &&
            strcmp(point + length + strspn(point + length, "/"), path) == 0)
            return *path != '\0';
    }
    return false;
}

static void add_folder(struct sample *sample, char *path, int level)
{
    bool skipped = is_mount(sample, path);

    if (skipped || sample->count == FOLDERS_MOST || level > LEVELS) {
        sample->cut = sample->cut || !skipped;
        free(path);
        return;
    }
    sample->folders[sample->count].path = path;
    sample->folders[sample->count++].level = level;
}

static void look_at_entry(struct sample *sample, int folder_fd,
                          const char *folder, const struct dirent *entry,
                          int level)
{
    unsigned char type = entry->d_type;
    struct stat st;
    char *path = NULL;

    if (type == DT_UNKNOWN &&
        fstatat(folder_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        type = S_ISDIR(st.st_mode)   ? DT_DIR
               : S_ISLNK(st.st_mode) ? DT_LNK
                                     : DT_REG;
    if ((type != DT_DIR && type != DT_LNK) ||
        asprintf(&path, "%s%s%s", folder, *folder ? "/" : "", entry->d_name) <
            0)
        return;
    if (type == DT_DIR) {
        add_folder(sample, path, level + 1);
        return;
    }
    look_at_link(sample, path);
    free(path);
}

static void look_at_folder(struct sample *sample, int top_fd,
                           const char *folder, int level)
{
    uint64_t entries = 0;
    int fd = path_open_beneath(top_fd, folder, O_RDONLY | O_DIRECTORY);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;

    if (!directory) {
        sample->unreadable += fd == -EACCES;
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        look_at_entry(sample, fd, folder, entry, level);
        if (++entries % 1024 == 0 && clock_now_ms() > sample->until_ms) {
            sample->cut = true;
            break;
        }
    }
    closedir(directory);
    sample->entries += entries;
    if (entries > sample->huge_entries) {
        sample->huge_entries = entries;
        snprintf(sample->huge, sizeof(sample->huge), "%s", folder);
    }
}

static void tell_sample(const struct sample *sample, size_t folders)
{
    struct doctor *doctor = sample->doctor;

    if (sample->huge_entries > HUGE_ENTRIES)
        doctor_note(doctor,
                    "%s/%s has more than %d entries: its first listing takes "
                    "long, and few file systems like such directories",
                    doctor->dataset, sample->huge, HUGE_ENTRIES);
    if (sample->links_outside > 0)
        doctor_note(doctor,
                    "%llu of %llu symbolic links lead out of the dataset, such "
                    "as %s: what they lead to is not cached; mount a directory "
                    "that holds it too",
                    (unsigned long long)sample->links_outside,
                    (unsigned long long)sample->links, sample->outside);
    if (sample->unreadable > 0)
        doctor_note(doctor, "%llu directories cannot be read",
                    (unsigned long long)sample->unreadable);
    if (sample->cut)
        doctor_ok(doctor,
                  "looked at %llu entries of %zu directories, for %d s at "
                  "most; there are more",
                  (unsigned long long)sample->entries, folders,
                  SAMPLE_MS / 1000);
    else
        doctor_ok(doctor, "looked at all %llu entries of %zu directories",
                  (unsigned long long)sample->entries, folders);
}

/* Level by level. */
static void look_around(struct doctor *doctor, int top_fd)
{
    AUTO_FREE struct sample *sample = calloc(1, sizeof(*sample));
    size_t next = 0;
    char *top = strdup("");

    if (!sample || !top || mountinfo_init(&sample->mounts, MOUNTINFO_PATH)) {
        free(top);
        return;
    }
    sample->doctor = doctor;
    sample->until_ms = clock_now_ms() + SAMPLE_MS;
    add_folder(sample, top, 0);
    for (; next < sample->count && clock_now_ms() <= sample->until_ms; next++)
        look_at_folder(sample, top_fd, sample->folders[next].path,
                       sample->folders[next].level);
    sample->cut = sample->cut || next < sample->count;
    tell_sample(sample, next);
    for (size_t i = 0; i < sample->count; i++)
        free(sample->folders[i].path);
    mountinfo_fini(&sample->mounts);
}

/* False where the dataset must not be touched: a mount of ours, maybe dead. */
static bool check_mounts(struct doctor *doctor)
{
    struct mountinfo info;
    size_t nested = 0;
    const char *first = NULL;

    if (mountinfo_init(&info, MOUNTINFO_PATH) != 0)
        return true;
    const struct mountinfo_entry *ours =
        mountinfo_find_path(&info, doctor->dataset);
    if (ours)
        doctor_note(doctor,
                    "%s is mounted already, by coordlfs at %s: status, stats "
                    "and warm --check say more, and the dataset below is "
                    "looked at when it is unmounted",
                    doctor->dataset, ours->mountpoint);
    for (size_t i = 0; i < info.count; i++) {
        const struct mountinfo_entry *entry = &info.entries[i];
        bool same = strcmp(entry->mountpoint, doctor->dataset) == 0;
        if (entry == ours ||
            !path_is_inside(entry->mountpoint, doctor->dataset))
            continue;
        if (same && !ours)
            doctor_ok(doctor, "%s is a mount of %s, %s", doctor->dataset,
                      entry->source, entry->fstype);
        else if (!same && nested++ == 0)
            first = entry->mountpoint;
    }
    if (nested > 0)
        doctor_note(doctor,
                    "%zu mounts lie inside the dataset, such as %s: their "
                    "files are served and cached too",
                    nested, first);
    for (const struct mountinfo_entry *other = NULL;
         !ours && (other = mountinfo_next_coordlfs(&info, other));)
        if (strcmp(other->source, doctor->dataset) == 0)
            doctor_note(doctor,
                        "coordlfs has it mounted at %s; a second mount needs "
                        "another --cache-id",
                        other->mountpoint);
    mountinfo_fini(&info);
    return !ours;
}

void doctor_check_dataset(struct doctor *doctor)
{
    if (!check_mounts(doctor))
        return;
    AUTO_CLOSE int fd =
        open(doctor->dataset, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        doctor_problem(doctor,
                       "dataset %s: %s; it must be a directory that "
                       "can be read",
                       doctor->dataset, strerror(errno));
        return;
    }
    doctor_ok(doctor, "dataset %s can be read", doctor->dataset);
    look_around(doctor, fd);
}
