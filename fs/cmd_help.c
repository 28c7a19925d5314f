/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs help` and `version`. With an option of its own, help prints what
 * lies in deploy/ and README.md, which a test compares. */
#include <stdio.h>
#include <string.h>

#include "fs/command.h"
#include "fs/commands.h"
#include "fs/manual.h"
#include "util/option_text.h"

int cmd_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("coordlfs " COORDLFS_VERSION);
    return EXIT_DONE;
}

int cmd_help(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out);
    } texts[] = {
        {"--man", manual_print_man},
        {"--completion", manual_print_completion},
        {"--markdown", option_text_markdown},
        {"--sample", option_text_sample},
    };

    if (argc == 0) {
        manual_print_commands(stdout);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (strcmp(texts[i].name, argv[0]) == 0) {
            texts[i].print(stdout);
            return EXIT_DONE;
        }
    const struct command *command = commands_find(argv[0]);
    if (!command) {
        command_unknown(argv[0]);
        return EXIT_USAGE;
    }
    manual_print_command(stdout, command);
    return EXIT_DONE;
}
