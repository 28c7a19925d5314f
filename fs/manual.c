/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/manual.h"

#include <string.h>

#include "fs/control.h"
#include "util/option_text.h"

enum { SUMMARY_COLUMN = 6, OPTION_COLUMN = 20 };

static const char about[] =
    "PATH is any path in a mount, and may be left out when there is only one. "
    "Options may stand anywhere; what follows -- is none.";
static const char exit_codes[] = "Exit codes: 0 done, 1 failed, 2 usage, 3 not "
                                 "mounted, 4 busy.";

/* ---- help ---- */

void manual_print_commands(FILE *out)
{
    const struct command *command;

    fputs("coordlfs: a dataset behind a cache that never evicts\n\n", out);
    for (size_t i = 0; (command = commands_at(i)); i++)
        fprintf(out, "  coordlfs %s%s%s\n%*s%s\n", command->name,
                *command->synopsis ? " " : "", command->synopsis,
                SUMMARY_COLUMN, "", command->summary);
    fputc('\n', out);
    option_text_wrap(out, "coordlfs help COMMAND explains one.", 0, "", 0);
    option_text_wrap(out, about, 0, "", 0);
    option_text_wrap(out, exit_codes, 0, "", 0);
}

/* What the summary begins with as a sentence. */
static int capital(const struct command *command)
{
    return command->summary[0] - 'a' + 'A';
}

static void print_options(FILE *out, const struct command *command)
{
    const struct command_option *option = command->options;

    if (option->name)
        fputc('\n', out);
    for (int i = 0; i < COMMAND_OPTIONS && option[i].name; i++) {
        int column = fprintf(
            out, "  %s%s%s", option[i].name, option[i].placeholder ? " " : "",
            option[i].placeholder ? option[i].placeholder : "");
        column +=
            fprintf(out, "%*s",
                    column < OPTION_COLUMN ? OPTION_COLUMN - column : 1, "");
        option_text_wrap(out, option[i].help, column, "", OPTION_COLUMN);
    }
}

void manual_print_command(FILE *out, const struct command *command)
{
    fprintf(out, "coordlfs %s%s%s\n\n%c%s.\n", command->name,
            *command->synopsis ? " " : "", command->synopsis, capital(command),
            command->summary + 1);
    if (command->help) {
        fputc('\n', out);
        option_text_wrap(out, command->help, 0, "", 0);
    }
    print_options(out, command);
    if (command->arguments == ARGUMENTS_PATH) {
        fputc('\n', out);
        option_text_wrap(out, about, 0, "", 0);
    }
    if (command->takes_mount_options) {
        fputc('\n', out);
        option_text_help(out);
    }
}

/* ---- the manual ---- */

/* A synopsis: what is in capitals in italics, the rest as it is. */
static void man_synopsis(FILE *out, const char *text)
{
    bool italic = false;

    for (; *text; text++) {
        bool capital = *text >= 'A' && *text <= 'Z';
        if (capital != italic)
            fputs(capital ? "\\fI" : "\\fR", out);
        italic = capital;
        option_text_roff(out, (char[]){*text, '\0'});
    }
    if (italic)
        fputs("\\fR", out);
}

static void man_command(FILE *out, const struct command *command)
{
    const struct command_option *option = command->options;

    fprintf(out, ".SS %s\n.B coordlfs %s\n", command->name, command->name);
    if (*command->synopsis) {
        man_synopsis(out, command->synopsis);
        fputc('\n', out);
    }
    fputs(".PP\n", out);
    if (command->help) {
        option_text_roff(out, command->help);
    } else {
        fputc(capital(command), out);
        option_text_roff(out, command->summary + 1);
        fputc('.', out);
    }
    fputc('\n', out);
    for (int i = 0; i < COMMAND_OPTIONS && option[i].name; i++) {
        fputs(".TP\n\\fB", out);
        option_text_roff(out, option[i].name);
        fputs("\\fR", out);
        if (option[i].placeholder)
            fprintf(out, " \\fI%s\\fR", option[i].placeholder);
        fputc('\n', out);
        option_text_roff(out, option[i].help);
        fputc('\n', out);
    }
}

static void man_item(FILE *out, const char *term, const char *text)
{
    fputs(".TP\n", out);
    option_text_roff(out, term);
    fputc('\n', out);
    option_text_roff(out, text);
    fputc('\n', out);
}

static void man_ending(FILE *out)
{
    fputs(".SH EXIT STATUS\n", out);
    man_item(out, "0", "done");
    man_item(out, "1",
             "failed; of doctor, verify and warm --check: something "
             "was found");
    man_item(out, "2", "wrong usage, or a wrong configuration");
    man_item(out, "3", "not mounted");
    man_item(out, "4", "in use");
    fputs(".SH FILES\n", out);
    man_item(out, CONFIG_DEFAULT_FILE, "configuration of all mounts");
    man_item(out, "/var/cache/coordlfs", "index and cached files");
    man_item(out, CONTROL_FOLDER,
             "sockets through which the commands speak "
             "to the mounts");
    fputs(".SH EXAMPLES\n", out);
    man_item(out, "coordlfs mount /data/imagenet",
             "the dataset, cached, at the same path");
    man_item(out,
             "coordlfs mount --dram 64G --cache-dir /nvme/coordlfs "
             "/data/imagenet /mnt/imagenet",
             "the same at another path, with a cache in memory and on a local "
             "disk");
    man_item(out, "coordlfs warm /data/imagenet/train",
             "cache a part of it before the first epoch");
    man_item(out, "coordlfs doctor /data/imagenet",
             "look for what may be in the way");
    fputs(".SH SEE ALSO\n.BR mount (8),\n.BR fuse (4)\n", out);
}

void manual_print_man(FILE *out)
{
    const struct command *command;

    fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n"
          ".TH COORDLFS 8 \"\" \"coordlfs " COORDLFS_VERSION "\" \"System "
          "administration\"\n.SH NAME\ncoordlfs \\- a dataset behind a cache "
          "that never evicts\n.SH SYNOPSIS\n",
          out);
    for (size_t i = 0; (command = commands_at(i)); i++) {
        fprintf(out, "%s.B coordlfs %s\n", i > 0 ? ".br\n" : "", command->name);
        if (*command->synopsis) {
            man_synopsis(out, command->synopsis);
            fputc('\n', out);
        }
    }
    fputs(".SH DESCRIPTION\n", out);
    option_text_roff(
        out, "coordlfs is a read-only FUSE file system for training jobs. It "
             "puts a dataset directory behind a cache in memory and on a local "
             "disk. The cache is filled once and never evicts, so an epoch "
             "reads from the dataset only what there is no room for. What is "
             "cached in memory is served by the kernel alone.\n");
    fputs(".PP\n", out);
    option_text_roff(out, about);
    fputs("\n.SH COMMANDS\n", out);
    for (size_t i = 0; (command = commands_at(i)); i++)
        man_command(out, command);
    fputs(".SH OPTIONS OF MOUNT\n", out);
    option_text_man(out);
    fputs(".SH CONFIGURATION\n", out);
    option_text_roff(out, option_text_notes);
    fputs("\n.PP\n", out);
    option_text_roff(
        out, "The command line is the strongest, then the environment, then "
             "the file. A file may have the section [mount], and comments "
             "after # on lines of their own. coordlfs mount --check-config "
             "says what holds. -o also takes what mount(8) passes, such as ro "
             "and noatime.\n");
    man_ending(out);
}

/* ---- completion ---- */

static const char completion_begin[] =
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# Completion of coordlfs for bash.\n"
    "# shellcheck shell=bash\n"
    "\n"
    "_coordlfs_words() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- "
    "\"$2\"); "
    "}\n"
    "\n"
    "_coordlfs_files() {\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen -A \"$1\" -- \"$2\")\n"
    "}\n"
    "\n"
    "_coordlfs() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    local command=${COMP_WORDS[1]} options arguments\n"
    "\n"
    "    COMPREPLY=()\n";

/* The kind of a value by its placeholder: directories, files, or the words
 * that it names. */
static void completion_value(FILE *out, const struct option_spec *option)
{
    fprintf(out, "    --%s)\n        ", option->name);
    if (strcmp(option->placeholder, "DIR") == 0)
        fputs("_coordlfs_files directory \"$cur\"\n", out);
    else if (strcmp(option->placeholder, "FILE") == 0)
        fputs("_coordlfs_files file \"$cur\"\n", out);
    else if (option->type == OPTION_LEVEL)
        fputs("_coordlfs_words 'error warn info debug trace' \"$cur\"\n", out);
    else if (option->type == OPTION_SIZE_SPEC)
        fputs("_coordlfs_words 'auto 0 25% 50% 75%' \"$cur\"\n", out);
    else
        fputs(":\n", out);
    fputs("        return\n        ;;\n", out);
}

static void completion_command(FILE *out, const struct command *command)
{
    static const char *const kinds[] = {"none", "file", "directory", "command"};
    const struct option_spec *spec;

    fprintf(out, "    %s)\n        arguments='%s'\n        options='--help",
            strcmp(command->name, "warm") == 0 ? "warm | warmup"
                                               : command->name,
            kinds[command->arguments]);
    for (int i = 0; i < COMMAND_OPTIONS && command->options[i].name; i++)
        fprintf(out, " %s", command->options[i].name);
    for (size_t i = 0; command->takes_mount_options && (spec = options_at(i));
         i++)
        fprintf(out, " --%s", spec->name);
    fputs("'\n        ;;\n", out);
}

void manual_print_completion(FILE *out)
{
    const struct command *command;
    const struct option_spec *option;

    fputs(completion_begin, out);
    fputs("    local commands='", out);
    for (size_t i = 0; (command = commands_at(i)); i++)
        fprintf(out, "%s%s", i > 0 ? " " : "", command->name);
    fputs("'\n    if [ \"$COMP_CWORD\" = 1 ]; then\n"
          "        _coordlfs_words \"$commands\" \"$cur\"\n"
          "        return\n    fi\n"
          "    case $prev in\n",
          out);
    for (size_t i = 0; (option = options_at(i)); i++)
        if (option->placeholder)
            completion_value(out, option);
    fputs("    esac\n    case $command in\n", out);
    for (size_t i = 0; (command = commands_at(i)); i++)
        completion_command(out, command);
    fputs("    *)\n        return\n        ;;\n    esac\n"
          "    if [[ $cur == -* ]]; then\n"
          "        _coordlfs_words \"$options\" \"$cur\"\n"
          "    elif [ \"$arguments\" = command ]; then\n"
          "        _coordlfs_words \"$commands\" \"$cur\"\n"
          "    elif [ \"$arguments\" != none ]; then\n"
          "        _coordlfs_files \"$arguments\" \"$cur\"\n"
          "    fi\n}\n\ncomplete -F _coordlfs coordlfs\n",
          out);
}
