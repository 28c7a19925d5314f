/* SPDX-License-Identifier: Apache-2.0 */
/* Shares and "auto" are of what is free now, with what this cache has on the
 * disk already. A size in bytes is taken as it is, unless it can never fit. */
#include "fs/budget.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "cache/segment.h"
#include "fs/command.h"
#include "fs/process.h"
#include "util/memory.h"

enum {
    AUTO_PERCENT = 50,
    LEAST_CAPACITY = 1 << 20,
    LEAST_ITEM_COST = 4096 + 2048, /* one page, and the kernel's part */
    MAP_MARGIN = 65536,
    /* The daemon's own: measured 134 MiB at the start, most of it the shared
     * area, and the index's caches grow. */
    OWN_BYTES = 168 << 20,
};

static void raise_map_count(uint64_t capacity_bytes)
{
    unsigned long long now = 0;
    unsigned long long want = capacity_bytes / LEAST_ITEM_COST + MAP_MARGIN;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r+e");

    if (want > INT_MAX)
        want = INT_MAX;
    if (file && fscanf(file, "%llu", &now) == 1 && now < want) {
        rewind(file);
        fprintf(file, "%llu\n", want);
        if (fflush(file) == 0)
            log_info("vm.max_map_count raised from %llu to %llu: one mapping "
                     "for each pinned item",
                     now, want);
        else
            log_info("vm.max_map_count stays at %llu (%s): at most that many "
                     "items can be pinned",
                     now, strerror(errno));
    }
    if (file)
        fclose(file);
}

/* What other running mounts may still take: of memory, and of the disk with
 * that device number. */
static void reserved_elsewhere(dev_t disk, uint64_t *memory_bytes,
                               uint64_t *disk_bytes)
{
    const struct mountinfo_entry *entry = NULL;
    struct mountinfo info;

    *memory_bytes = 0;
    *disk_bytes = 0;
    if (mountinfo_init(&info, MOUNTINFO_PATH) != 0)
        return;
    while ((entry = mountinfo_next_coordlfs(&info, entry))) {
        unsigned major = entry->major, minor = entry->minor;
        if (entry != mountinfo_find_device(&info, major, minor))
            continue; /* seen at another place */
        uint64_t capacity =
            command_query(major, minor, "tiers.dram.capacity_bytes");
        uint64_t used = command_query(major, minor, "tiers.dram.used_bytes");
        *memory_bytes += capacity > used ? capacity - used : 0;
        if (command_query(major, minor, "tiers.nvme.device") != disk)
            continue;
        capacity = command_query(major, minor, "tiers.nvme.capacity_bytes");
        used = command_query(major, minor, "tiers.nvme.disk_bytes");
        *disk_bytes += capacity > used ? capacity - used : 0;
    }
    mountinfo_fini(&info);
}

/* A size that was asked for is taken, though the daemon may be ended for it. */
static void check_own_memory(const struct memory_limits *limits, uint64_t bytes)
{
    char asked[SIZE_TEXT_BYTES], own[SIZE_TEXT_BYTES], limit[SIZE_TEXT_BYTES];

    if (bytes > 0 && bytes + OWN_BYTES > limits->limit_bytes)
        command_error("note: --dram %s and the daemon's own %s are more than "
                      "the %s of memory that %s%s allows; it may be ended for "
                      "want of memory, so give less",
                      size_format(bytes, asked, sizeof(asked)),
                      size_format(OWN_BYTES, own, sizeof(own)),
                      size_format(limits->limit_bytes, limit, sizeof(limit)),
                      limits->cgroup[0] ? "the control group " : "the machine",
                      limits->cgroup);
}

static int resolve_dram(const struct config *config, uint64_t reserved,
                        uint64_t *dram_bytes)
{
    struct memory_limits limits;
    char asked[SIZE_TEXT_BYTES], limit[SIZE_TEXT_BYTES];
    int err = memory_limits("", &limits);
    if (err != 0) {
        command_error("cannot find out how much memory there is: %s",
                      strerror(-err));
        return EXIT_FAILED;
    }
    uint64_t taken = reserved + OWN_BYTES;
    uint64_t available =
        limits.available_bytes > taken ? limits.available_bytes - taken : 0;
    uint64_t bytes = size_spec_resolve(&config->dram, available, AUTO_PERCENT);
    if (bytes > limits.limit_bytes) {
        command_error("--dram %s is more than the %s of memory that %s%s "
                      "allows; give less, a percentage, or auto",
                      size_format(bytes, asked, sizeof(asked)),
                      size_format(limits.limit_bytes, limit, sizeof(limit)),
                      limits.cgroup[0] ? "the control group " : "the machine",
                      limits.cgroup);
        return EXIT_FAILED;
    }
    if (bytes > 0 && bytes < LEAST_CAPACITY) {
        if (config->dram.kind != SIZE_BYTES) {
            bytes = 0; /* nothing is left */
        } else {
            command_error("--dram %s holds next to nothing; give at least 1M, "
                          "a percentage such as 50%%, or 0 for none",
                          size_format(bytes, asked, sizeof(asked)));
            return EXIT_USAGE;
        }
    }
    check_own_memory(&limits, bytes);
    *dram_bytes = bytes;
    return EXIT_DONE;
}

/* Of the disk that the cache folder is on: what the cache may have in all. */
static uint64_t disk_room(const struct config *config,
                          const struct statvfs *disk, uint64_t reserved)
{
    uint64_t unit = disk->f_frsize;
    uint64_t room =
        disk->f_bavail * unit + segment_disk_bytes(PROCESS_FD_CACHE);
    uint64_t keep =
        disk->f_blocks * unit / 100 * (unsigned)config->free_space + reserved;

    return room > keep ? room - keep : 0;
}

static int resolve_nvme(const struct config *config, uint64_t reserved,
                        struct budget *budget)
{
    char asked[SIZE_TEXT_BYTES], limit[SIZE_TEXT_BYTES];
    struct statvfs disk;
    struct stat cache, source;

    if (fstatvfs(PROCESS_FD_CACHE, &disk) != 0 ||
        fstat(PROCESS_FD_CACHE, &cache) != 0 ||
        fstat(PROCESS_FD_DATASET, &source) != 0) {
        command_error("cannot look at the disk of the cache directory %s: %s",
                      config->cache_dir, strerror(errno));
        return EXIT_FAILED;
    }
    if (config->nvme.kind == SIZE_AUTO && cache.st_dev == source.st_dev) {
        snprintf(budget->nvme_why_none, sizeof(budget->nvme_why_none),
                 "the cache directory is on the dataset's own disk; --nvme "
                 "SIZE uses it all the same");
        return EXIT_DONE;
    }
    uint64_t total = disk.f_blocks * disk.f_frsize;
    uint64_t room = disk_room(config, &disk, reserved);
    uint64_t bytes = size_spec_resolve(&config->nvme, room, AUTO_PERCENT);
    if (config->nvme.kind == SIZE_BYTES && total > 0 && bytes > total) {
        command_error("--nvme %s is more than the whole disk of the cache "
                      "directory %s, %s; give less, a percentage, or auto",
                      size_format(bytes, asked, sizeof(asked)),
                      config->cache_dir,
                      size_format(total, limit, sizeof(limit)));
        return EXIT_FAILED;
    }
    if (config->nvme.kind == SIZE_BYTES && bytes > 0 &&
        bytes < LEAST_CAPACITY) {
        command_error("--nvme %s holds next to nothing; give at least 1M, a "
                      "percentage such as 50%%, or 0 for none",
                      size_format(bytes, asked, sizeof(asked)));
        return EXIT_USAGE;
    }
    if (bytes < LEAST_CAPACITY) {
        if (bytes > 0 || config->nvme.kind != SIZE_BYTES)
            snprintf(budget->nvme_why_none, sizeof(budget->nvme_why_none),
                     "the disk of the cache directory has no room beyond the "
                     "%d%% of --free-space",
                     config->free_space);
        bytes = 0;
    }
    budget->nvme_bytes = bytes;
    return EXIT_DONE;
}

int budget_resolve(const struct config *config, struct budget *budget)
{
    struct stat cache = {0};
    uint64_t memory_bytes, disk_bytes;

    *budget = (struct budget){0};
    fstat(PROCESS_FD_CACHE, &cache);
    reserved_elsewhere(cache.st_dev, &memory_bytes, &disk_bytes);
    int code = resolve_dram(config, memory_bytes, &budget->dram_bytes);
    if (code == EXIT_DONE)
        code = resolve_nvme(config, disk_bytes, budget);
    if (code == EXIT_DONE)
        raise_map_count(budget->dram_bytes);
    return code;
}
