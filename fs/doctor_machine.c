/* SPDX-License-Identifier: Apache-2.0 */
/* Privileges, kernel, limits and memory. */
#include "fs/fuse_api.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "fs/control.h"
#include "fs/doctor.h"
#include "util/memory.h"
#include "util/mountinfo.h"

enum {
    AUTO_PERCENT = 50,
    ITEM_COST = 4096 + 2048, /* of the smallest item: a page, and the kernel's
                                part */
    MAP_MARGIN = 65536,
    FILES_LEAST = 1024,
    READ_AHEAD_MOST_KB = 256,
};
/* What the daemon needs beside --dram. */
#define BESIDE_BYTES (256ull << 20)

/* A file that is one number; false where there is none. */
static bool read_number(const char *path, unsigned long long *number)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;

    bool ok = fscanf(file, "%llu", number) == 1;
    fclose(file);
    return ok;
}

/* ---- privileges ---- */

static bool has_capability(unsigned number)
{
    struct __user_cap_header_struct header = {.version =
                                                  _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

    if (syscall(SYS_capget, &header, data) != 0)
        return false;
    return data[number / 32].effective & (1u << number % 32);
}

static void check_privileges(struct doctor *doctor)
{
    static const struct {
        unsigned number;
        const char *name;
        const char *use;
    } needed[] = {
        {CAP_SYS_ADMIN, "SYS_ADMIN", "mount"},
        {CAP_IPC_LOCK, "IPC_LOCK", "lock pages in memory"},
        {CAP_DAC_READ_SEARCH, "DAC_READ_SEARCH", "read every file"},
    };
    bool all = geteuid() == 0;

    if (!all)
        doctor_problem(doctor, "not root: use sudo");
    for (size_t i = 0; geteuid() == 0 && i < sizeof(needed) / sizeof(*needed);
         i++)
        if (!has_capability(needed[i].number)) {
            doctor_problem(doctor,
                           "CAP_%s is missing, which is needed to %s; give it "
                           "to the container: --cap-add %s",
                           needed[i].name, needed[i].use, needed[i].name);
            all = false;
        }
    if (all)
        doctor_ok(doctor, "root, with the capabilities that are needed");

    if (access("/dev/fuse", R_OK | W_OK) != 0)
        doctor_problem(doctor,
                       "/dev/fuse: %s; load the fuse module (modprobe fuse), "
                       "or give the container the device (--device /dev/fuse)",
                       strerror(errno));
    else
        doctor_ok(doctor, "/dev/fuse");
}

/* ---- kernel ---- */

/* Keeps the file of a loaded library that the index is made of. */
static int note_library(struct dl_phdr_info *info, size_t size, void *path)
{
    (void)size;
    if (!strstr(info->dlpi_name, "/librocksdb."))
        return 0;
    return realpath(info->dlpi_name, path) != NULL;
}

/* Its header is for C++, but the file's name has the version. */
static void check_rocksdb(struct doctor *doctor)
{
    char path[PATH_MAX];

    if (!dl_iterate_phdr(note_library, path)) {
        doctor_ok(doctor, "RocksDB is a part of this program");
        return;
    }
    const char *version = strstr(strrchr(path, '/'), ".so.");
    doctor_ok(doctor, "RocksDB %s", version ? version + 4 : path);
}

static void check_kernel(struct doctor *doctor)
{
    struct utsname name;
    int major = 0, minor = 0;

    if (uname(&name) != 0 ||
        sscanf(name.release, "%d.%d", &major, &minor) != 2) {
        doctor_note(doctor, "the kernel's version is not known");
        return;
    }
    if (major < 5 || (major == 5 && minor < 14))
        doctor_problem(doctor,
                       "Linux %s is too old: 5.14 is the first that can fill "
                       "locked memory ahead",
                       name.release);
    else if (major == 6 && minor >= 9 && minor <= 12)
        doctor_note(doctor,
                    "Linux %s: 6.9 to 6.12 lose entries in their cache of "
                    "directories, so here each listing asks the daemon",
                    name.release);
    else
        doctor_ok(doctor, "Linux %s", name.release);
    doctor_ok(doctor, "libfuse %s", fuse_pkgversion());
    check_rocksdb(doctor);
}

static void check_request_timeout(struct doctor *doctor)
{
    unsigned long long standard = 0, most = 0;

    if (!read_number("/proc/sys/fs/fuse/default_request_timeout", &standard)) {
        doctor_ok(doctor, "this kernel has no time limit on FUSE requests");
        return;
    }
    read_number("/proc/sys/fs/fuse/max_request_timeout", &most);
    unsigned long long limit =
        standard == 0 || (most != 0 && most < standard) ? most : standard;
    if (limit == 0)
        doctor_ok(doctor, "no time limit on FUSE requests is set");
    else
        doctor_problem(doctor,
                       "fs.fuse.%s is %llu: the kernel ends a mount of which "
                       "one read takes longer than %llu s, as with storage "
                       "that hangs for a while; set it to 0 with sysctl before "
                       "mounting",
                       limit == standard ? "default_request_timeout"
                                         : "max_request_timeout",
                       limit, limit);
}

/* ---- limits ---- */

static void check_limits(struct doctor *doctor)
{
    struct rlimit limit;
    unsigned long long most = 0;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        if (limit.rlim_max < FILES_LEAST)
            doctor_problem(doctor,
                           "at most %llu open files are allowed; raise the "
                           "hard limit (ulimit -Hn, LimitNOFILE=) to %d or "
                           "more",
                           (unsigned long long)limit.rlim_max, FILES_LEAST);
        else
            doctor_ok(doctor, "open files: up to %llu",
                      (unsigned long long)limit.rlim_max);
    }
    if (has_capability(CAP_IPC_LOCK))
        doctor_ok(doctor, "locked memory: not limited, thanks to CAP_IPC_LOCK");
    else if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
        doctor_note(doctor,
                    "locked memory: at most %llu bytes (ulimit -l), as "
                    "CAP_IPC_LOCK is missing",
                    (unsigned long long)limit.rlim_cur);
    if (read_number("/proc/sys/fs/nr_open", &most) && most < FILES_LEAST)
        doctor_note(doctor, "fs.nr_open is only %llu", most);
}

static void check_log(struct doctor *doctor)
{
    if (doctor->config->log_file[0] != '\0')
        doctor_ok(doctor, "the log goes to %s", doctor->config->log_file);
    else if (access("/dev/log", F_OK) == 0)
        doctor_ok(doctor, "the log goes to syslog");
    else
        doctor_note(doctor, "there is no syslog here, so nothing is logged in "
                            "the background; --log-file FILE keeps the log");
    if (access(access(CONTROL_FOLDER, F_OK) == 0 ? CONTROL_FOLDER : "/run",
               W_OK) != 0)
        doctor_problem(doctor,
                       "%s cannot be written (%s), so the commands could not "
                       "reach a mount; mount a tmpfs at /run",
                       CONTROL_FOLDER, strerror(errno));
    else
        doctor_ok(doctor, "%s can be written", CONTROL_FOLDER);
}

static void check_read_ahead(struct doctor *doctor)
{
    const struct mountinfo_entry *entry = NULL;
    struct mountinfo info;
    unsigned long long kb;
    char path[64];

    if (mountinfo_init(&info, MOUNTINFO_PATH) != 0)
        return;
    while ((entry = mountinfo_next_coordlfs(&info, entry))) {
        snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb",
                 entry->major, entry->minor);
        if (!read_number(path, &kb))
            continue;
        if (kb > READ_AHEAD_MOST_KB)
            doctor_note(doctor,
                        "%s: %s is %llu: a reader that maps files then reads "
                        "far more than it needs; 128 is usual",
                        entry->mountpoint, path, kb);
        else
            doctor_ok(doctor, "%s is mounted; readahead %llu KiB",
                      entry->mountpoint, kb);
    }
    mountinfo_fini(&info);
}

void doctor_check_machine(struct doctor *doctor)
{
    check_privileges(doctor);
    check_kernel(doctor);
    check_request_timeout(doctor);
    check_limits(doctor);
    check_log(doctor);
    check_read_ahead(doctor);
}

/* ---- memory ---- */

static void check_map_count(struct doctor *doctor, uint64_t dram_bytes)
{
    unsigned long long now;
    unsigned long long want = dram_bytes / ITEM_COST + MAP_MARGIN;

    if (!read_number("/proc/sys/vm/max_map_count", &now))
        return;
    if (now >= want)
        doctor_ok(doctor, "vm.max_map_count is %llu", now);
    else if (access("/proc/sys/vm/max_map_count", W_OK) == 0)
        doctor_ok(doctor,
                  "vm.max_map_count is %llu; mount raises it to what it needs",
                  now);
    else
        doctor_note(doctor,
                    "vm.max_map_count is %llu and cannot be raised from here: "
                    "at most so many items can be pinned; raise it on the host "
                    "to %llu if the dataset has that many small files",
                    now, want);
}

void doctor_check_memory(struct doctor *doctor)
{
    struct memory_limits limits;
    char total[SIZE_TEXT_BYTES], free_text[SIZE_TEXT_BYTES],
        dram[SIZE_TEXT_BYTES];
    int err = memory_limits("", &limits);
    if (err != 0) {
        doctor_problem(doctor, "cannot find out how much memory there is: %s",
                       strerror(-err));
        return;
    }

    uint64_t bytes = size_spec_resolve(&doctor->config->dram,
                                       limits.available_bytes, AUTO_PERCENT);
    size_format(limits.limit_bytes, total, sizeof(total));
    size_format(limits.available_bytes, free_text, sizeof(free_text));
    size_format(bytes, dram, sizeof(dram));
    if (limits.cgroup[0])
        doctor_ok(doctor,
                  "memory: %s, limited by the control group %s; %s available",
                  total, limits.cgroup, free_text);
    else
        doctor_ok(doctor,
                  "memory: %s, not limited by a control group; %s available",
                  total, free_text);
    if (bytes > limits.limit_bytes)
        doctor_problem(doctor,
                       "--dram %s is more than the %s of memory; give less, a "
                       "percentage, or auto",
                       dram, total);
    else if (bytes + BESIDE_BYTES > limits.available_bytes)
        doctor_note(doctor,
                    "--dram %s leaves less than 256 MiB of what is available "
                    "to the daemon itself and to the job",
                    dram);
    else
        doctor_ok(doctor, "the DRAM tier would get %s", dram);
    check_map_count(doctor, bytes);
}
