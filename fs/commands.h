/* SPDX-License-Identifier: Apache-2.0 */
/* The table of subcommands. Help, manual and completion are made from it. */
#ifndef FS_COMMANDS_H
#define FS_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

/* What the arguments of a command are, for completion. */
enum command_arguments {
    ARGUMENTS_NONE,
    ARGUMENTS_PATH,    /* any path in a mount */
    ARGUMENTS_DATASET, /* directories */
    ARGUMENTS_COMMAND, /* names of commands */
};

struct command_option {
    const char *name;        /* with dashes */
    const char *placeholder; /* of its value; NULL for a flag */
    const char *help;
};

enum { COMMAND_OPTIONS = 4 };

struct command {
    const char *name;
    const char *synopsis; /* what follows the name */
    const char *summary;
    int (*run)(int argc, char **argv); /* see fs/command.h */
    /* Paragraphs, parted by line breaks; NULL for none. */
    const char *help;
    enum command_arguments arguments;
    bool takes_mount_options; /* the table of util/options.h too */
    struct command_option options[COMMAND_OPTIONS]; /* up to a NULL name */
};

/* The command at index in the order of the texts; NULL past the end. */
const struct command *commands_at(size_t index);

/* The command of that name or alias, or NULL. */
const struct command *commands_find(const char *name);

/* The name that is most like a mistyped one; NULL where none is near. */
const char *commands_nearest(const char *name);

#endif
