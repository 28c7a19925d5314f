/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/pages.h"

enum { BYTES = 3 * 4096 };

static void pages_are_there_and_zero(void **state)
{
    unsigned char there[BYTES / 4096];
    char *pages = pages_map(BYTES);

    (void)state;
    assert_non_null(pages);
    assert_int_equal(mincore(pages, BYTES, there), 0);
    for (size_t i = 0; i < sizeof(there); i++)
        assert_true(there[i] & 1);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(pages[i], 0);
    assert_int_equal(munmap(pages, BYTES), 0);
}

static void a_child_does_not_get_them(void **state)
{
    unsigned char there[BYTES / 4096];
    char *pages = pages_map(BYTES);
    int status;

    (void)state;
    assert_non_null(pages);
    pid_t pid = fork();
    if (pid == 0)
        _exit(mincore(pages, BYTES, there) == 0 || errno != ENOMEM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(munmap(pages, BYTES), 0);
}

static void too_much_is_refused(void **state)
{
    (void)state;
    assert_null(pages_map((size_t)1 << 60));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        watched_test(pages_are_there_and_zero),
        watched_test(a_child_does_not_get_them),
        watched_test(too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
