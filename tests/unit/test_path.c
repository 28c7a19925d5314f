/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "util/path.h"

static void makes_paths_absolute(void **state)
{
    const struct {
        const char *path, *base, *wanted;
    } cases[] = {
        {"/", "/x", "/"},
        {"//", "/x", "/"},
        {"/a//b/./c/", "/x", "/a/b/c"},
        {"/a/../../..", "/x", "/"},
        {"/../a", "/x", "/a"},
        {"a", "/x/y", "/x/y/a"},
        {"./a/..", "/x/y", "/x/y"},
        {"../../../a", "/x/y", "/a"},
        {".", "/x/", "/x"},
        {"..", "/", "/"},
        {".", "/", "/"},
        {"..a/...", "/x", "/x/..a/..."},
        {"a b/\xff\xfe", "/\xe9", "/\xe9/a b/\xff\xfe"},
    };
    char out[PATH_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(
            path_absolute(cases[i].path, cases[i].base, out, sizeof(out)), 0);
        assert_string_equal(out, cases[i].wanted);
    }
}

static void starts_at_the_current_directory(void **state)
{
    char out[PATH_MAX];
    char wanted[PATH_MAX + 2];
    char here[PATH_MAX];

    (void)state;
    assert_non_null(getcwd(here, sizeof(here)));
    snprintf(wanted, sizeof(wanted), "%s/a", strcmp(here, "/") ? here : "");
    assert_int_equal(path_absolute("b/../a", NULL, out, sizeof(out)), 0);
    assert_string_equal(out, wanted);
}

static void refuses_empty_and_long_paths(void **state)
{
    char out[8];

    (void)state;
    assert_int_equal(path_absolute("", "/x", out, sizeof(out)), -EINVAL);
    assert_int_equal(path_absolute("/123456", NULL, out, sizeof(out)), 0);
    assert_string_equal(out, "/123456");
    assert_int_equal(path_absolute("/1234567", NULL, out, sizeof(out)),
                     -ENAMETOOLONG);
    assert_int_equal(path_absolute("b", "/12345", out, sizeof(out)),
                     -ENAMETOOLONG);
    assert_int_equal(path_absolute("b", "/1234567", out, sizeof(out)),
                     -ENAMETOOLONG);
    assert_int_equal(path_absolute("/", NULL, out, 1), -ENAMETOOLONG);
}

static void compares_components(void **state)
{
    (void)state;
    assert_true(path_is_inside("/a/b", "/a"));
    assert_true(path_is_inside("/a", "/a"));
    assert_true(path_is_inside("/a", "/"));
    assert_true(path_is_inside("/", "/"));
    assert_false(path_is_inside("/ab", "/a"));
    assert_false(path_is_inside("/a", "/a/b"));
    assert_false(path_is_inside("/", "/a"));
    assert_false(path_is_inside("/b/a", "/a"));
}

/* A tree in a folder of its own, made new for each test. */
struct tree {
    char path[PATH_MAX];
    int fd;
};
static struct tree tree;

static void make_file(int folder_fd, const char *name, const char *text)
{
    AUTO_CLOSE int fd =
        openat(folder_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static int make_tree(void **state)
{
    const char *temporary = getenv("TMPDIR");

    watch_begin(state);
    snprintf(tree.path, sizeof(tree.path), "%s/test_path.XXXXXX",
             temporary ? temporary : "/tmp");
    if (mkdtemp(tree.path) == NULL)
        return -1;
    tree.fd = open(tree.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    make_file(tree.fd, "outside", "outside");
    if (mkdirat(tree.fd, "root", 0755) != 0)
        return -1;
    int root_fd = openat(tree.fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    close(tree.fd);
    tree.fd = root_fd;
    if (mkdirat(root_fd, "class", 0755) != 0 ||
        mkdirat(root_fd, "\xff\xfe\n", 0755) != 0 ||
        symlinkat("../outside", root_fd, "out") != 0 ||
        symlinkat("/etc/passwd", root_fd, "absolute") != 0 ||
        symlinkat("class", root_fd, "within") != 0 ||
        symlinkat("/proc/self/root", root_fd, "magic") != 0)
        return -1;
    make_file(root_fd, "class/image", "image");
    make_file(root_fd, "\xff\xfe\n/\x80", "bytes");
    return 0;
}

/* Below 40 levels of 200 bytes no path reaches: each removal goes by step. */
static void remove_below(int parent_fd, const char *name)
{
    char child[NAME_MAX + 1];

    memset(child, 'd', 200);
    child[200] = '\0';
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    unlinkat(fd, "leaf", 0);
    remove_below(fd, child);
    close(fd);
    unlinkat(parent_fd, name, AT_REMOVEDIR);
}

static int remove_one(const char *path, const struct stat *status, int type,
                      struct FTW *where)
{
    (void)status;
    (void)type;
    (void)where;
    return remove(path);
}

static int remove_tree(void **state)
{
    remove_below(tree.fd, "deep");
    close(tree.fd);
    nftw(tree.path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return watch_end(state);
}

static void assert_reads(const char *path, const char *text)
{
    AUTO_CLOSE int fd = path_open_beneath(tree.fd, path, O_RDONLY);
    char read_text[32] = "";

    assert_true(fd >= 0);
    assert_true(read(fd, read_text, sizeof(read_text) - 1) >= 0);
    assert_string_equal(read_text, text);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static void opens_what_is_beneath(void **state)
{
    struct stat root, opened;

    (void)state;
    assert_reads("class/image", "image");
    assert_reads("class//./image", "image");
    assert_reads("class/../class/image", "image");
    assert_reads("\xff\xfe\n/\x80", "bytes");

    AUTO_CLOSE int fd = path_open_beneath(tree.fd, "", O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &opened), 0);
    assert_int_equal(fstat(tree.fd, &root), 0);
    assert_int_equal(opened.st_ino, root.st_ino);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static void never_leaves_the_root(void **state)
{
    const struct {
        const char *path;
        int err;
    } cases[] = {
        {"..", -EXDEV},
        {"../outside", -EXDEV},
        {"class/../../outside", -EXDEV},
        {"/etc/passwd", -EXDEV},
        {"/", -EXDEV},
        {"out", -ELOOP},
        {"absolute", -ELOOP},
        {"within", -ELOOP},
        {"within/image", -ELOOP},
        {"magic/etc/passwd", -ELOOP},
        {"missing", -ENOENT},
        {"class/image/x", -ENOTDIR},
        {"class/image/", -ENOTDIR},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(path_open_beneath(tree.fd, cases[i].path, O_RDONLY),
                         cases[i].err);
    assert_int_equal(path_open_beneath(-1, "class", O_RDONLY), -EBADF);
}

static void opens_a_symlink_itself(void **state)
{
    AUTO_CLOSE int fd = path_open_beneath(tree.fd, "out", O_PATH | O_NOFOLLOW);
    char target[32] = "";

    (void)state;
    assert_true(fd >= 0);
    assert_true(readlinkat(fd, "", target, sizeof(target) - 1) > 0);
    assert_string_equal(target, "../outside");
}

/* Says no to whatever lies in that folder, and counts. */
static char closed[2 * PATH_MAX];
static int asked;

static bool is_closed(const char *folder, void *data)
{
    assert_ptr_equal(data, &asked);
    asked++;
    return strcmp(folder, closed) == 0;
}

/* The path, with the root of the tree for a '%' at its start. */
static const char *in_tree(const char *path, char *room)
{
    if (*path != '%')
        return path;
    snprintf(room, 2 * PATH_MAX, "%s/root%s", tree.path, path + 1);
    return room;
}

static void follows_links_as_the_kernel_does(void **state)
{
    const struct {
        const char *path, *wanted;
    } cases[] = {
        {"%", "%"},
        {"%/.//", "%"},
        {"%/within", "%/class"},
        {"%/within/", "%/class"},
        {"%/within/image", "%/class/image"},
        {"%/class/../within/.", "%/class"},
        {"%/deep-link", "%/class/below"},
        {"%/deep-link/..", "%/class"},
        {"%/deep-link/../../within/image", "%/class/image"},
        {"%/deep-link/none/x", "%/class/below/none/x"},
        {"%/none/../within", "%/within"},
        {"%/class/image/x/..", "%/class/image"},
        {"%/chain/image", "%/class/image"},
        {"%/to-root/etc", "/etc"},
        {"%/\xff\xfe\n/\x80", "%/\xff\xfe\n/\x80"},
        {"/", "/"},
        {"/..", "/"},
        {"//.//..", "/"},
    };
    char room[2 * PATH_MAX], wanted[2 * PATH_MAX], out[PATH_MAX];

    (void)state;
    assert_int_equal(mkdirat(tree.fd, "class/below", 0755), 0);
    assert_int_equal(symlinkat("class/below", tree.fd, "deep-link"), 0);
    assert_int_equal(symlinkat("./within//", tree.fd, "chain"), 0);
    assert_int_equal(symlinkat("/", tree.fd, "to-root"), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(path_real(in_tree(cases[i].path, room), NULL, NULL,
                                   out, sizeof(out)),
                         0);
        assert_string_equal(out, in_tree(cases[i].wanted, wanted));
    }
    assert_int_equal(fchdir(tree.fd), 0);
    assert_int_equal(path_real("deep-link/..", NULL, NULL, out, sizeof(out)),
                     0);
    assert_string_equal(out, in_tree("%/class", wanted));
    assert_int_equal(chdir("/"), 0);
}

static void looks_into_no_folder_that_is_closed(void **state)
{
    char room[2 * PATH_MAX], wanted[2 * PATH_MAX], out[PATH_MAX];

    (void)state;
    assert_int_equal(symlinkat("../within", tree.fd, "class/link"), 0);
    assert_int_equal(path_real(in_tree("%/within/link", room), is_closed,
                               &asked, out, sizeof(out)),
                     0);
    assert_string_equal(out, in_tree("%/class", wanted));

    /* The folder itself is found, what lies in it is not looked at. */
    snprintf(closed, sizeof(closed), "%s", in_tree("%/class", room));
    assert_int_equal(path_real(in_tree("%/within/link/.", room), is_closed,
                               &asked, out, sizeof(out)),
                     0);
    assert_string_equal(out, in_tree("%/class/link", wanted));
    asked = 0;
    assert_int_equal(path_real("/a/b/c", is_closed, &asked, out, sizeof(out)),
                     0);
    assert_string_equal(out, "/a/b/c");
    assert_int_equal(asked, 1); /* there is no /a to go on from */
}

static void refuses_loops_and_what_is_too_long(void **state)
{
    char room[2 * PATH_MAX], out[PATH_MAX], small[8];
    char target[201];

    (void)state;
    memset(target, 'a', sizeof(target) - 1);
    target[sizeof(target) - 1] = '\0';
    assert_int_equal(symlinkat("loop", tree.fd, "loop"), 0);
    assert_int_equal(
        path_real(in_tree("%/loop", room), NULL, NULL, out, sizeof(out)),
        -ELOOP);
    assert_int_equal(path_real("", NULL, NULL, out, sizeof(out)), -EINVAL);
    assert_int_equal(path_real("/12345678", NULL, NULL, small, sizeof(small)),
                     -ENAMETOOLONG);
    assert_int_equal(path_real("/123456", NULL, NULL, small, sizeof(small)), 0);
    assert_string_equal(small, "/123456");
    assert_int_equal(path_real("/", NULL, NULL, small, 1), -ENAMETOOLONG);
    assert_int_equal(symlinkat(target, tree.fd, "long"), 0);
    size_t length = strlen(in_tree("%", room));
    assert_int_equal(
        path_real(in_tree("%/long", room), NULL, NULL, out, length + 100),
        -ENAMETOOLONG);
}

enum { DEEP_LEVELS = 40, DEEP_NAME = 200 };

/* Makes deep/ddd.../ddd.../leaf and writes the path of the leaf. */
static void make_deep(char *path, int levels)
{
    char name[DEEP_NAME + 1];
    int fd = dup(tree.fd);

    memset(name, 'd', DEEP_NAME);
    name[DEEP_NAME] = '\0';
    size_t length = 0;
    for (int i = 0; i <= levels; i++) {
        const char *part = i == 0 ? "deep" : name;
        assert_int_equal(mkdirat(fd, part, 0755), 0);
        int below = openat(fd, part, O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_true(below >= 0);
        close(fd);
        fd = below;
        length += (size_t)sprintf(path + length, "%s/", part);
    }
    make_file(fd, "leaf", "leaf");
    sprintf(path + length, "leaf");
    close(fd);
}

static void opens_paths_longer_than_the_limit(void **state)
{
    char path[(DEEP_LEVELS + 2) * (DEEP_NAME + 1)];
    char longer[sizeof(path) + 64];

    (void)state;
    make_deep(path, DEEP_LEVELS);
    assert_true(strlen(path) > PATH_MAX);
    assert_reads(path, "leaf");

    /* doubled slashes where the path is cut, at every place it may be */
    for (int slashes = 1; slashes < 40; slashes++) {
        snprintf(longer, sizeof(longer), "deep%.*s%s", slashes,
                 "/////////////////////////////////////////", path + 4);
        assert_reads(longer, "leaf");
    }

    snprintf(longer, sizeof(longer), "%s/x", path);
    assert_int_equal(path_open_beneath(tree.fd, longer, O_RDONLY), -ENOTDIR);
    path[strlen(path) - 5] = '\0';
    snprintf(longer, sizeof(longer), "%s//", path);
    AUTO_CLOSE int fd =
        path_open_beneath(tree.fd, longer, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    snprintf(longer, sizeof(longer), "%s/missing", path);
    assert_int_equal(path_open_beneath(tree.fd, longer, O_RDONLY), -ENOENT);
    snprintf(longer, sizeof(longer), "/%s", path);
    assert_int_equal(path_open_beneath(tree.fd, longer, O_RDONLY), -EXDEV);
}

static void long_paths_follow_no_symlink(void **state)
{
    char path[(DEEP_LEVELS + 2) * (DEEP_NAME + 1)];

    (void)state;
    make_deep(path, DEEP_LEVELS);
    assert_int_equal(symlinkat("deep", tree.fd, "deeq"), 0);
    path[3] = 'q';
    assert_int_equal(path_open_beneath(tree.fd, path, O_RDONLY), -ELOOP);
}

static void refuses_a_long_component(void **state)
{
    char path[2 * PATH_MAX];

    (void)state;
    memset(path, 'a', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(path_open_beneath(tree.fd, path, O_RDONLY), -ENAMETOOLONG);
    path[PATH_MAX - 2] = '\0';
    assert_int_equal(path_open_beneath(tree.fd, path, O_RDONLY), -ENAMETOOLONG);
}

/* Failures of openat2 to come, and their error. */
static int failures;
static int failure;

/* Stands before the one of libc, so that openat2 can be made to fail. How many
 * arguments there are depends on the call: it reads six, as libc does. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
    long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    long values[6];
    va_list arguments;

    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        values[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_openat2 && failures > 0) {
        failures--;
        errno = failure;
        return -1;
    }
    return real(number, values[0], values[1], values[2], values[3], values[4],
                values[5]);
}

static void tries_again(void **state)
{
    (void)state;
    failure = EAGAIN;
    failures = 99;
    assert_reads("class/image", "image");
    assert_int_equal(failures, 0);

    failures = 1000;
    assert_int_equal(path_open_beneath(tree.fd, "class", O_RDONLY), -EAGAIN);
    assert_int_equal(failures, 900);

    failure = EINTR;
    failures = 1000;
    assert_reads("class/image", "image");
    assert_int_equal(failures, 0);

    failure = ENOSYS;
    failures = 1;
    assert_int_equal(path_open_beneath(tree.fd, "class", O_RDONLY), -ENOSYS);
}

#define tree_test(function)                                                    \
    cmocka_unit_test_setup_teardown(function, make_tree, remove_tree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        watched_test(makes_paths_absolute),
        watched_test(starts_at_the_current_directory),
        watched_test(refuses_empty_and_long_paths),
        watched_test(compares_components),
        tree_test(opens_what_is_beneath),
        tree_test(never_leaves_the_root),
        tree_test(opens_a_symlink_itself),
        tree_test(follows_links_as_the_kernel_does),
        tree_test(looks_into_no_folder_that_is_closed),
        tree_test(refuses_loops_and_what_is_too_long),
        tree_test(opens_paths_longer_than_the_limit),
        tree_test(long_paths_follow_no_symlink),
        tree_test(refuses_a_long_component),
        tree_test(tries_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
