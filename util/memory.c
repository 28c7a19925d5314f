/* SPDX-License-Identifier: Apache-2.0 */
/* Where a group's files lie: /proc/self/cgroup names the group by its path in
 * the hierarchy, /proc/self/mountinfo says where the hierarchy is mounted and
 * which part of it (in a container often the container's own group). Each
 * folder from the group up to the mount point may have a limit.
 *
 * Where parents lie above what is mounted, v1 tells the smallest of their
 * limits in memory.stat all the same; v2 has no such figure.
 *
 * memory.high counts as a limit: pinned pages cannot be reclaimed, so above it
 * every allocation of the group would be throttled.
 *
 * What a group uses and cannot give back is its usage less its file pages that
 * are on the kernel's lists for reclaim: pinned pages are not on them. */
#include "util/memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "util/log.h"
#include "util/mountinfo.h"
#include "util/path.h"

/* What the two versions call the same thing. */
struct version {
    const char *fstype;
    const char *controller; /* in /proc/self/cgroup and in the mount's options;
                               "" for v2, which has one hierarchy for all */
    const char *const *limit_files;
    const char *const *inherited; /* keys of memory.stat: limits from above */
    const char *usage_file;
    const char *const *reclaimable; /* keys of memory.stat */
};

static const char *const v1_reclaimable[] = {"total_inactive_file",
                                             "total_active_file", NULL};
static const char *const v2_reclaimable[] = {"inactive_file", "active_file",
                                             "slab_reclaimable", NULL};
static const char *const v1_limits[] = {"memory.limit_in_bytes", NULL};
static const char *const v2_limits[] = {"memory.max", "memory.high", NULL};
static const char *const v1_inherited[] = {"hierarchical_memory_limit", NULL};
static const char *const v2_inherited[] = {NULL};
static const struct version versions[] = {
    {"cgroup", "memory", v1_limits, v1_inherited, "memory.usage_in_bytes",
     v1_reclaimable},
    {"cgroup2", "", v2_limits, v2_inherited, "memory.current", v2_reclaimable},
};
enum { VERSIONS = sizeof(versions) / sizeof(versions[0]) };

/* Opens root/folder/name for reading; NULL with errno set. */
static FILE *open_file(const char *root, const char *folder, const char *name)
{
    AUTO_FREE char *path = NULL;

    if (asprintf(&path, "%s%s/%s", root, folder, name) < 0) {
        path = NULL;
        errno = ENOMEM;
        return NULL;
    }
    return fopen(path, "re");
}

/* Reads a file of lines "key value"; "key: value kB" becomes bytes. Adds up the
 * values of the keys in wanted; returns how many of them were there. */
static int sum_keys(FILE *file, const char *const *wanted, uint64_t *sum)
{
    char line[256];
    int found = 0;

    *sum = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        char key[64];
        char unit[4] = "";
        unsigned long long value;

        if (sscanf(line, "%63[^: ]%*[: ]%llu %3s", key, &value, unit) < 2)
            continue;
        for (int i = 0; wanted[i] != NULL; i++)
            if (strcmp(key, wanted[i]) == 0) {
                *sum += strcmp(unit, "kB") == 0 ? value * 1024 : value;
                found++;
            }
    }
    return found;
}

/* Reads a file that is one number; false where it is not there or says "max",
 * and nothing limits then. */
static bool read_number(const char *root, const char *folder, const char *name,
                        uint64_t *number)
{
    FILE *file = open_file(root, folder, name);
    unsigned long long value;

    if (file == NULL)
        return false;
    bool ok = fscanf(file, "%llu", &value) == 1;
    fclose(file);
    if (ok)
        *number = value;
    return ok;
}

/* As sum_keys, for memory.stat of the group in folder; 0 where it has none. */
static int sum_stat(const char *root, const char *folder,
                    const char *const *wanted, uint64_t *sum)
{
    FILE *file = open_file(root, folder, "memory.stat");

    *sum = 0;
    if (file == NULL)
        return 0;
    int found = sum_keys(file, wanted, sum);
    fclose(file);
    return found;
}

/* What the group in folder uses and cannot give back; 0 where unknown. */
static uint64_t held_bytes(const char *root, const char *folder,
                           const struct version *version)
{
    uint64_t usage;
    uint64_t reclaimable;

    if (!read_number(root, folder, version->usage_file, &usage))
        return 0;
    sum_stat(root, folder, version->reclaimable, &reclaimable);
    return usage > reclaimable ? usage - reclaimable : 0;
}

static void apply_limit(const char *root, const char *folder, uint64_t limit,
                        const struct version *version,
                        struct memory_limits *limits)
{
    /* v1 writes "none" as a number near 2^63 */
    if (limit >= limits->host_total_bytes)
        return;
    if (limit < limits->limit_bytes) {
        limits->limit_bytes = limit;
        snprintf(limits->cgroup, sizeof(limits->cgroup), "%s", folder);
    }

    uint64_t held = held_bytes(root, folder, version);
    uint64_t free_bytes = limit > held ? limit - held : 0;
    if (free_bytes < limits->available_bytes)
        limits->available_bytes = free_bytes;
}

static void apply_folder(const char *root, const char *folder,
                         const struct version *version,
                         struct memory_limits *limits)
{
    uint64_t limit;

    for (int i = 0; version->limit_files[i] != NULL; i++)
        if (read_number(root, folder, version->limit_files[i], &limit))
            apply_limit(root, folder, limit, version, limits);
}

/* Applies the limits of the group at path below the mount point, and of all its
 * parents that the mount shows. */
static void apply_group(const char *root, const struct mountinfo_entry *mount,
                        const char *path, const struct version *version,
                        struct memory_limits *limits)
{
    AUTO_FREE char *folder = NULL;
    size_t top = strlen(mount->mountpoint);
    uint64_t inherited;

    if (strcmp(path, "/") == 0)
        path = "";
    if (asprintf(&folder, "%s%s", mount->mountpoint, path) < 0) {
        folder = NULL;
        return;
    }
    size_t own = strlen(folder);
    for (char *end = folder + own; end != NULL && end >= folder + top;
         end = strrchr(folder, '/')) {
        *end = '\0';
        apply_folder(root, folder, version, limits);
    }
    /* Last, so that a parent that can be seen is the one that is named. */
    snprintf(folder, own + 1, "%s%s", mount->mountpoint, path);
    if (sum_stat(root, folder, version->inherited, &inherited) > 0)
        apply_limit(root, folder, inherited, version, limits);
}

/* Finds the group of this process: id:controllers:path lines. Returns a string
 * that the caller frees, or NULL. */
static char *find_group(const char *root, const struct version *version)
{
    FILE *file = open_file(root, "/proc/self", "cgroup");
    AUTO_FREE char *line = NULL;
    char *found = NULL;
    size_t capacity = 0;

    if (file == NULL)
        return NULL;
    while (found == NULL && getline(&line, &capacity, file) > 0) {
        char *rest = line;

        line[strcspn(line, "\n")] = '\0';
        char *id = strsep(&rest, ":");
        char *controllers = strsep(&rest, ":");
        if (rest == NULL)
            continue;
        if (*version->controller == '\0'
                ? strcmp(id, "0") == 0 && *controllers == '\0'
                : mountinfo_has_option(controllers, version->controller))
            found = strdup(rest);
    }
    fclose(file);
    return found;
}

static bool shows(const struct mountinfo_entry *mount,
                  const struct version *version)
{
    return strcmp(mount->fstype, version->fstype) == 0 &&
           (*version->controller == '\0' ||
            mountinfo_has_option(mount->super_options, version->controller));
}

static void apply_version(const char *root, const struct mountinfo *mounts,
                          const struct version *version,
                          struct memory_limits *limits)
{
    AUTO_FREE char *path = find_group(root, version);
    bool found = false;

    if (path == NULL)
        return;
    for (size_t i = 0; i < mounts->count; i++) {
        const struct mountinfo_entry *mount = &mounts->entries[i];
        bool whole = strcmp(mount->root, "/") == 0;

        /* "/.." is outside of the cgroup namespace */
        if (!shows(mount, version) || strstr(path, "/..") != NULL ||
            !path_is_inside(path, mount->root))
            continue;
        apply_group(root, mount, whole ? path : path + strlen(mount->root),
                    version, limits);
        found = true;
    }
    /* Where no mount shows the group, the mount points are the nearest groups
     * to be seen. */
    for (size_t i = 0; !found && i < mounts->count; i++)
        if (shows(&mounts->entries[i], version))
            apply_group(root, &mounts->entries[i], "", version, limits);
}

static int read_host(const char *root, struct memory_limits *limits)
{
    static const char *const total[] = {"MemTotal", NULL};
    static const char *const available[] = {"MemAvailable", NULL};
    FILE *file = open_file(root, "/proc", "meminfo");

    if (file == NULL) {
        int err = -errno;
        log_error("cannot open %s/proc/meminfo: %s", root, strerror(-err));
        return err;
    }
    int found = sum_keys(file, total, &limits->host_total_bytes);
    rewind(file);
    found += sum_keys(file, available, &limits->host_available_bytes);
    fclose(file);
    if (found != 2) {
        log_error("%s/proc/meminfo lacks MemTotal or MemAvailable", root);
        return -EBADMSG;
    }
    limits->limit_bytes = limits->host_total_bytes;
    limits->available_bytes = limits->host_available_bytes;
    return 0;
}

int memory_limits(const char *root, struct memory_limits *limits)
{
    AUTO_FREE char *table = NULL;
    struct memory_limits read = {0};
    struct mountinfo mounts;

    int err = read_host(root, &read);
    if (err)
        return err;
    if (asprintf(&table, "%s%s", root, MOUNTINFO_PATH) < 0) {
        table = NULL;
        return -ENOMEM;
    }
    err = mountinfo_init(&mounts, table);
    if (err)
        return err;
    for (int i = 0; i < VERSIONS; i++)
        apply_version(root, &mounts, &versions[i], &read);
    mountinfo_fini(&mounts);
    *limits = read;
    return 0;
}
