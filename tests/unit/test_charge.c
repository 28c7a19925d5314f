/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of this process are charged to its own cgroup; pages that are not
 * mapped are nobody's. Where the kernel does not tell, nothing is claimed. */
#include "fs/charge.h"

#include <sys/mman.h>

#include "tests/unit/test_main.h"

enum { PAGE = 4096, PAGES = 1200 };

static char *make_pages(void)
{
    char *pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(pages, MAP_FAILED);
    return pages;
}

static void touched_pages_are_ours(void **state)
{
    struct charge *charge = charge_create();
    char *pages = make_pages();

    (void)state;
    if (!charge)
        skip();
    for (size_t i = 0; i < PAGES; i++)
        pages[i * PAGE] = 1;
    assert_int_equal(charge_owner(charge, pages, PAGES * PAGE), CHARGE_OURS);
    assert_int_equal(charge_owner(charge, pages, 1), CHARGE_OURS);
    munmap(pages, PAGES * PAGE);
    charge_destroy(charge);
}

static void a_page_that_is_not_there_is_not(void **state)
{
    struct charge *charge = charge_create();
    char *pages = make_pages();

    (void)state;
    if (!charge)
        skip();
    for (size_t i = 0; i + 1 < PAGES; i++)
        pages[i * PAGE] = 1;
    assert_int_equal(charge_owner(charge, pages, PAGES * PAGE), CHARGE_UNKNOWN);
    assert_int_equal(charge_owner(charge, pages, (PAGES - 1) * PAGE),
                     CHARGE_OURS);
    munmap(pages, PAGES * PAGE);
    charge_destroy(charge);
}

static void without_the_kernels_word_nothing_is(void **state)
{
    char *pages = make_pages();

    (void)state;
    pages[0] = 1;
    assert_int_equal(charge_owner(NULL, pages, PAGE), CHARGE_UNKNOWN);
    munmap(pages, PAGES * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        watched_test(touched_pages_are_ours),
        watched_test(a_page_that_is_not_there_is_not),
        watched_test(without_the_kernels_word_nothing_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
