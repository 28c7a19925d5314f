/* SPDX-License-Identifier: Apache-2.0 */
/* An open file is recognised by the mount id in its fdinfo, a mapping by its
 * device number, a directory by its mount id, so that no path is touched. */
#include "fs/holders.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool has_open_file(const char *pid, int mount_id)
{
    char path[PATH_MAX], line[256];
    bool found = false;

    snprintf(path, sizeof(path), "/proc/%s/fdinfo", pid);
    DIR *directory = opendir(path);
    if (!directory)
        return false;
    for (const struct dirent *entry; !found && (entry = readdir(directory));) {
        int id;
        snprintf(path, sizeof(path), "/proc/%s/fdinfo/%s", pid, entry->d_name);
        FILE *file = fopen(path, "re");
        while (file && !found && fgets(line, sizeof(line), file))
            found = sscanf(line, "mnt_id: %d", &id) == 1 && id == mount_id;
        if (file)
            fclose(file);
    }
    closedir(directory);
    return found;
}

static bool has_mapping(const char *pid, unsigned major, unsigned minor)
{
    char path[PATH_MAX], *line = NULL;
    size_t room = 0;
    bool found = false;

    snprintf(path, sizeof(path), "/proc/%s/maps", pid);
    FILE *file = fopen(path, "re");
    while (file && !found && getline(&line, &room, file) >= 0) {
        unsigned a, b;
        found = sscanf(line, "%*s %*s %*s %x:%x", &a, &b) == 2 && a == major &&
                b == minor;
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* Asks for the mount's number only, which sends no request. A path would not
 * do: it may be longer than PATH_MAX. */
static bool stands_in(const char *pid, const char *what, int mount_id)
{
    char path[PATH_MAX];
    struct statx stx;

    snprintf(path, sizeof(path), "/proc/%s/%s", pid, what);
    return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) == 0 &&
           stx.stx_mask & STATX_MNT_ID && stx.stx_mnt_id == (uint64_t)mount_id;
}

static const char *reason(const char *pid, const struct mountinfo_entry *entry)
{
    if (has_open_file(pid, entry->mount_id))
        return "has a file open";
    if (has_mapping(pid, entry->major, entry->minor))
        return "has a file mapped";
    if (stands_in(pid, "cwd", entry->mount_id))
        return "has its working directory there";
    if (stands_in(pid, "root", entry->mount_id))
        return "has its root there";
    if (stands_in(pid, "exe", entry->mount_id))
        return "runs a program from there";
    return NULL;
}

static void print_process(FILE *out, const char *pid, const char *why)
{
    char path[PATH_MAX], name[64] = "?";

    snprintf(path, sizeof(path), "/proc/%s/comm", pid);
    FILE *file = fopen(path, "re");
    if (file && fgets(name, sizeof(name), file))
        name[strcspn(name, "\n")] = '\0';
    if (file)
        fclose(file);
    fprintf(out, "  process %s (%s) %s\n", pid, name, why);
}

static bool is_one_of(const char *pid, const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pids[i] == atoi(pid))
            return true;
    return false;
}

size_t holders_print(FILE *out, const struct mountinfo *info,
                     const struct mountinfo_entry *entry, const pid_t *ours,
                     size_t our_count)
{
    size_t count = 0;
    DIR *directory = opendir("/proc");

    for (size_t i = 0; i < info->count; i++) {
        if (info->entries[i].parent_id != entry->mount_id ||
            info->entries[i].mount_id == entry->mount_id)
            continue;
        fprintf(out, "  %s is mounted below it\n", info->entries[i].mountpoint);
        count++;
    }
    for (const struct dirent *process;
         directory && (process = readdir(directory));) {
        if (!isdigit((unsigned char)process->d_name[0]))
            continue;
        const char *why = is_one_of(process->d_name, ours, our_count)
                              ? NULL
                              : reason(process->d_name, entry);
        if (!why)
            continue;
        print_process(out, process->d_name, why);
        count++;
    }
    if (directory)
        closedir(directory);
    return count;
}
