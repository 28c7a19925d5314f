/* SPDX-License-Identifier: Apache-2.0 */
#include "util/option_text.h"

#include <string.h>

/* Texts are at most this wide; option texts of the help start here. */
enum { WIDTH = 80, HELP_COLUMN = 28 };
enum { TEXT_BYTES = 512 };

const char option_text_notes[] =
    "SIZE and RATE are bytes, or a number with K, M, G or T, which are powers "
    "of 1024. Each option can also be written as --NAME=VALUE, as -o "
    "NAME=VALUE,... (\\, is a comma within a value), as a line NAME = VALUE of "
    "the configuration file (not config, foreground and check-config), or as "
    "an environment variable (not check-config): COORDLFS_CACHE_DIR for "
    "--cache-dir.";

void option_text_wrap(FILE *out, const char *text, int column,
                      const char *prefix, int indent)
{
    const int start = (int)strlen(prefix) + indent;
    bool first = true;

    while (*text != '\0') {
        int length = (int)strcspn(text, " ");
        if (!first && column + 1 + length > WIDTH) {
            fprintf(out, "\n%s%*s", prefix, indent, "");
            column = start;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", length, text);
        column += length;
        text += length;
        text += strspn(text, " ");
        first = false;
    }
    fputc('\n', out);
}

void option_text_roff(FILE *out, const char *text)
{
    for (bool begins = true; *text; text++) {
        if (begins && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
        begins = *text == '\n';
    }
}

static const char *initial_text(const struct option_spec *option)
{
    return *option->initial != '\0' ? option->initial : "none";
}

void option_text_help(FILE *out)
{
    const struct option_spec *option;
    char text[TEXT_BYTES];

    fprintf(out, "Options:\n");
    for (size_t i = 0; (option = options_at(i)) != NULL; i++) {
        int column = fprintf(out, "  --%s%s%s", option->name,
                             option->placeholder ? " " : "",
                             option->placeholder ? option->placeholder : "");
        if (column < HELP_COLUMN)
            column += fprintf(out, "%*s", HELP_COLUMN - column, "");
        snprintf(text, sizeof(text), "%s (default: %s)", option->help,
                 initial_text(option));
        option_text_wrap(out, text, column, "", HELP_COLUMN);
    }
    fputc('\n', out);
    option_text_wrap(out, option_text_notes, 0, "", 0);
}

static void print_sample_option(FILE *out, const struct option_spec *option)
{
    char text[TEXT_BYTES];

    snprintf(text, sizeof(text), "%s (%s)", option->help,
             option->placeholder ? option->placeholder : "yes|no");
    fprintf(out, "\n# ");
    option_text_wrap(out, text, 2, "# ", 0);
    fprintf(out, "#%s =%s%s\n", option->name, *option->initial ? " " : "",
            option->initial);
}

void option_text_sample(FILE *out)
{
    const struct option_spec *option;

    fprintf(out, "# SPDX-License-Identifier: Apache-2.0\n#\n# ");
    option_text_wrap(
        out,
        "Configuration of coordlfs mounts. The lines below show the "
        "defaults; remove the # to change one. A comment stands on "
        "a line of its own. The environment (COORDLFS_CACHE_DIR for "
        "cache-dir) and the command line override this file. A "
        "relative path starts at the directory of this file.",
        2, "# ", 0);
    fprintf(out, "\n[mount]\n");
    for (size_t i = 0; (option = options_at(i)) != NULL; i++)
        if (option->sources & OPTION_BY_FILE)
            print_sample_option(out, option);

    fprintf(out, "\n# Not in this file:\n");
    for (size_t i = 0; (option = options_at(i)) != NULL; i++) {
        if (option->sources & OPTION_BY_FILE)
            continue;
        fprintf(out, "#\n# --%s (default: %s)\n#     ", option->name,
                initial_text(option));
        option_text_wrap(out, option->help, 6, "# ", 4);
    }
}

/* A cell of a table: there a | must be escaped, in code too. */
static void print_cell(FILE *out, const char *text)
{
    for (; *text; text++)
        fprintf(out, "%s%c", *text == '|' ? "\\" : "", *text);
}

void option_text_markdown(FILE *out)
{
    const struct option_spec *option;

    fputs("| option | default | meaning |\n|---|---|---|\n", out);
    for (size_t i = 0; (option = options_at(i)) != NULL; i++) {
        fprintf(out, "| `--%s%s", option->name, option->placeholder ? " " : "");
        print_cell(out, option->placeholder ? option->placeholder : "");
        fprintf(out, "` | %s | ", initial_text(option));
        print_cell(out, option->help);
        fputs(" |\n", out);
    }
}

void option_text_man(FILE *out)
{
    const struct option_spec *option;

    for (size_t i = 0; (option = options_at(i)) != NULL; i++) {
        fputs(".TP\n\\fB", out);
        option_text_roff(out, "--");
        option_text_roff(out, option->name);
        fputs("\\fR", out);
        if (option->placeholder) {
            fputs(" \\fI", out);
            option_text_roff(out, option->placeholder);
            fputs("\\fR", out);
        }
        fputc('\n', out);
        option_text_roff(out, option->help);
        fputs(" (default: ", out);
        option_text_roff(out, initial_text(option));
        fputs(")\n", out);
    }
}

void option_text_format(const struct option_spec *option,
                        const struct config *config, char *out,
                        size_t out_bytes)
{
    const void *value = (const char *)config + option->offset;
    const struct size_spec *spec = value;

    switch (option->type) {
    case OPTION_SIZE_SPEC:
        if (spec->kind == SIZE_BYTES)
            options_format_bytes(spec->value, out, out_bytes);
        else if (spec->kind == SIZE_PERCENT)
            snprintf(out, out_bytes, "%llu%%", (unsigned long long)spec->value);
        else
            snprintf(out, out_bytes, "auto");
        return;
    case OPTION_BYTES:
        options_format_bytes(*(const uint64_t *)value, out, out_bytes);
        return;
    case OPTION_NUMBER:
        snprintf(out, out_bytes, "%d", *(const int *)value);
        return;
    case OPTION_PERCENT:
        snprintf(out, out_bytes, "%d%%", *(const int *)value);
        return;
    case OPTION_LEVEL:
        snprintf(out, out_bytes, "%s",
                 log_level_name(*(const enum log_level *)value));
        return;
    case OPTION_PATH:
    case OPTION_ID:
        snprintf(out, out_bytes, "%s",
                 *(const char *)value ? (const char *)value : "none");
        return;
    case OPTION_FLAG:
        snprintf(out, out_bytes, "%s", *(const bool *)value ? "yes" : "no");
        return;
    }
}
