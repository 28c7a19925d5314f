/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include "util/hash.h"

/* Values are stored in indexes: they must never change. */
static void values_are_frozen(void **state)
{
    (void)state;
    assert_int_equal(hash_bytes("", 0), 0x2d06800538d394c2);
    assert_int_equal(hash_bytes("a", 1), 0xe6c632b61e964e1f);
    assert_int_equal(hash_bytes("abc", 3), 0x78af5f94892f3950);
    assert_int_equal(hash_path("abc", 3), 0x78af5f94892f3950);
}

static void the_root_is_one(void **state)
{
    (void)state;
    assert_int_equal(hash_path("", 0), HASH_ROOT_ID);
    assert_int_equal(hash_path("ignored", 0), HASH_ROOT_ID);
}

static void paths_are_bytes(void **state)
{
    static const char name[] = "n01440764/\xff\xfe \n.JPEG";

    (void)state;
    assert_int_equal(hash_path(name, sizeof(name) - 1),
                     hash_bytes(name, sizeof(name) - 1));
    assert_true(hash_path("a/b", 3) != hash_path("a/c", 3));
    assert_true(hash_path("a/b", 3) != hash_path("a/bb", 4));
}

static void ids_are_never_reserved(void **state)
{
    char path[32];

    (void)state;
    for (int i = 0; i < 100000; i++) {
        int length = snprintf(path, sizeof(path), "train/%d.jpg", i);
        assert_true(hash_path(path, (size_t)length) > HASH_ROOT_ID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        watched_test(values_are_frozen),
        watched_test(the_root_is_one),
        watched_test(paths_are_bytes),
        watched_test(ids_are_never_reserved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
