/* SPDX-License-Identifier: Apache-2.0 */
/* On the file system of TMPDIR, which has O_DIRECT or not; what a file system
 * without it does is played by the functions at the top. */
#include "tests/unit/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "cache/backing.h"
#include "tests/fakes/temp_folder.h"
#include "util/clock.h"

enum { BIG_BYTES = 3 * 4096 + 1234, ROOM = 1 << 20, FILES = 3000 };

static char folder[PATH_MAX], dataset[PATH_MAX + 16];
static int root_fd;
static struct metrics metrics;
static struct backing *backing;
static char bytes[BIG_BYTES];
static char *buffer;

/* How many direct reads fail with EINVAL, and the most bytes that a read
 * gives; 0: no limit. */
static _Atomic int refused_reads;
static _Atomic size_t short_bytes;
static _Atomic int read_error;

/* Stands before libc's. */
ssize_t pread(int fd, void *to, size_t count, off_t offset)
{
    int flags = fcntl(fd, F_GETFL);
    size_t most = atomic_load(&short_bytes);

    if (atomic_load(&read_error) != 0) {
        errno = atomic_load(&read_error);
        return -1;
    }
    if (flags & O_DIRECT && atomic_load(&refused_reads) > 0) {
        atomic_fetch_sub(&refused_reads, 1);
        errno = EINVAL;
        return -1;
    }
    return syscall(SYS_pread64, fd, to, most && most < count ? most : count,
                   offset);
}

static int begin(void **state)
{
    watch_begin(state);
    atomic_store(&refused_reads, 0);
    atomic_store(&short_bytes, 0);
    atomic_store(&read_error, 0);
    memset(&metrics, 0, sizeof(metrics));
    temp_folder_make(NULL, folder);
    snprintf(dataset, sizeof(dataset), "%s/dataset", folder);
    assert_int_equal(mkdir(dataset, 0755), 0);
    temp_folder_pattern(bytes, BIG_BYTES, 1);
    temp_folder_write(dataset, "big", bytes, BIG_BYTES);
    temp_folder_write(dataset, "empty", "", 0);
    root_fd = open(dataset, O_PATH | O_CLOEXEC);
    assert_true(root_fd >= 0);
    backing = backing_create(root_fd, 0, &metrics);
    assert_non_null(backing);
    buffer = aligned_alloc(4096, ROOM);
    assert_non_null(buffer);
    return 0;
}

static int end(void **state)
{
    log_set_level(LOG_LEVEL_INFO);
    free(buffer);
    backing_destroy(backing);
    close(root_fd);
    temp_folder_remove(folder);
    return watch_end(state);
}

/* Reads and compares with what was written. */
static void check_read(struct backing_file *file, size_t length,
                       uint64_t offset)
{
    size_t start = 77, done = 77;
    size_t left = offset < BIG_BYTES ? BIG_BYTES - (size_t)offset : 0;
    size_t wanted = length < left ? length : left;

    memset(buffer, 0xee, ROOM);
    assert_int_equal(
        backing_read(backing, file, buffer, length, offset, &start, &done), 0);
    assert_int_equal(done, wanted);
    assert_true(start < 4096);
    if (done > 0)
        assert_memory_equal(buffer + start, bytes + offset, done);
}

static void check_reads(struct backing_file *file)
{
    static const uint64_t offsets[] = {0,    1,    4095,  4096,
                                       4097, 8192, 12287, 12288};
    static const size_t lengths[] = {1, 511, 512, 4095, 4096, 4097, 100000};

    for (size_t i = 0; i < 8; i++)
        for (size_t j = 0; j < 7; j++)
            check_read(file, lengths[j], offsets[i]);
    check_read(file, 1, BIG_BYTES - 1);
    check_read(file, 2, BIG_BYTES - 1);
    check_read(file, 1, BIG_BYTES);
    check_read(file, 4096, BIG_BYTES + 1);
    check_read(file, 4096, 1 << 20);
    check_read(file, 4096, 1ULL << 40);
}

static void reads_at_any_offset(void **state)
{
    struct backing_file file;

    (void)state;
    assert_int_equal(backing_open(backing, "big", &file), 0);
    assert_int_equal(file.stat.st_size, BIG_BYTES);
    assert_int_equal(!!(fcntl(file.fd, F_GETFL) & O_DIRECT), file.direct);
    assert_true(fcntl(file.fd, F_GETFD) & FD_CLOEXEC);
    check_reads(&file);
    assert_true(atomic_load(&metrics.source_read_bytes) > BIG_BYTES);
    assert_int_equal(atomic_load(&metrics.source_errors), 0);
    backing_close(&file);
    assert_int_equal(file.fd, -1);
}

static void an_empty_file_has_no_bytes(void **state)
{
    struct backing_file file;
    size_t start, done;

    (void)state;
    assert_int_equal(backing_open(backing, "empty", &file), 0);
    assert_int_equal(file.stat.st_size, 0);
    assert_int_equal(
        backing_read(backing, &file, buffer, 4096, 0, &start, &done), 0);
    assert_int_equal(done, 0);
    backing_close(&file);
}

static void only_the_bytes_asked_for_are_counted(void **state)
{
    struct backing_file file;
    size_t start, done;

    (void)state;
    assert_int_equal(backing_open(backing, "big", &file), 0);
    assert_int_equal(
        backing_read(backing, &file, buffer, 10, 4090, &start, &done), 0);
    assert_int_equal(done, 10);
    assert_int_equal(atomic_load(&metrics.source_read_bytes), 10);
    backing_close(&file);
}

/* Whether the file system takes O_DIRECT at all. */
static bool has_direct(void)
{
    char path[PATH_MAX + 32];

    snprintf(path, sizeof(path), "%s/big", dataset);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    return fd >= 0;
}

static void leaves_o_direct_where_reads_refuse_it(void **state)
{
    struct backing_file file;

    (void)state;
    if (!has_direct())
        skip();
    atomic_store(&refused_reads, 1);
    assert_int_equal(backing_open(backing, "big", &file), 0);
    assert_true(file.direct);
    check_reads(&file);
    assert_false(file.direct);
    assert_int_equal(atomic_load(&refused_reads), 0);
    backing_close(&file);
    assert_int_equal(backing_open(backing, "big", &file), 0);
    assert_false(file.direct);
    check_reads(&file);
    backing_close(&file);
}

/* Short reads that do not end at a page are the end of a file to O_DIRECT, but
 * not without it. */
static void goes_on_after_short_reads(void **state)
{
    static const size_t lengths[] = {1, 1000, 4096, 8192};
    struct backing_file file;

    (void)state;
    atomic_store(&refused_reads, 1);
    for (int i = 0; i < 4; i++) {
        atomic_store(&short_bytes, lengths[i]);
        assert_int_equal(backing_open(backing, "big", &file), 0);
        check_read(&file, BIG_BYTES, 0);
        check_read(&file, 5000, 4097);
        check_read(&file, 100000, 1);
        backing_close(&file);
    }
}

static void goes_on_after_short_direct_reads(void **state)
{
    struct backing_file file;

    (void)state;
    atomic_store(&short_bytes, 4096);
    assert_int_equal(backing_open(backing, "big", &file), 0);
    check_reads(&file);
    backing_close(&file);
}

static void an_error_of_the_source_is_passed_on(void **state)
{
    struct backing_file file;
    size_t start = 77, done = 77;

    (void)state;
    assert_int_equal(backing_open(backing, "big", &file), 0);
    log_set_level(LOG_LEVEL_ERROR); /* a warning at most once a second */
    atomic_store(&read_error, EIO);
    assert_int_equal(
        backing_read(backing, &file, buffer, 4096, 0, &start, &done), -EIO);
    assert_int_equal(done, 77);
    assert_int_equal(atomic_load(&metrics.source_errors), 1);
    assert_int_equal(atomic_load(&metrics.source_read_bytes), 0);
    backing_close(&file);
}

/* tmpfs had no O_DIRECT before Linux 6.6. */
static void works_on_tmpfs(void **state)
{
    char other[PATH_MAX];
    struct backing_file file;

    (void)state;
    if (access("/dev/shm", W_OK) != 0)
        skip();
    temp_folder_make("/dev/shm", other);
    temp_folder_write(other, "big", bytes, BIG_BYTES);
    int fd = open(other, O_PATH | O_CLOEXEC);
    struct backing *second = backing_create(fd, 0, &metrics), *first = backing;
    backing = second;
    assert_int_equal(backing_open(backing, "big", &file), 0);
    check_reads(&file);
    backing_close(&file);
    backing = first;
    backing_destroy(second);
    close(fd);
    temp_folder_remove(other);
}

/* ---- what is not a regular file ---- */

static void make_others(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    assert_int_equal(mkdirat(root_fd, "dir", 0755), 0);
    assert_int_equal(mkfifoat(root_fd, "fifo", 0644), 0);
    assert_int_equal(symlinkat("big", root_fd, "link"), 0);
    assert_int_equal(symlinkat("..", root_fd, "up"), 0);
    assert_int_equal(symlinkat("nowhere", root_fd, "dangling"), 0);
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    AUTO_CLOSE int here = open(".", O_PATH | O_CLOEXEC);
    assert_int_equal(chdir(dataset), 0);
    strcpy(address.sun_path, "socket");
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(fchdir(here), 0);
}

static void opens_nothing_but_files(void **state)
{
    struct backing_file file = {.fd = 77};

    (void)state;
    make_others();
    assert_int_equal(backing_open(backing, "dir", &file), -EINVAL);
    assert_int_equal(backing_open(backing, "", &file), -EINVAL);
    assert_int_equal(backing_open(backing, "fifo", &file), -EINVAL);
    assert_int_equal(backing_open(backing, "nothing", &file), -ENOENT);
    assert_int_equal(backing_open(backing, "big/x", &file), -ENOTDIR);
    assert_int_equal(atomic_load(&metrics.source_errors), 0);
    log_set_level(LOG_LEVEL_ERROR);
    assert_int_equal(backing_open(backing, "link", &file), -ELOOP);
    assert_true(backing_open(backing, "socket", &file) < 0);
    assert_int_equal(file.fd, 77);
}

/* What stands in the place of a file says nothing about the file system. */
static void others_do_not_cost_o_direct(void **state)
{
    static const char *const names[] = {"dir", "fifo", ""};
    struct backing_file file;

    (void)state;
    if (!has_direct())
        skip();
    make_others();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(backing_open(backing, names[i], &file), -EINVAL);
        assert_int_equal(backing_open(backing, "big", &file), 0);
        bool direct = file.direct;
        backing_close(&file);
        if (!direct)
            fail_msg("no O_DIRECT any more after \"%s\"", names[i]);
    }
}

/* Nor does what is mounted inside the dataset: proc has none. */
static void other_devices_do_not_cost_o_direct(void **state)
{
    char place[PATH_MAX + 32];
    struct backing_file file;

    (void)state;
    snprintf(place, sizeof(place), "%s/proc", dataset);
    assert_int_equal(mkdir(place, 0755), 0);
    if (!has_direct() || unshare(CLONE_NEWNS) != 0 ||
        mount("/", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("proc", place, "proc", 0, NULL) != 0)
        skip();
    /* seen in this namespace only */
    close(root_fd);
    root_fd = open(dataset, O_PATH | O_CLOEXEC);
    backing_destroy(backing);
    backing = backing_create(root_fd, 0, &metrics);
    int first = backing_open(backing, "proc/version", &file);
    bool without = first == 0 && !file.direct;
    if (first == 0)
        backing_close(&file);
    int second = backing_open(backing, "big", &file);
    bool with = second == 0 && file.direct;
    if (second == 0)
        backing_close(&file);
    umount2(place, MNT_DETACH);
    assert_int_equal(first, 0);
    assert_int_equal(second, 0);
    assert_true(without);
    assert_true(with);
}

static void an_error_is_logged_and_counted(void **state)
{
    struct backing_file file;

    (void)state;
    make_others();
    clock_sleep_ns(1100000000); /* one message a second */
    expect_log(LOG_LEVEL_WARN, "source: open link: ");
    assert_int_equal(backing_open(backing, "link", &file), -ELOOP);
    assert_int_equal(atomic_load(&metrics.source_errors), 1);
    for (int i = 0; i < 10 && watch_pending(); i++)
        assert_int_equal(backing_open(backing, "link", &file), -ELOOP);
}

static void stats_the_thing_itself(void **state)
{
    struct stat st;

    (void)state;
    make_others();
    assert_int_equal(backing_stat(backing, "big", &st), 0);
    assert_int_equal(st.st_size, BIG_BYTES);
    assert_int_equal(backing_stat(backing, "", &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(backing_stat(backing, "link", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(backing_stat(backing, "dangling", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(backing_stat(backing, "fifo", &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(backing_stat(backing, "socket", &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(backing_stat(backing, "nothing", &st), -ENOENT);
    assert_int_equal(backing_stat(backing, "big/x", &st), -ENOTDIR);
}

static void never_leaves_the_dataset(void **state)
{
    static const char *const paths[] = {
        "..",        "../secret", "dir/../../secret", "/etc/passwd",
        "up/secret", "up",        "dir/../..",        "/",
    };
    struct backing_file file;
    struct stat st;
    char *target = NULL;

    (void)state;
    make_others();
    temp_folder_write(folder, "secret", "secret", 6);
    log_set_level(LOG_LEVEL_ERROR);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        if (backing_open(backing, paths[i], &file) == 0)
            fail_msg("opened %s", paths[i]);
        if (strcmp(paths[i], "up") != 0) {
            if (backing_stat(backing, paths[i], &st) == 0)
                fail_msg("stat %s", paths[i]);
            if (backing_readlink(backing, paths[i], &target) == 0)
                fail_msg("link %s", paths[i]);
        }
    }
    assert_null(target);
}

static void reads_links(void **state)
{
    char long_target[PATH_MAX];
    char *target = NULL;

    (void)state;
    make_others();
    memset(long_target, 't', sizeof(long_target));
    long_target[PATH_MAX - 1] = '\0';
    assert_int_equal(symlinkat(long_target, root_fd, "long"), 0);
    static const char *const names[] = {"link", "up", "dangling", "long"};
    const char *const targets[] = {"big", "..", "nowhere", long_target};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(backing_readlink(backing, names[i], &target), 0);
        assert_string_equal(target, targets[i]);
        free(target);
    }
    target = NULL;
    assert_int_equal(backing_readlink(backing, "nothing", &target), -ENOENT);
    log_set_level(LOG_LEVEL_ERROR);
    assert_true(backing_readlink(backing, "big", &target) < 0);
    assert_null(target);
}

static void gives_the_sources_size(void **state)
{
    struct statvfs st, wanted;

    (void)state;
    assert_int_equal(backing_statvfs(backing, &st), 0);
    assert_int_equal(statvfs(dataset, &wanted), 0);
    assert_int_equal(st.f_blocks, wanted.f_blocks);
    assert_int_equal(st.f_namemax, wanted.f_namemax);
}

/* ---- lists ---- */

struct names {
    unsigned count, sum;
    int stop_at, result;
    bool wrong;
};

static int visit(const char *name, unsigned char type, void *data)
{
    struct names *names = data;

    names->wrong |= type != DT_REG && type != DT_UNKNOWN;
    names->sum += (unsigned)atoi(name);
    names->count++;
    return (int)names->count == names->stop_at ? names->result : 0;
}

static void lists_every_name_once(void **state)
{
    struct names names = {.count = 0};
    struct stat st;

    (void)state;
    assert_int_equal(mkdirat(root_fd, "many", 0755), 0);
    AUTO_CLOSE int fd = openat(root_fd, "many", O_PATH | O_CLOEXEC);
    for (int i = 1; i <= FILES; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d.jpg", i);
        assert_int_equal(linkat(root_fd, "big", fd, name, 0), 0);
    }
    assert_int_equal(backing_list(backing, "many", &st, visit, &names), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(names.count, FILES);
    assert_int_equal(names.sum, FILES * (FILES + 1) / 2);
    assert_false(names.wrong);

    names = (struct names){.stop_at = 5, .result = -EXDEV};
    assert_int_equal(backing_list(backing, "many", &st, visit, &names), -EXDEV);
    assert_int_equal(names.count, 5);

    assert_int_equal(mkdirat(root_fd, "none", 0755), 0);
    names = (struct names){.count = 0};
    assert_int_equal(backing_list(backing, "none", &st, visit, &names), 0);
    assert_int_equal(names.count, 0);
    assert_int_equal(backing_list(backing, "nothing", &st, visit, &names),
                     -ENOENT);
    assert_int_equal(backing_list(backing, "big", &st, visit, &names),
                     -ENOTDIR);
}

/* ---- the bandwidth limit ---- */

enum { RATE = 1 << 20, LIMITED_READS = 40, CHUNK = 12 << 10 };

static struct backing *limited;

static void *read_limited(void *data)
{
    struct backing_file file;
    size_t start, done;
    char *to = aligned_alloc(4096, CHUNK + 4096);

    (void)data;
    for (int i = 0; to && i < LIMITED_READS / 2; i++) {
        if (backing_open(limited, "big", &file) != 0)
            break;
        if (backing_read(limited, &file, to, CHUNK, 0, &start, &done) != 0)
            i = LIMITED_READS;
        backing_close(&file);
    }
    free(to);
    return NULL;
}

static void holds_the_bandwidth_limit(void **state)
{
    pthread_t threads[2];
    uint64_t wanted_ms = LIMITED_READS * CHUNK * 1000ull / RATE;

    (void)state;
    limited = backing_create(root_fd, RATE, &metrics);
    uint64_t begin_ms = clock_now_ms();
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_limited, NULL),
                         0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    uint64_t took_ms = clock_now_ms() - begin_ms;
    backing_destroy(limited);
    assert_int_equal(atomic_load(&metrics.source_read_bytes),
                     LIMITED_READS * CHUNK);
    /* 469 ms, less a burst of 20 */
    assert_in_range(took_ms, wanted_ms * 9 / 10, wanted_ms * 20);
}

#define backing_test(function)                                                 \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        backing_test(reads_at_any_offset),
        backing_test(an_empty_file_has_no_bytes),
        backing_test(only_the_bytes_asked_for_are_counted),
        backing_test(leaves_o_direct_where_reads_refuse_it),
        backing_test(goes_on_after_short_reads),
        backing_test(goes_on_after_short_direct_reads),
        backing_test(an_error_of_the_source_is_passed_on),
        backing_test(works_on_tmpfs),
        backing_test(opens_nothing_but_files),
        backing_test(others_do_not_cost_o_direct),
        backing_test(other_devices_do_not_cost_o_direct),
        backing_test(an_error_is_logged_and_counted),
        backing_test(stats_the_thing_itself),
        backing_test(never_leaves_the_dataset),
        backing_test(reads_links),
        backing_test(gives_the_sources_size),
        backing_test(lists_every_name_once),
        backing_test(holds_the_bandwidth_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
