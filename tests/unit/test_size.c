/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <errno.h>

#include "util/size.h"

static const uint64_t kib = 1024;

static void parses_sizes(void **state)
{
    const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"4096", 4096},
        {"007", 7},
        {"512B", 512},
        {"1b", 1},
        {"4K", 4 * kib},
        {"4k", 4 * kib},
        {"4KiB", 4 * kib},
        {"4kb", 4 * kib},
        {"4M", 4 * kib * kib},
        {"4mib", 4 * kib * kib},
        {"1.5G", 3 * kib * kib * kib / 2},
        {"0.5k", 512},
        {"0.0000001M", 0},
        {"2T", 2 * kib * kib * kib * kib},
        /* the largest fraction does not overflow */
        {"16777215.999999T", UINT64_MAX - 1099511ULL},
        {"18446744073709551615", UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t bytes = 1;
        assert_int_equal(size_parse(cases[i].text, &bytes), 0);
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void refuses_what_is_no_size(void **state)
{
    static const char *const wrong[] = {
        "",     "12Q", "-1",   "+1",     " 1",
        "1 ",   "1 M", "M",    "1.",     ".5G",
        "1.5",  "1.M", "1.5B", "0x10",   "1e3",
        "4MM",  "4iB", "4Bi",  "4MiBx",  "1,5G",
        "auto", "10%", "4P",   "1.2.3G", "99999999999999999999Q"};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint64_t bytes = 77;
        assert_int_equal(size_parse(wrong[i], &bytes), -EINVAL);
        assert_int_equal(bytes, 77);
    }
}

static void refuses_what_does_not_fit(void **state)
{
    static const char *const large[] = {
        "18446744073709551616", "99999999999999999999", "16777216T",
        "18014398509481984K", "99999999999999T"};

    (void)state;
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        uint64_t bytes = 77;
        assert_int_equal(size_parse(large[i], &bytes), -ERANGE);
        assert_int_equal(bytes, 77);
    }
}

static void formats_sizes(void **state)
{
    const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {65 * kib * kib, "65.0 MiB"},
        {kib * kib - 1, "1.0 MiB"},
        {kib * kib * kib * 1000, "1000.0 GiB"},
        {UINT64_MAX, "16.0 EiB"},
    };
    char text[SIZE_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(size_format(cases[i].bytes, text, sizeof(text)),
                            cases[i].text);
    assert_string_equal(size_format(65 * kib * kib, text, 5), "65.0");
}

static void parses_specs(void **state)
{
    struct size_spec spec;

    (void)state;
    assert_int_equal(size_spec_parse("auto", &spec), 0);
    assert_int_equal(spec.kind, SIZE_AUTO);
    assert_int_equal(size_spec_parse("0%", &spec), 0);
    assert_int_equal(spec.kind, SIZE_PERCENT);
    assert_int_equal(spec.value, 0);
    assert_int_equal(size_spec_parse("100%", &spec), 0);
    assert_int_equal(spec.value, 100);
    assert_int_equal(size_spec_parse("64G", &spec), 0);
    assert_int_equal(spec.kind, SIZE_BYTES);
    assert_int_equal(spec.value, 64 * kib * kib * kib);
    assert_int_equal(size_spec_parse("0", &spec), 0);
    assert_int_equal(spec.value, 0);

    spec.value = 77;
    assert_int_equal(size_spec_parse("200%", &spec), -ERANGE);
    assert_int_equal(size_spec_parse("101%", &spec), -ERANGE);
    assert_int_equal(size_spec_parse("18446744073709551617%", &spec), -ERANGE);
    assert_int_equal(size_spec_parse("99999999T", &spec), -ERANGE);
    assert_int_equal(size_spec_parse("-1%", &spec), -EINVAL);
    assert_int_equal(size_spec_parse("1.5%", &spec), -EINVAL);
    assert_int_equal(size_spec_parse("%", &spec), -EINVAL);
    assert_int_equal(size_spec_parse("5%%", &spec), -EINVAL);
    assert_int_equal(size_spec_parse("AUTO", &spec), -EINVAL);
    assert_int_equal(size_spec_parse("", &spec), -EINVAL);
    assert_int_equal(spec.value, 77);
}

static void resolves_specs(void **state)
{
    struct size_spec spec = {SIZE_BYTES, 4096};

    (void)state;
    assert_int_equal(size_spec_resolve(&spec, 1000, 50), 4096);
    spec = (struct size_spec){SIZE_PERCENT, 65};
    assert_int_equal(size_spec_resolve(&spec, 1000, 50), 650);
    assert_int_equal(size_spec_resolve(&spec, 199, 50), 129);
    spec = (struct size_spec){SIZE_PERCENT, 100};
    assert_int_equal(size_spec_resolve(&spec, UINT64_MAX, 50), UINT64_MAX);
    spec = (struct size_spec){SIZE_AUTO, 0};
    assert_int_equal(size_spec_resolve(&spec, 1000, 50), 500);
    assert_int_equal(size_spec_resolve(&spec, 0, 50), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        watched_test(parses_sizes),
        watched_test(refuses_what_is_no_size),
        watched_test(refuses_what_does_not_fit),
        watched_test(formats_sizes),
        watched_test(parses_specs),
        watched_test(resolves_specs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
