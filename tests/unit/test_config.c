/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "util/config.h"
#include "util/option_text.h"

/* The sample file, found from where this file was compiled. */
static const char sample_from_here[] = "../../deploy/coordlfs.conf";

enum { ARGUMENTS = 8 };

static char folder[64];
static char file_path[128];
static char absent_path[128];
static struct config config;
static struct config_positional positional;
static char error[CONFIG_ERROR_BYTES];

/* No variable of the surroundings takes part in a test. */
static void clear_environment(void)
{
    const struct option_spec *option;

    for (size_t i = 0; (option = options_at(i)) != NULL; i++) {
        char name[64];
        snprintf(name, sizeof(name), "COORDLFS_%s", option->name);
        for (char *c = name; *c != '\0'; c++)
            *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        unsetenv(name);
    }
}

static int begin(void **state)
{
    watch_begin(state);
    clear_environment();
    strcpy(folder, "/tmp/test_config.XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(file_path, sizeof(file_path), "%s/coordlfs.conf", folder);
    snprintf(absent_path, sizeof(absent_path), "%s/absent.conf", folder);
    memset(&config, 0xee, sizeof(config));
    memset(error, 0, sizeof(error));
    return 0;
}

static int end(void **state)
{
    unlink(file_path);
    rmdir(folder);
    clear_environment();
    return watch_end(state);
}

static void write_bytes(const char *text, size_t length)
{
    FILE *file = fopen(file_path, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void write_file(const char *text)
{
    write_bytes(text, strlen(text));
}

/* Loads with these arguments, up to a NULL, and file_path as the default. */
static int load(const char *const *arguments)
{
    char *argv[ARGUMENTS + 1] = {NULL};
    int argc = 0;

    for (; argc < ARGUMENTS && arguments[argc] != NULL; argc++)
        argv[argc] = (char *)arguments[argc];
    return config_load_with(file_path, &config, argc, argv, &positional, error,
                            sizeof(error));
}

#define LOAD(...) load((const char *const[ARGUMENTS]){__VA_ARGS__})

static void has_the_defaults(void **state)
{
    (void)state;
    assert_int_equal(LOAD(NULL), 0);
    assert_string_equal(config.dataset, "");
    assert_string_equal(config.mountpoint, "");
    assert_int_equal(config.dram.kind, SIZE_AUTO);
    assert_string_equal(config.cache_dir, "/var/cache/coordlfs");
    assert_string_equal(config.cache_id, "");
    assert_int_equal(config.item_bytes, 4 << 20);
    assert_int_equal(config.source_bandwidth, 0);
    assert_int_equal(config.threads, 0);
    assert_int_equal(config.log_level, LOG_LEVEL_INFO);
    assert_string_equal(config.log_file, "");
    assert_string_equal(config.config_file, "");
    assert_false(config.foreground);
    assert_int_equal(positional.count, 0);
    assert_false(positional.help);
}

static void reads_the_command_line(void **state)
{
    (void)state;
    assert_int_equal(LOAD("--dram", "65%", "/data", "--cache-dir=/c/../d",
                          "--foreground", "/mnt", "-o",
                          "ro,item-bytes=2m,threads=3"),
                     0);
    assert_int_equal(config.dram.kind, SIZE_PERCENT);
    assert_int_equal(config.dram.value, 65);
    assert_string_equal(config.cache_dir, "/d");
    assert_true(config.foreground);
    assert_int_equal(config.item_bytes, 2 << 20);
    assert_int_equal(config.threads, 3);
    assert_int_equal(positional.count, 2);
    assert_string_equal(positional.values[0], "/data");
    assert_string_equal(positional.values[1], "/mnt");

    assert_int_equal(LOAD("--cache-id", "-x", "--", "--dram", "-"), 0);
    assert_string_equal(config.cache_id, "-x");
    assert_int_equal(positional.count, 2);
    assert_string_equal(positional.values[0], "--dram");
    assert_string_equal(positional.values[1], "-");

    assert_int_equal(LOAD("--threads=4", "--threads=5", "--foreground=no",
                          "--log-level", "trace", "--source-bandwidth=1.5G",
                          "--log-file="),
                     0);
    assert_int_equal(config.threads, 5);
    assert_false(config.foreground);
    assert_int_equal(config.log_level, LOG_LEVEL_TRACE);
    assert_int_equal(config.source_bandwidth, 3ULL << 29);
    assert_string_equal(config.log_file, "");
}

static void reads_mount_options(void **state)
{
    (void)state;
    assert_int_equal(
        LOAD("-ocache-dir=/a\\,b,,foreground", "-o",
             "ro,nosuid,nodev,noatime,defaults,allow_other,_netdev,"
             "nofail,auto,noauto,user,x-systemd.requires=/n\\,m,X-mount.x"),
        0);
    assert_string_equal(config.cache_dir, "/a,b");
    assert_true(config.foreground);
    assert_int_equal(LOAD("-o", ""), 0);
    assert_int_equal(LOAD("-o", "foreground=no,log-file=/a\\b=c"), 0);
    assert_false(config.foreground);
    assert_string_equal(config.log_file, "/a\\b=c");
}

static void asks_for_help(void **state)
{
    (void)state;
    assert_int_equal(LOAD("a", "--help", "--nonsense"), 0);
    assert_true(positional.help);
    assert_int_equal(LOAD("--config", "/nonexistent", "-h"), 0);
    assert_true(positional.help);
    assert_int_equal(LOAD("--", "--help"), 0);
    assert_false(positional.help);
}

static void reads_the_file(void **state)
{
    char wanted[256];

    (void)state;
    write_file("\xef\xbb\xbf# comment\r\n"
               "; comment\r\n"
               "\r\n"
               "[mount]\r\n"
               "  dram =  64G  \r\n"
               "cache-dir=cache dir\t\n"
               "log-file = ../log=x\n"
               "cache-id =\n"
               "item-bytes = 1M");
    assert_int_equal(LOAD(NULL), 0);
    assert_int_equal(config.dram.value, 64ULL << 30);
    snprintf(wanted, sizeof(wanted), "%s/cache dir", folder);
    assert_string_equal(config.cache_dir, wanted);
    assert_string_equal(config.log_file, "/tmp/log=x");
    assert_int_equal(config.item_bytes, 1 << 20);
    assert_string_equal(config.config_file, file_path);
}

static void stronger_sources_win(void **state)
{
    (void)state;
    write_file("[mount]\nthreads = 1\nitem-bytes = 1M\ndram = 1G\n");
    setenv("COORDLFS_ITEM_BYTES", "2M", 1);
    setenv("COORDLFS_DRAM", "2G", 1);
    setenv("COORDLFS_LOG_LEVEL", "", 1);
    setenv("COORDLFS_FOREGROUND", "true", 1);
    setenv("COORDLFS_SERVICE_HOST", "10.0.0.1", 1);
    assert_int_equal(LOAD("--dram", "3G"), 0);
    unsetenv("COORDLFS_SERVICE_HOST");
    assert_int_equal(config.threads, 1);
    assert_int_equal(config.item_bytes, 2 << 20);
    assert_int_equal(config.dram.value, 3ULL << 30);
    assert_int_equal(config.log_level, LOG_LEVEL_INFO);
    assert_true(config.foreground);
}

static void chooses_the_file(void **state)
{
    char argument[256];
    char here[PATH_MAX];

    (void)state;
    write_file("[mount]\nthreads = 7\n");
    setenv("COORDLFS_CONFIG", absent_path, 1);
    snprintf(argument, sizeof(argument), "--config=%s", file_path);
    assert_int_equal(LOAD(argument), 0);
    assert_int_equal(config.threads, 7);

    assert_int_equal(LOAD(NULL), -EINVAL);
    assert_non_null(strstr(error, absent_path));
    setenv("COORDLFS_CONFIG", file_path, 1);
    assert_int_equal(config_load_with(absent_path, &config, 0, NULL,
                                      &positional, error, sizeof(error)),
                     0);
    assert_int_equal(config.threads, 7);
    unsetenv("COORDLFS_CONFIG");
    assert_int_equal(LOAD("-o", "config=/nonexistent/x"), -EINVAL);
    assert_non_null(strstr(error, "/nonexistent/x: No such file"));

    /* a relative name becomes absolute */
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir(folder), 0);
    int err = LOAD("--config", "coordlfs.conf", "--cache-dir", "x/..");
    assert_int_equal(chdir(here), 0);
    assert_int_equal(err, 0);
    assert_string_equal(config.config_file, file_path);
    assert_string_equal(config.cache_dir, folder);
}

static void says_what_is_wrong_in_arguments(void **state)
{
    const struct {
        const char *arguments[ARGUMENTS];
        const char *wanted[3];
    } cases[] = {
        {{"--drma", "4M"}, {"unknown option --drma; did you mean --dram?"}},
        {{"--cache_dir=x"}, {"did you mean --cache-dir?"}},
        {{"--nonsense"}, {"unknown option --nonsense; see coordlfs help"}},
        {{"--"
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
         {"unknown option --aaa"}},
        {{"-x"}, {"unknown option -x"}},
        {{"--dram", "12Q"}, {"--dram: \"12Q\"", "auto", "64G"}},
        {{"--dram", "-1"}, {"--dram: \"-1\" is not valid"}},
        {{"--dram", "200%"}, {"--dram: \"200%\" is out of range", "100%"}},
        {{"--dram="}, {"--dram: \"\" is not valid"}},
        {{"--dram"}, {"--dram: a value is missing: SIZE"}},
        {{"--dram", "--foreground"}, {"--dram: a value is missing"}},
        {{"--item-bytes", "1000K"}, {"out of range", "from 1M to 64M", "4096"}},
        {{"--item-bytes=1048577"}, {"out of range", "multiple of 4096"}},
        {{"--item-bytes=65M"}, {"out of range"}},
        {{"--item-bytes=99999999T"}, {"out of range"}},
        {{"--source-bandwidth=fast"}, {"--source-bandwidth: \"fast\""}},
        {{"--threads=65"}, {"--threads: \"65\"", "from 0 to 64"}},
        {{"--threads=99999999999999999999"}, {"out of range"}},
        {{"--threads=-1"}, {"not valid"}},
        {{"--threads="}, {"not valid"}},
        {{"--threads=2x"}, {"not valid"}},
        {{"--log-level=loud"}, {"error, warn, info, debug or trace"}},
        {{"--cache-id=.a"}, {"first not '.'"}},
        {{"--cache-id=a/b"}, {"--cache-id: \"a/b\" is not valid"}},
        {{"--cache-dir="}, {"--cache-dir: \"\" is not valid"}},
        {{"--config="}, {"--config: \"\" is not valid"}},
        {{"--foreground=maybe"}, {"--foreground: \"maybe\"", "yes or no"}},
        {{"a", "b", "c"}, {"unexpected argument \"c\""}},
        {{"--", "a", "b", "--dram"}, {"unexpected argument \"--dram\""}},
        {{"-o"}, {"-o: a value is missing"}},
        {{"-o", "rw"}, {"-o rw: the mount is read-only"}},
        {{"-o", "ro,remount"}, {"-o remount: not possible"}},
        {{"-o", "noexec"}, {"-o noexec: not possible"}},
        {{"-o", "drma=4M"}, {"-o: unknown option drma; did you mean dram?"}},
        {{"-o", "dram"}, {"-o dram: a value is missing"}},
        {{"-o", "ro,threads=x"}, {"-o threads: \"x\" is not valid"}},
        {{"--dram", "a\nb\x1b"}, {"--dram: \"a?b?\" is not valid"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(load(cases[i].arguments), -EINVAL);
        for (int j = 0; j < 3 && cases[i].wanted[j] != NULL; j++)
            if (strstr(error, cases[i].wanted[j]) == NULL)
                fail_msg("\"%s\" is not in: %s", cases[i].wanted[j], error);
        assert_null(strchr(error, '\n'));
        assert_int_equal((unsigned char)config.cache_dir[0], 0xee);
    }
}

static void says_what_is_wrong_in_the_file(void **state)
{
    const struct {
        const char *text, *wanted;
    } cases[] = {
        {"[mount]\n\ndrma = 4M\n",
         ":3: unknown option drma; did you mean dram"},
        {"[prep]\n", ":1: unknown section [prep]"},
        {"[mount\n", ":1: unknown section [mount"},
        {"[mount] x\n", ":1: unknown section"},
        {"[mount]\ndram = 1G\n[mount]\n",
         ":3: section [mount] is there twice, first in line 1"},
        {"[mount]\n\177ELF\2\1\1 = 3\n", ":2: not a text: it has"},

        {"[mount]\ndram = 1G\n\ndram = 1G\n",
         ":4: dram is there twice, first in line 2"},
        {"[mount]\nthreads = x\n", ":2: threads: \"x\" is not valid; allowed"},
        {"[mount]\nnothing\n", ":2: \"nothing\" is not understood"},
        {"[mount]\n= 4\n", ":2: \"= 4\" is not understood"},
        {"[mount]\nforeground = yes\n", ":2: foreground is for the command"},
        {"[mount]\nconfig = /x\n", ":2: config is for the command line"},
        {"[mount]\nfoo = /x\n", ":2: unknown option foo; see"},
        {"[mount]\ndram = 1G # much\n", ":2: dram: \"1G # much\" is not"},
        {"[mount]\ncache-dir = /x # fast\n",
         ":2: cache-dir: write the comment on a line of its own"},
        {"[mount]\ncache-dir = \"/x\"\n",
         ":2: cache-dir: write the value without quotes"},
        {"[mount]\ncache-dir =\n", ":2: cache-dir: \"\" is not valid"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_file(cases[i].text);
        assert_int_equal(LOAD(NULL), -EINVAL);
        if (strncmp(error, file_path, strlen(file_path)) != 0 ||
            strstr(error, cases[i].wanted) == NULL)
            fail_msg("\"%s\" is not in: %s", cases[i].wanted, error);
    }
    write_bytes("[mount]\ndram = 1\0G\n", 19);
    assert_int_equal(LOAD(NULL), -EINVAL);
    assert_non_null(strstr(error, ":2: not a text"));
    assert_int_equal(LOAD("--config", folder), -EINVAL);
    assert_non_null(strstr(error, "Is a directory"));
}

static void says_what_is_wrong_in_the_environment(void **state)
{
    (void)state;
    setenv("COORDLFS_CACHE_ID", "a b", 1);
    assert_int_equal(LOAD(NULL), -EINVAL);
    assert_non_null(
        strstr(error, "environment variable COORDLFS_CACHE_ID: \"a b\""));
}

static void never_cuts_a_value(void **state)
{
    char text[PATH_MAX + 64];
    char small[16];

    (void)state;
    memset(text, 'a', sizeof(text));
    text[0] = '/';
    text[PATH_MAX - 1] = '\0';
    assert_int_equal(LOAD("--cache-dir", text), 0);
    assert_string_equal(config.cache_dir, text);
    text[PATH_MAX - 1] = 'a';
    text[PATH_MAX] = '\0';
    assert_int_equal(LOAD("--cache-dir", text), -EINVAL);
    assert_non_null(strstr(error, "is too long; allowed: a path of at most"));
    text[65] = '\0';
    assert_int_equal(LOAD("--cache-id", text + 1), 0);
    assert_int_equal(strlen(config.cache_id), 64);
    memset(text, 'a', 65);
    assert_int_equal(LOAD("--cache-id", text), -EINVAL);
    assert_non_null(strstr(error, "is too long"));

    /* lines of the file too */
    int n = sprintf(text, "[mount]\ncache-dir = /");
    memset(text + n, 'b', 4000);
    text[n + 4000] = '\0';
    write_file(text);
    assert_int_equal(LOAD(NULL), 0);
    assert_int_equal(strlen(config.cache_dir), 4001);

    /* only the message is cut to the caller's buffer */
    char *argv[] = {(char *)"--nonsense"};
    assert_int_equal(config_load_with(absent_path, &config, 1, argv,
                                      &positional, small, sizeof(small)),
                     -EINVAL);
    assert_string_equal(small, "unknown option ");
}

/* Prints into a string that the caller frees. */
static char *print(void (*printer)(FILE *))
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    printer(out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void help_is_complete_and_narrow(void **state)
{
    AUTO_FREE char *text = print(option_text_help);
    const struct option_spec *option;
    char *rest = text;
    char *line;

    (void)state;
    for (size_t i = 0; (option = options_at(i)) != NULL; i++) {
        char heading[64];
        snprintf(heading, sizeof(heading), "\n  --%s ", option->name);
        assert_non_null(strstr(text, heading));
    }
    while ((line = strsep(&rest, "\n")) != NULL) {
        assert_true(strlen(line) <= 80);
        assert_true(*line == '\0' || line[strlen(line) - 1] != ' ');
    }
}

static void the_sample_is_the_deployed_file(void **state)
{
    AUTO_FREE char *text = print(option_text_sample);
    AUTO_FREE char *deployed = calloc(1, 65536);
    char path[PATH_MAX];
    int length = (int)(strrchr(__FILE__, '/') - __FILE__);

    (void)state;
    snprintf(path, sizeof(path), "%.*s/%s", length, __FILE__, sample_from_here);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(deployed);
    assert_true(fread(deployed, 1, 65535, file) > 0);
    fclose(file);
    assert_string_equal(text, deployed);
}

static void the_sample_can_be_used(void **state)
{
    AUTO_FREE char *text = print(option_text_sample);
    const struct option_spec *option;
    int uncommented = 0;
    int wanted = 0;

    (void)state;
    for (size_t i = 0; (option = options_at(i)) != NULL; i++)
        wanted += (option->sources & OPTION_BY_FILE) != 0;
    write_file(text);
    assert_int_equal(LOAD(NULL), 0);
    /* with each "#name = default" made a setting it sets the defaults */
    for (char *c = text; (c = strstr(c, "\n#")) != NULL; c += 2)
        if (islower((unsigned char)c[2])) {
            c[1] = ' ';
            uncommented++;
        }
    assert_int_equal(uncommented, wanted);
    write_file(text);
    struct config before = config;
    assert_int_equal(LOAD(NULL), 0);
    assert_memory_equal(&before.dram, &config.dram, sizeof(config.dram));
    assert_string_equal(before.cache_dir, config.cache_dir);
    assert_int_equal(before.item_bytes, config.item_bytes);
}

static void the_values_are_printed_with_their_sources(void **state)
{
    static const struct {
        const char *name;
        const char *value;
        const char *source; /* NULL: the file, in that line */
        int line;
    } expected[] = {
        {"dram", "25%", "command line", 0},
        {"cache-id", "x", "environment variable COORDLFS_CACHE_ID", 0},
        {"item-bytes", "1536K", NULL, 3},
        {"threads", "3", NULL, 2},
        {"log-level", "debug", NULL, 5},
        {"free-space", "10%", "default", 0},
        {"log-file", "none", "default", 0},
    };
    AUTO_FREE char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    (void)state;
    assert_non_null(out);
    write_file("[mount]\nthreads = 3\nitem-bytes = 1536K\ndram = 1G\n"
               "log-level = debug\n");
    setenv("COORDLFS_CACHE_ID", "x", 1);
    assert_int_equal(LOAD("--dram=25%"), 0);
    config_print(out, &config, &positional);
    assert_int_equal(fclose(out), 0);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        char source[160], line[256];
        snprintf(source, sizeof(source), "%s:%d", file_path, expected[i].line);
        snprintf(line, sizeof(line), "%-17s %-24s %s\n", expected[i].name,
                 expected[i].value,
                 expected[i].source ? expected[i].source : source);
        if (!strstr(text, line))
            fail_msg("\"%s\" is not in:\n%s", line, text);
    }
}

static void a_long_file_is_no_configuration(void **state)
{
    enum { LONG = (1 << 20) + 1 };
    AUTO_FREE char *text = malloc(LONG);

    (void)state;
    assert_non_null(text);
    memset(text, '\n', LONG);
    write_bytes(text, LONG);
    assert_int_equal(LOAD(NULL), -EINVAL);
    assert_non_null(strstr(error, "more than 1 MiB"));
}

#define config_test(function)                                                  \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        config_test(has_the_defaults),
        config_test(reads_the_command_line),
        config_test(reads_mount_options),
        config_test(asks_for_help),
        config_test(reads_the_file),
        config_test(stronger_sources_win),
        config_test(chooses_the_file),
        config_test(says_what_is_wrong_in_arguments),
        config_test(says_what_is_wrong_in_the_file),
        config_test(says_what_is_wrong_in_the_environment),
        config_test(never_cuts_a_value),
        config_test(help_is_complete_and_narrow),
        config_test(the_sample_is_the_deployed_file),
        config_test(the_sample_can_be_used),
        config_test(the_values_are_printed_with_their_sources),
        config_test(a_long_file_is_no_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
