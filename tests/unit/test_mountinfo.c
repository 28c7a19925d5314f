/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "util/mountinfo.h"

static int table_fd = -1;
static char table_path[64];
static struct mountinfo info;

/* Reads text as a mount table into info. */
static int read_table(const char *text)
{
    size_t length = strlen(text);

    if (table_fd >= 0)
        close(table_fd);
    table_fd = memfd_create("mountinfo", MFD_CLOEXEC);
    assert_true(table_fd >= 0);
    assert_int_equal(write(table_fd, text, length), length);
    snprintf(table_path, sizeof(table_path), "/proc/self/fd/%d", table_fd);
    return mountinfo_init(&info, table_path);
}

static int end(void **state)
{
    mountinfo_fini(&info);
    if (table_fd >= 0)
        close(table_fd);
    table_fd = -1;
    return watch_end(state);
}

static void cuts_lines_into_fields(void **state)
{
    const struct mountinfo_entry *entry;

    (void)state;
    assert_int_equal(
        read_table("21 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n"
                   "36 21 0:52 /a\\040b /mnt/x\\011y\\134\\012z ro - "
                   "fuse.coordlfs /data\\040set ro,user_id=0\n"
                   "37 21 0:53 / /tags rw shared:2 master:3 unbindable - tmpfs "
                   " rw\n"
                   "38 21 259:1048575 / /\xff\xfe\\999 rw - xfs none rw\n"),
        0);
    assert_int_equal(info.count, 4);
    entry = &info.entries[1];
    assert_int_equal(entry->mount_id, 36);
    assert_int_equal(entry->parent_id, 21);
    assert_int_equal(entry->major, 0);
    assert_int_equal(entry->minor, 52);
    assert_string_equal(entry->root, "/a b");
    assert_string_equal(entry->mountpoint, "/mnt/x\ty\\\nz");
    assert_string_equal(entry->options, "ro");
    assert_string_equal(entry->fstype, "fuse.coordlfs");
    assert_string_equal(entry->source, "/data set");
    assert_string_equal(entry->super_options, "ro,user_id=0");
    assert_true(mountinfo_is_coordlfs(entry));
    assert_false(mountinfo_is_coordlfs(&info.entries[0]));
    assert_string_equal(info.entries[2].source, "");
    assert_string_equal(info.entries[2].fstype, "tmpfs");
    assert_int_equal(info.entries[3].minor, 1048575);
    assert_string_equal(info.entries[3].mountpoint, "/\xff\xfe\\999");
    mountinfo_fini(&info);

    /* whatever a path may have, in each of the three fields */
    assert_int_equal(
        read_table("36 21 0:52 /a,b\\040\\043c /m/--x,50%s\\040-\\040\\134040"
                   "\\012'\" ro shared:1 - fuse.coordlfs "
                   "/d\\012-\\040\\043,caf\xe9\\134 ro\n"),
        0);
    assert_int_equal(info.count, 1);
    assert_string_equal(info.entries[0].root, "/a,b #c");
    assert_string_equal(info.entries[0].mountpoint, "/m/--x,50%s - \\040\n'\"");
    assert_string_equal(info.entries[0].source, "/d\n- #,caf\xe9\\");
    assert_true(mountinfo_is_coordlfs(&info.entries[0]));
}

static void refuses_what_is_no_table(void **state)
{
    static const char *const wrong[] = {
        "rubbish\n",
        "21 1 8:2 / / rw - ext4 /dev/sda2\n",
        "21 1 8:2 / / rw shared:1 ext4 /dev/sda2 rw\n",
        "x 1 8:2 / / rw - ext4 /dev/sda2 rw\n",
        "21 1 82 / / rw - ext4 /dev/sda2 rw\n",
        "21 1 8:2x / / rw - ext4 /dev/sda2 rw\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        expect_log(LOG_LEVEL_ERROR, "cannot read the mount table");
        assert_int_equal(read_table(wrong[i]), -EBADMSG);
    }
    expect_log(LOG_LEVEL_ERROR, "/nonexistent/mountinfo: No such file");
    assert_int_equal(mountinfo_init(&info, "/nonexistent/mountinfo"), -ENOENT);
    expect_log(LOG_LEVEL_ERROR, "Is a directory");
    assert_int_equal(mountinfo_init(&info, "/"), -EISDIR);
}

static void reads_large_and_empty_tables(void **state)
{
    enum { LINES = 3000 };
    const size_t line_bytes = 80;
    AUTO_FREE char *text = malloc(LINES * line_bytes);
    size_t length = 0;

    (void)state;
    assert_non_null(text);
    for (int i = 0; i < LINES; i++)
        length += (size_t)snprintf(text + length, line_bytes,
                                   "%d 1 0:%d / /m/%d rw - tmpfs t rw\n", i + 2,
                                   i, i);
    assert_int_equal(read_table(text), 0);
    assert_int_equal(info.count, LINES);
    assert_string_equal(info.entries[LINES - 1].mountpoint, "/m/2999");
    mountinfo_fini(&info);

    assert_int_equal(read_table(""), 0);
    assert_int_equal(info.count, 0);
    assert_null(mountinfo_find_path(&info, "/a"));
    assert_null(mountinfo_find_device(&info, 8, 1));
    assert_null(mountinfo_next_coordlfs(&info, NULL));
}

static void reads_the_table_of_the_kernel(void **state)
{
    (void)state;
    assert_int_equal(mountinfo_init(&info, MOUNTINFO_PATH), 0);
    assert_true(info.count > 0);
}

#define ROOT "21 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
#define FUSE " ro - fuse.coordlfs coordlfs ro\n"
#define TMPFS " rw - tmpfs none rw\n"

static void finds_the_mount_of_a_path(void **state)
{
    const struct {
        const char *table;
        const char *path;
        int wanted; /* mount id, 0 for none */
    } cases[] = {
        {ROOT "30 21 0:40 / /data" FUSE, "/data", 30},
        {ROOT "30 21 0:40 / /data" FUSE, "/data/a/b", 30},
        {ROOT "30 21 0:40 / /data" FUSE, "/database", 0},
        {ROOT "30 21 0:40 / /data" FUSE, "/", 0},
        /* one coordlfs within another, in either order of the lines */
        {ROOT "30 21 0:40 / /data" FUSE "31 30 0:41 / /data/x" FUSE,
         "/data/x/y", 31},
        {ROOT "31 30 0:41 / /data/x" FUSE "30 21 0:40 / /data" FUSE,
         "/data/x/y", 31},
        {ROOT "30 21 0:40 / /data" FUSE "31 30 0:41 / /data/x" FUSE, "/data/z",
         30},
        /* something else within it: the path still lies below the mount */
        {ROOT "30 21 0:40 / /data" FUSE "31 30 0:41 / /data/x" TMPFS,
         "/data/x/y", 30},
        /* stacked on the same mount point */
        {ROOT "30 21 0:40 / /data" FUSE "31 30 0:41 / /data" FUSE, "/data/a",
         31},
        {ROOT "30 21 0:40 / /data" FUSE "31 30 0:41 / /data" TMPFS, "/data/a",
         0},
        {ROOT "30 21 0:40 / /data" TMPFS "31 30 0:41 / /data" FUSE, "/data/a",
         31},
        /* hidden: something was mounted on a folder above */
        {ROOT "30 21 0:40 / /m/data" FUSE "31 21 0:41 / /m" TMPFS, "/m/data/a",
         0},
        {ROOT "30 21 0:40 / /m/data" FUSE "31 21 0:41 / /m" TMPFS
              "32 31 0:42 / /m/data" FUSE,
         "/m/data/a", 32},
        /* a root that was covered, as after booting from an initramfs */
        {"20 1 0:2 / / rw - rootfs none rw\n"
         "21 20 8:2 / / rw - ext4 /dev/sda2 rw\n"
         "30 21 0:40 / /data" FUSE,
         "/data/a", 30},
        /* a chroot: the parent is not in the table; a root of its own parent */
        {"30 21 0:40 / /data" FUSE, "/data/a", 30},
        {"21 21 8:2 / / rw - ext4 /dev/sda2 rw\n30 21 0:40 / /data" FUSE,
         "/data/a", 30},
        /* coordlfs as the root, and a table with a loop */
        {"30 1 0:40 / /" FUSE, "/a", 30},
        {"30 31 0:40 / /data" FUSE "31 30 0:41 / /data" FUSE, "/data", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_table(cases[i].table), 0);
        const struct mountinfo_entry *found =
            mountinfo_find_path(&info, cases[i].path);
        if ((found ? found->mount_id : 0) != cases[i].wanted)
            fail_msg("case %zu: %d", i, found ? found->mount_id : 0);
        mountinfo_fini(&info);
    }
}

static void finds_devices_and_mounts(void **state)
{
    const struct mountinfo_entry *entry;

    (void)state;
    assert_int_equal(
        read_table(ROOT "30 21 0:40 / /data" FUSE "31 21 0:40 /sub /copy" FUSE
                        "32 21 0:41 / /tmp" TMPFS "33 21 0:42 / /other" FUSE),
        0);
    entry = mountinfo_find_device(&info, 0, 40);
    assert_non_null(entry);
    assert_int_equal(entry->mount_id, 30);
    assert_int_equal(mountinfo_count_device(&info, 0, 40), 2);
    assert_int_equal(mountinfo_count_device(&info, 40, 0), 0);
    assert_null(mountinfo_find_device(&info, 40, 0));

    const int wanted[] = {30, 31, 33};
    entry = NULL;
    for (int i = 0; i < 3; i++) {
        entry = mountinfo_next_coordlfs(&info, entry);
        assert_non_null(entry);
        assert_int_equal(entry->mount_id, wanted[i]);
    }
    assert_null(mountinfo_next_coordlfs(&info, entry));
}

static void finds_words_in_options(void **state)
{
    (void)state;
    assert_true(mountinfo_has_option("rw,memory", "memory"));
    assert_true(mountinfo_has_option("memory", "memory"));
    assert_true(mountinfo_has_option("memory,rw", "memory"));
    assert_false(mountinfo_has_option("rw,memory_x", "memory"));
    assert_false(mountinfo_has_option("rw,mem", "memory"));
    assert_false(mountinfo_has_option("", "memory"));
}

#define table_test(function)                                                   \
    cmocka_unit_test_setup_teardown(function, watch_begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        table_test(cuts_lines_into_fields),
        table_test(refuses_what_is_no_table),
        table_test(reads_large_and_empty_tables),
        table_test(reads_the_table_of_the_kernel),
        table_test(finds_the_mount_of_a_path),
        table_test(finds_devices_and_mounts),
        table_test(finds_words_in_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
