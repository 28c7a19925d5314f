/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of the configuration, the weakest first, each over the one
 * before. The arguments are read twice: once for --config alone, which says
 * what file to read, and once for all that overrides the file.
 *
 * The file is read here and not by a library: those at hand cut long lines
 * without a word (paths may have 4,095 bytes), and do not tell the line. */
#include "util/config.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <string.h>

#include "util/option_text.h"
#include "util/path.h"

/* No configuration is that long: what is, is something else. */
enum { FILE_BYTES_MOST = 1 << 20 };
enum { LABEL_BYTES = PATH_MAX + 128, REASON_BYTES = 512 };

enum pass { FIND_CONFIG, APPLY_ALL };

struct loader {
    struct config config;
    struct config_positional positional;
    enum pass pass;
    struct config_origin source; /* that is being read */
    struct config_origin origins[CONFIG_OPTIONS_MAX];
    char *error;
    size_t error_bytes;
};

/* Words of mount(8) and fstab in -o that change nothing here: the mount is
 * always read-only, nosuid, nodev and open to all users that the modes allow.
 */
static const char *const ignored_words[] = {
    "ro",         "nosuid",   "nodev",       "noatime",
    "nodiratime", "relatime", "exec",        "async",
    "defaults",   "_netdev",  "allow_other", "default_permissions",
    "nofail",     "auto",     "noauto",      "user",
    "users",      "nouser",   "owner",       "group",
    "comment",    "x-*",      "X-*",
};
/* Words that would be a promise not kept. */
static const struct {
    const char *word;
    const char *reason;
} refused_words[] = {
    {"rw", "the mount is read-only; write ro"},
    {"remount", "not possible; unmount and mount again"},
    {"noexec", "not possible; modes are those of the dataset"},
    {"suid", "not possible; the mount is nosuid"},
    {"dev", "not possible; the mount is nodev"},
};

/* Writes one line: what a user typed may have others. */
static int PRINTF_LIKE(2, 3)
    fail(struct loader *loader, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(loader->error, loader->error_bytes, format, arguments);
    va_end(arguments);
    for (char *c = loader->error; loader->error_bytes > 0 && *c != '\0'; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?';
    return -EINVAL;
}

static int fail_unknown(struct loader *loader, const char *where,
                        const char *dashes, const char *name, size_t length,
                        unsigned source)
{
    const char *nearest = options_nearest(name, length, source);
    int shown = (int)(length < 100 ? length : 100);

    if (nearest != NULL)
        return fail(loader, "%sunknown option %s%.*s; did you mean %s%s?",
                    where, dashes, shown, name, dashes, nearest);
    return fail(loader,
                "%sunknown option %s%.*s; see coordlfs help mount for all",
                where, dashes, shown, name);
}

static size_t option_index(const struct option_spec *option)
{
    return (size_t)(option - options_at(0));
}

static int set(struct loader *loader, const struct option_spec *option,
               const char *value, const char *base, const char *label)
{
    char reason[REASON_BYTES];

    int err = options_set(option, &loader->config, value, base, reason,
                          sizeof(reason));
    if (err)
        return fail(loader, "%s: %s", label, reason);
    loader->origins[option_index(option)] = loader->source;
    return 0;
}

static bool is_config(const struct option_spec *option)
{
    return option->offset == offsetof(struct config, config_file);
}

/* Sets an option of the command line in the pass that it belongs to; value is
 * NULL where none was given. */
static int set_argument(struct loader *loader, const struct option_spec *option,
                        const char *value, const char *label)
{
    if (value == NULL) {
        if (option->placeholder != NULL)
            return fail(loader, "%s: a value is missing: %s", label,
                        option->placeholder);
        value = "yes";
    }
    if (is_config(option) != (loader->pass == FIND_CONFIG))
        return 0;
    return set(loader, option, value, NULL, label);
}

static bool is_ignored(const char *word)
{
    for (size_t i = 0; i < sizeof(ignored_words) / sizeof(ignored_words[0]);
         i++)
        if (fnmatch(ignored_words[i], word, 0) == 0)
            return true;
    return false;
}

/* One "name" or "name=value" of -o, which is changed. */
static int apply_mount_word(struct loader *loader, char *word)
{
    char label[LABEL_BYTES];
    char *value = strchr(word, '=');

    if (value != NULL)
        *value++ = '\0';

    const struct option_spec *option = options_find(word, strlen(word));
    if (option != NULL) {
        snprintf(label, sizeof(label), "-o %s", word);
        return set_argument(loader, option, value, label);
    }
    for (size_t i = 0; i < sizeof(refused_words) / sizeof(refused_words[0]);
         i++)
        if (strcmp(word, refused_words[i].word) == 0)
            return fail(loader, "-o %s: %s", word, refused_words[i].reason);
    if (is_ignored(word))
        return 0;
    return fail_unknown(loader, "-o: ", "", word, strlen(word),
                        OPTION_BY_COMMAND);
}

/* The list of a -o: words at commas, "\," is a comma within one. */
static int apply_mount_options(struct loader *loader, const char *list)
{
    AUTO_FREE char *word = malloc(strlen(list) + 1);
    size_t length = 0;

    if (word == NULL)
        return fail(loader, "out of memory");
    for (;; list++) {
        if (list[0] == '\\' && list[1] == ',') {
            word[length++] = *++list;
        } else if (*list == ',' || *list == '\0') {
            word[length] = '\0';
            int err = length > 0 ? apply_mount_word(loader, word) : 0;
            if (err || *list == '\0')
                return err;
            length = 0;
        } else {
            word[length++] = *list;
        }
    }
}

/* One argument that begins with "--". next is the argument after it, or NULL;
 * *used says whether that is its value. */
static int apply_long(struct loader *loader, const char *argument,
                      const char *next, bool *used)
{
    const char *name = argument + 2;
    size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    char label[LABEL_BYTES];

    const struct option_spec *option = options_find(name, length);
    if (option == NULL)
        return fail_unknown(loader, "", "--", name, length, OPTION_BY_COMMAND);
    /* what looks like an option is more likely one than a value */
    if (value == NULL && option->placeholder != NULL && next != NULL &&
        strncmp(next, "--", 2) != 0) {
        value = next;
        *used = true;
    }
    snprintf(label, sizeof(label), "--%s", option->name);
    return set_argument(loader, option, value, label);
}

static int add_positional(struct loader *loader, const char *value)
{
    struct config_positional *positional = &loader->positional;

    if (positional->count == 2)
        return fail(loader,
                    "unexpected argument \"%.100s\" after DATASET and "
                    "MOUNTPOINT",
                    value);
    positional->values[positional->count++] = value;
    return 0;
}

/* One argument before "--"; *used as above. */
static int apply_argument(struct loader *loader, const char *argument,
                          const char *next, bool *used)
{
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
        loader->positional.help = true;
        return 0;
    }
    if (strncmp(argument, "--", 2) == 0)
        return apply_long(loader, argument, next, used);
    if (strncmp(argument, "-o", 2) == 0) {
        const char *list = argument[2] != '\0' ? argument + 2 : next;
        if (list == NULL)
            return fail(loader, "-o: a value is missing: NAME=VALUE,...");
        *used = argument[2] == '\0';
        return apply_mount_options(loader, list);
    }
    if (argument[0] == '-' && argument[1] != '\0')
        return fail_unknown(loader, "", "", argument, strlen(argument),
                            OPTION_BY_COMMAND);
    return add_positional(loader, argument);
}

static int apply_arguments(struct loader *loader, int argc, char **argv,
                           enum pass pass)
{
    bool options = true;

    loader->pass = pass;
    loader->source.kind = CONFIG_BY_COMMAND;
    loader->positional = (struct config_positional){0};
    for (int i = 0; i < argc && !loader->positional.help; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool used = false;
        int err = 0;

        if (!options)
            err = add_positional(loader, argv[i]);
        else if (strcmp(argv[i], "--") == 0)
            options = false;
        else
            err = apply_argument(loader, argv[i], next, &used);
        if (err)
            return err;
        i += used;
    }
    return 0;
}

/* The value of the option's variable, or NULL; its name goes to variable. */
static const char *find_variable(const struct option_spec *option,
                                 char *variable, size_t variable_bytes)
{
    snprintf(variable, variable_bytes, "COORDLFS_%s", option->name);
    for (char *c = variable; *c != '\0'; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);

    const char *value = getenv(variable);
    return value != NULL && *value != '\0' ? value : NULL;
}

static int apply_variable(struct loader *loader,
                          const struct option_spec *option)
{
    char variable[64];
    char label[LABEL_BYTES];

    const char *value = find_variable(option, variable, sizeof(variable));
    if (value == NULL)
        return 0;
    loader->source.kind = CONFIG_BY_ENVIRONMENT;
    snprintf(label, sizeof(label), "environment variable %s", variable);
    return set(loader, option, value, NULL, label);
}

static int apply_environment(struct loader *loader)
{
    const struct option_spec *option;
    int err = 0;

    for (size_t i = 0; err == 0 && (option = options_at(i)) != NULL; i++)
        if ((option->sources & OPTION_BY_ENVIRONMENT) && !is_config(option))
            err = apply_variable(loader, option);
    return err;
}

/* The file being read. */
struct input {
    const char *path;
    char folder[PATH_MAX];
    unsigned line;
    unsigned section;                  /* the line of [mount], 0 for none */
    unsigned seen[CONFIG_OPTIONS_MAX]; /* and of an option */
};

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

/* Paths may hold anything, so what is meant as quotes or as a comment would go
 * unnoticed. */
static const char *find_misuse(const struct option_spec *option,
                               const char *value)
{
    if (*value == '"' || *value == '\'')
        return "write the value without quotes";
    if (option->type == OPTION_PATH &&
        (strstr(value, " #") != NULL || strstr(value, " ;") != NULL))
        return "write the comment on a line of its own";
    return NULL;
}

static int apply_pair(struct loader *loader, struct input *input, char *name,
                      const char *value)
{
    char where[LABEL_BYTES];
    const char *misuse;

    snprintf(where, sizeof(where), "%s:%u: ", input->path, input->line);
    const struct option_spec *option = options_find(name, strlen(name));
    if (option == NULL)
        return fail_unknown(loader, where, "", name, strlen(name),
                            OPTION_BY_FILE);
    if ((option->sources & OPTION_BY_FILE) == 0)
        return fail(loader,
                    "%s%s is for the command line and the environment only",
                    where, option->name);

    unsigned *seen = &input->seen[option_index(option)];
    if (*seen != 0)
        return fail(loader, "%s%s is there twice, first in line %u", where,
                    option->name, *seen);
    *seen = input->line;
    misuse = find_misuse(option, value);
    if (misuse != NULL)
        return fail(loader, "%s%s: %s", where, option->name, misuse);

    size_t length = strlen(where);
    snprintf(where + length, sizeof(where) - length, "%s", option->name);
    return set(loader, option, value, input->folder, where);
}

static int apply_section(struct loader *loader, struct input *input,
                         const char *line)
{
    if (strcmp(line, "[mount]") != 0)
        return fail(loader,
                    "%s:%u: unknown section %.60s; the only one is [mount]",
                    input->path, input->line, line);
    if (input->section != 0)
        return fail(loader,
                    "%s:%u: section [mount] is there twice, first in line %u",
                    input->path, input->line, input->section);
    input->section = input->line;
    return 0;
}

static int apply_line(struct loader *loader, struct input *input, char *line)
{
    line = trim(line);
    if (*line == '\0' || *line == '#' || *line == ';')
        return 0;
    if (*line == '[')
        return apply_section(loader, input, line);

    char *value = strchr(line, '=');
    if (value == NULL || value == line)
        return fail(loader,
                    "%s:%u: \"%.60s\" is not understood; a line is NAME = "
                    "VALUE, [mount], or a comment with #",
                    input->path, input->line, line);
    *value++ = '\0';
    return apply_pair(loader, input, trim(line), trim(value));
}

/* What no text has: control characters but tab and carriage return. */
static bool is_text(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (iscntrl((unsigned char)line[i]) && line[i] != '\t' &&
            line[i] != '\r')
            return false;
    return true;
}

/* Text has length bytes and a NUL after them. */
static int apply_text(struct loader *loader, struct input *input, char *text,
                      size_t length)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    char *end = text + length;

    if (strncmp(text, byte_order_mark, 3) == 0)
        text += 3;
    for (char *line = text; line < end;) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        char *next = newline ? newline + 1 : end;

        if (newline)
            *newline = '\0';
        input->line++;
        loader->source = (struct config_origin){CONFIG_BY_FILE, input->line};
        if (!is_text(line, (size_t)((newline ? newline : end) - line)))
            return fail(loader, "%s:%u: not a text: it has a control character",
                        input->path, input->line);
        int err = apply_line(loader, input, line);
        if (err)
            return err;
        line = next;
    }
    return 0;
}

static int apply_lines(struct loader *loader, struct input *input, FILE *file)
{
    AUTO_FREE char *text = malloc(FILE_BYTES_MOST + 1);

    if (text == NULL)
        return fail(loader, "out of memory");
    size_t length = fread(text, 1, FILE_BYTES_MOST, file);
    int err = 0;
    if (ferror(file))
        err = fail(loader, "cannot read the configuration file %s: %s",
                   input->path, strerror(errno));
    else if (length == FILE_BYTES_MOST)
        err = fail(loader, "%s: not a configuration file: more than 1 MiB",
                   input->path);
    if (err == 0) {
        text[length] = '\0';
        err = apply_text(loader, input, text, length);
    }
    return err;
}

/* Reads config.config_file; where it may be absent and is, empties the name. */
static int apply_file(struct loader *loader, bool may_be_absent)
{
    struct input input = {.path = loader->config.config_file};
    FILE *file = fopen(input.path, "re");

    if (file == NULL && may_be_absent &&
        (errno == ENOENT || errno == ENOTDIR)) {
        loader->config.config_file[0] = '\0';
        return 0;
    }
    if (file == NULL)
        return fail(loader, "cannot open the configuration file %s: %s",
                    input.path, strerror(errno));

    /* an absolute path: there is a slash, and the root keeps its own */
    size_t length = (size_t)(strrchr(input.path, '/') - input.path);
    memcpy(input.folder, input.path, length);
    memcpy(input.folder + length, length == 0 ? "/" : "", length == 0 ? 2 : 1);
    int err = apply_lines(loader, &input, file);
    fclose(file);
    return err;
}

static int apply_defaults(struct loader *loader)
{
    const struct option_spec *option;
    int err = 0;

    for (size_t i = 0; err == 0 && (option = options_at(i)) != NULL; i++)
        if (!is_config(option))
            err = set(loader, option, option->initial, NULL, option->name);
    return err;
}

/* Sets config.config_file from the strongest source; *may_be_absent where that
 * is only the default. */
static int choose_file(struct loader *loader, const char *default_file,
                       bool *may_be_absent)
{
    const struct option_spec *option = options_find("config", 6);

    *may_be_absent = false;
    if (loader->config.config_file[0] != '\0')
        return 0;
    int err = apply_variable(loader, option);
    if (err || loader->config.config_file[0] != '\0')
        return err;
    *may_be_absent = true;
    loader->source.kind = CONFIG_BY_DEFAULT;
    return set(loader, option, default_file, NULL, "configuration file");
}

int config_load_with(const char *default_file, struct config *config, int argc,
                     char **argv, struct config_positional *positional,
                     char *error, size_t error_bytes)
{
    struct loader loader = {.error = error, .error_bytes = error_bytes};
    bool may_be_absent;

    int err = apply_defaults(&loader);
    if (err == 0)
        err = apply_arguments(&loader, argc, argv, FIND_CONFIG);
    if (err == 0 && loader.positional.help) {
        *positional = loader.positional;
        return 0;
    }
    if (err == 0)
        err = choose_file(&loader, default_file, &may_be_absent);
    if (err == 0)
        err = apply_file(&loader, may_be_absent);
    if (err == 0)
        err = apply_environment(&loader);
    if (err == 0)
        err = apply_arguments(&loader, argc, argv, APPLY_ALL);
    if (err)
        return err;
    *config = loader.config;
    *positional = loader.positional;
    memcpy(positional->origins, loader.origins, sizeof(loader.origins));
    return 0;
}

int config_load(struct config *config, int argc, char **argv,
                struct config_positional *positional, char *error,
                size_t error_bytes)
{
    return config_load_with(CONFIG_DEFAULT_FILE, config, argc, argv, positional,
                            error, error_bytes);
}

/* Writes what set the option. */
static void format_origin(const struct option_spec *option,
                          const struct config *config,
                          const struct config_origin *origin, char *out,
                          size_t out_bytes)
{
    char variable[64];

    switch (origin->kind) {
    case CONFIG_BY_DEFAULT:
        snprintf(out, out_bytes, "default");
        return;
    case CONFIG_BY_FILE:
        snprintf(out, out_bytes, "%s:%u", config->config_file, origin->line);
        return;
    case CONFIG_BY_ENVIRONMENT:
        find_variable(option, variable, sizeof(variable));
        snprintf(out, out_bytes, "environment variable %s", variable);
        return;
    case CONFIG_BY_COMMAND:
        snprintf(out, out_bytes, "command line");
        return;
    }
}

void config_print(FILE *out, const struct config *config,
                  const struct config_positional *positional)
{
    const struct option_spec *option;
    char value[PATH_MAX], origin[LABEL_BYTES];

    for (size_t i = 0; (option = options_at(i)) != NULL; i++) {
        option_text_format(option, config, value, sizeof(value));
        format_origin(option, config, &positional->origins[i], origin,
                      sizeof(origin));
        fprintf(out, "%-17s %-24s %s\n", option->name, value, origin);
    }
}
