/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>

#include "util/memory.h"

enum { FILES = 16 };

static const uint64_t gib = 1 << 30;
static char root[PATH_MAX];

/* A machine: its files below root, up to one without a path. */
struct machine {
    const char *name;
    struct {
        const char *path, *text;
    } files[FILES];
    uint64_t limit_bytes, available_bytes;
    const char *cgroup;
};

#define MEMINFO                                                                \
    {                                                                          \
        "/proc/meminfo", "MemTotal:       67108864 kB\n"                       \
                         "MemFree:         1048576 kB\n"                       \
                         "MemAvailable:   33554432 kB\n"                       \
                         "HugePages_Total:       0\n"                          \
    }
#define MOUNTS "/proc/self/mountinfo"
#define GROUPS "/proc/self/cgroup"
#define V1_MOUNT(from, at)                                                     \
    "35 31 0:32 " from " " at " rw - cgroup cgroup rw,memory\n"
#define V2_MOUNT(from, at)                                                     \
    "41 31 0:38 " from " " at " rw - cgroup2 cgroup2 rw\n"
#define V1_NONE "9223372036854771712\n"
#define S "/sys/fs/cgroup"

static const struct machine machines[] = {
    {"no groups at all", {MEMINFO, {MOUNTS, ""}}, 64ULL << 30, 32ULL << 30, ""},

    {"v1 without a limit",
     {MEMINFO,
      {MOUNTS, V1_MOUNT("/", S "/memory")},
      {GROUPS, "9:name=systemd:/\n4:memory:/a/b\n3:cpuset:/\n0::/\n"},
      {S "/memory/memory.limit_in_bytes", V1_NONE},
      {S "/memory/a/memory.limit_in_bytes", V1_NONE},
      {S "/memory/a/b/memory.limit_in_bytes", V1_NONE}},
     64ULL << 30,
     32ULL << 30,
     ""},

    {"v1 with a limit and usage",
     {MEMINFO,
      {MOUNTS, V1_MOUNT("/", S "/memory")},
      {GROUPS, "4:cpu,memory:/a\n"},
      {S "/memory/a/memory.limit_in_bytes", "8589934592\n"},
      {S "/memory/a/memory.usage_in_bytes", "4294967296\n"},
      {S "/memory/a/memory.stat", "inactive_file 7\n"
                                  "total_inactive_file 1073741824\n"
                                  "total_active_file 1073741824\n"
                                  "total_unevictable 5\n"}},
     8ULL << 30,
     6ULL << 30,
     S "/memory/a"},

    {"v1 limited by a parent, the group itself has more",
     {MEMINFO,
      {MOUNTS, V1_MOUNT("/", S "/memory")},
      {GROUPS, "4:memory:/a/b/c\n"},
      {S "/memory/a/memory.limit_in_bytes", "4294967296\n"},
      {S "/memory/a/b/c/memory.limit_in_bytes", "8589934592\n"}},
     4ULL << 30,
     4ULL << 30,
     S "/memory/a"},

    {"v1: the larger limit has less left",
     {MEMINFO,
      {MOUNTS, V1_MOUNT("/", S "/memory")},
      {GROUPS, "4:memory:/a/b\n"},
      {S "/memory/a/memory.limit_in_bytes", "8589934592\n"},
      {S "/memory/a/memory.usage_in_bytes", "7516192768\n"},
      {S "/memory/a/b/memory.limit_in_bytes", "4294967296\n"},
      {S "/memory/a/b/memory.usage_in_bytes", "1073741824\n"}},
     4ULL << 30,
     1ULL << 30,
     S "/memory/a/b"},

    {"v1 container that sees the host's group path",
     {MEMINFO,
      {MOUNTS, V1_MOUNT("/docker/f00", S "/memory")},
      {GROUPS, "4:memory:/docker/f00/x\n"},
      {S "/memory/memory.limit_in_bytes", "2147483648\n"},
      {S "/memory/x/memory.limit_in_bytes", V1_NONE}},
     2ULL << 30,
     2ULL << 30,
     S "/memory"},

    {"v1 container whose group is the mount's root",
     {MEMINFO,
      {MOUNTS, V1_MOUNT("/docker/f00", S "/memory")},
      {GROUPS, "4:memory:/docker/f00\n"},
      {S "/memory/memory.limit_in_bytes", "2147483648\n"}},
     2ULL << 30,
     2ULL << 30,
     S "/memory"},

    {"a group outside of all that is mounted",
     {MEMINFO,
      {MOUNTS, V1_MOUNT("/docker/f00", S "/memory")},
      {GROUPS, "4:memory:/kubepods/f00\n"},
      {S "/memory/memory.limit_in_bytes", "2147483648\n"}},
     2ULL << 30,
     2ULL << 30,
     S "/memory"},

    {"another container's mount beside the right one",
     {MEMINFO,
      {MOUNTS,
       V1_MOUNT("/docker/bad", "/lib/c/memory") V1_MOUNT("/", S "/memory")},
      {GROUPS, "4:memory:/a\n"},
      {"/lib/c/memory/memory.limit_in_bytes", "1048576\n"},
      {S "/memory/a/memory.limit_in_bytes", "2147483648\n"}},
     2ULL << 30,
     2ULL << 30,
     S "/memory/a"},

    {"v2 with a limit in a parent, max in the group",
     {MEMINFO,
      {MOUNTS, V2_MOUNT("/", S)},
      {GROUPS, "0::/user.slice/job.scope\n"},
      {S "/user.slice/memory.max", "8589934592\n"},
      {S "/user.slice/memory.current", "4294967296\n"},
      {S "/user.slice/memory.stat", "anon 1073741824\n"
                                    "file 3221225472\n"
                                    "inactive_file 1073741824\n"
                                    "active_file 536870912\n"
                                    "slab_reclaimable 536870912\n"},
      {S "/user.slice/job.scope/memory.max", "max\n"}},
     8ULL << 30,
     6ULL << 30,
     S "/user.slice"},

    {"v1 container below a limited pod that it cannot see",
     {MEMINFO,
      {MOUNTS, V1_MOUNT("/pods/p/c", S "/memory")},
      {GROUPS, "4:memory:/pods/p/c/in\n"},
      {S "/memory/memory.limit_in_bytes", V1_NONE},
      {S "/memory/in/memory.limit_in_bytes", V1_NONE},
      {S "/memory/in/memory.usage_in_bytes", "1073741824\n"},
      {S "/memory/in/memory.stat", "total_inactive_file 536870912\n"
                                   "hierarchical_memory_limit 4294967296\n"
                                   "hierarchical_memsw_limit 2147483648\n"}},
     4ULL << 30,
     7ULL << 29,
     S "/memory/in"},

    {"v1: the parent is named, not the group that inherits",
     {MEMINFO,
      {MOUNTS, V1_MOUNT("/", S "/memory")},
      {GROUPS, "4:memory:/pc/in\n"},
      {S "/memory/pc/memory.limit_in_bytes", "209715200\n"},
      {S "/memory/pc/memory.usage_in_bytes", "104857600\n"},
      {S "/memory/pc/in/memory.limit_in_bytes", V1_NONE},
      {S "/memory/pc/in/memory.usage_in_bytes", "0\n"},
      {S "/memory/pc/in/memory.stat", "hierarchical_memory_limit "
                                      "209715200\n"}},
     200ULL << 20,
     100ULL << 20,
     S "/memory/pc"},

    {"v2: a grandparent's limit, no controller in the group itself",
     {MEMINFO,
      {MOUNTS, V2_MOUNT("/", S)},
      {GROUPS, "0::/pc/in/below\n"},
      {S "/pc/memory.max", "209715200\n"},
      {S "/pc/memory.current", "10485760\n"},
      {S "/pc/in/memory.max", "max\n"},
      {S "/pc/in/memory.high", "max\n"},
      {S "/pc/in/below/cgroup.procs", "1\n"}},
     200ULL << 20,
     190ULL << 20,
     S "/pc"},

    {"v2: memory.high is below memory.max",
     {MEMINFO,
      {MOUNTS, V2_MOUNT("/", S)},
      {GROUPS, "0::/a/b\n"},
      {S "/a/memory.max", "max\n"},
      {S "/a/memory.high", "2147483648\n"},
      {S "/a/b/memory.max", "3221225472\n"},
      {S "/a/b/memory.high", "max\n"}},
     2ULL << 30,
     2ULL << 30,
     S "/a"},

    {"v2 in a container with a namespace of its own",
     {MEMINFO,
      {MOUNTS, V2_MOUNT("/", S)},
      {GROUPS, "0::/\n"},
      {S "/memory.max", "1073741824\n"},
      {S "/memory.current", "2147483648\n"}},
     1ULL << 30,
     0,
     S},

    {"v2 outside of the namespace",
     {MEMINFO,
      {MOUNTS, V2_MOUNT("/", S)},
      {GROUPS, "0::/../other\n"},
      {S "/memory.max", "1073741824\n"}},
     1ULL << 30,
     1ULL << 30,
     S},

    {"hybrid: v1 has the memory, v2 only names",
     {MEMINFO,
      {MOUNTS, V1_MOUNT("/", S "/memory") V2_MOUNT("/", S "/unified")},
      {GROUPS, "4:memory:/a\n0::/session\n"},
      {S "/memory/a/memory.limit_in_bytes", "3221225472\n"},
      {S "/unified/session/cgroup.procs", "1\n"}},
     3ULL << 30,
     3ULL << 30,
     S "/memory/a"},

    {"a limit above the memory of the machine",
     {MEMINFO,
      {MOUNTS, V2_MOUNT("/", S)},
      {GROUPS, "0::/a\n"},
      {S "/a/memory.max", "137438953472\n"},
      {S "/a/memory.current", "137438953472\n"}},
     64ULL << 30,
     32ULL << 30,
     ""},

    {"mounted in a place with a blank; files that make no sense",
     {MEMINFO,
      {MOUNTS, V1_MOUNT("/", "/my\\040groups")},
      {GROUPS, "rubbish\n\n4:memory:/a\n"},
      {"/my groups/a/memory.limit_in_bytes", "2147483648\n"},
      {"/my groups/a/memory.usage_in_bytes", "none\n"},
      {"/my groups/memory.limit_in_bytes", ""}},
     2ULL << 30,
     2ULL << 30,
     "/my groups/a"},
};

static void write_file(const char *path, const char *text)
{
    char full[2 * PATH_MAX];
    FILE *file;

    snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *slash = full + strlen(root) + 1;
         (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    file = fopen(full, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_root(void)
{
    const char *temporary = getenv("TMPDIR");

    snprintf(root, sizeof(root), "%s/test_memory.XXXXXX",
             temporary ? temporary : "/tmp");
    return mkdtemp(root) ? 0 : -1;
}

static int begin(void **state)
{
    watch_begin(state);
    return make_root();
}

static int remove_one(const char *path, const struct stat *status, int type,
                      struct FTW *where)
{
    (void)status;
    (void)type;
    (void)where;
    return remove(path);
}

static int end(void **state)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return watch_end(state);
}

static void check_machine(const struct machine *machine)
{
    struct memory_limits limits;

    for (int i = 0; i < FILES && machine->files[i].path != NULL; i++)
        write_file(machine->files[i].path, machine->files[i].text);
    assert_int_equal(memory_limits(root, &limits), 0);
    if (limits.limit_bytes != machine->limit_bytes ||
        limits.available_bytes != machine->available_bytes ||
        strcmp(limits.cgroup, machine->cgroup) != 0)
        fail_msg("%s: limit %llu, available %llu, group \"%s\"", machine->name,
                 (unsigned long long)limits.limit_bytes,
                 (unsigned long long)limits.available_bytes, limits.cgroup);
    assert_int_equal(limits.host_total_bytes, 64 * gib);
    assert_int_equal(limits.host_available_bytes, 32 * gib);
}

static void finds_the_smallest_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        check_machine(&machines[i]);
        nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        assert_int_equal(make_root(), 0);
    }
}

static void refuses_a_machine_without_figures(void **state)
{
    struct memory_limits limits = {.limit_bytes = 77};

    (void)state;
    expect_log(LOG_LEVEL_ERROR, "/proc/meminfo: No such file");
    assert_int_equal(memory_limits(root, &limits), -ENOENT);

    write_file("/proc/meminfo", "MemTotal: 1024 kB\n");
    expect_log(LOG_LEVEL_ERROR, "lacks MemTotal or MemAvailable");
    assert_int_equal(memory_limits(root, &limits), -EBADMSG);

    write_file("/proc/meminfo", "MemTotal: 10 kB\nMemAvailable: 5 kB\n");
    expect_log(LOG_LEVEL_ERROR, "mountinfo: No such file");
    assert_int_equal(memory_limits(root, &limits), -ENOENT);
    assert_int_equal(limits.limit_bytes, 77);
}

static void reads_this_machine(void **state)
{
    struct memory_limits limits;

    (void)state;
    assert_int_equal(memory_limits("", &limits), 0);
    assert_true(limits.host_total_bytes > 0);
    assert_true(limits.limit_bytes <= limits.host_total_bytes);
    assert_true(limits.available_bytes <= limits.limit_bytes);
    assert_int_equal(limits.cgroup[0] == '\0',
                     limits.limit_bytes == limits.host_total_bytes);
}

#define root_test(function)                                                    \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        root_test(finds_the_smallest_limit),
        root_test(refuses_a_machine_without_figures),
        root_test(reads_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
