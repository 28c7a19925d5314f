/* SPDX-License-Identifier: Apache-2.0 */
#include "util/nearest.h"

#include <string.h>

#include "test_main.h"

static const char *best(const char *name)
{
    static const char *const names[] = {"mount", "umount", "status", "stats",
                                        "warm",  "info",   "list"};
    struct nearest nearest;

    nearest_init(&nearest, name, strlen(name));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        nearest_offer(&nearest, names[i]);
    return nearest.best;
}

static void one_letter_off(void **state)
{
    (void)state;
    assert_string_equal(best("moun"), "mount");
    assert_string_equal(best("mountt"), "mount");
    assert_string_equal(best("mounr"), "mount");
    assert_string_equal(best("wram"), "warm");
    assert_string_equal(best("unmount"), "umount");
}

static void the_nearest_of_several(void **state)
{
    (void)state;
    assert_string_equal(best("stat"), "stats");
    assert_string_equal(best("statu"), "status");
    assert_string_equal(best("status"), "status");
}

static void nothing_is_near(void **state)
{
    (void)state;
    assert_null(best(""));
    assert_null(best("x"));
    assert_null(best("prefetch"));
    assert_null(best("mountmountmountmountmountmountmountmountmount"));
}

static void only_the_length_counts(void **state)
{
    struct nearest nearest;

    (void)state;
    nearest_init(&nearest, "warm=yes", 4);
    nearest_offer(&nearest, "warm");
    assert_string_equal(nearest.best, "warm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        watched_test(one_letter_off),
        watched_test(the_nearest_of_several),
        watched_test(nothing_is_near),
        watched_test(only_the_length_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
