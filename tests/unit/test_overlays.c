/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include "fs/overlays.h"

static void finds_layers(void **state)
{
    static const struct {
        char *fstype, *options;
        bool found;
    } cases[] = {
        {"overlay", "rw,lowerdir=/m,upperdir=/u,workdir=/w", true},
        {"overlay", "ro,lowerdir=/a:/m/b", true},
        {"overlay", "ro,lowerdir=/a::/x//../m/", true},
        {"overlay", "rw,lowerdir+=/a,lowerdir+=/m", true},
        {"overlay", "rw,lowerdir+=/a,datadir+=/m", true},
        {"overlay", "rw,lowerdir=/a\\134:/m:/n", false},
        {"overlay", "ro,lowerdir=/a:/m\\134\\054\\040b", false},
        {"overlay", "ro,lowerdir=/a\\134\\054b:/m/a\\134\\134b", true},
        {"overlay", "ro,lowerdir=/m\\", true},
        {"overlay", "rw,lowerdir+=/a:/m", false},
        {"overlay", "ro,lowerdir=/m\\13", false},
        {"overlay", "rw,lowerdir=/mm:m:,upperdir=/m,workdir=/m", false},
        {"overlay", "rw,xlowerdir=/m,lowerdir", false},
        {"overlay", "", false},
        {"ext4", "rw,lowerdir=/m", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct mountinfo_entry entry = {.fstype = cases[i].fstype,
                                        .super_options = cases[i].options};
        struct mountinfo info = {.entries = &entry, .count = 1};
        bool found = overlays_next(&info, "/m", NULL) == &entry;
        if (found != cases[i].found)
            fail_msg("%s", cases[i].options);
        assert_null(overlays_next(&info, "/m", &entry));
    }
}

static void understands_escapes(void **state)
{
    struct mountinfo_entry entries[] = {
        {.fstype = "overlay", .super_options = "rw,lowerdir=/m/x"},
        {.fstype = "overlay",
         .super_options = "rw,lowerdir=/b:/m\\134\\054\\040a\\134:c/x"},
        {.fstype = "ext4", .super_options = "rw"},
        {.fstype = "overlay", .super_options = "rw,lowerdir+=/m\\054\\040a:c"},
    };
    struct mountinfo info = {.entries = entries, .count = 4};
    const struct mountinfo_entry *entry;

    (void)state;
    entry = overlays_next(&info, "/m, a:c", NULL);
    assert_ptr_equal(entry, &entries[1]);
    entry = overlays_next(&info, "/m, a:c", entry);
    assert_ptr_equal(entry, &entries[3]);
    assert_null(overlays_next(&info, "/m, a:c", entry));
    entry = overlays_next(&info, "/m/x", NULL);
    assert_ptr_equal(entry, &entries[0]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        watched_test(finds_layers),
        watched_test(understands_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
