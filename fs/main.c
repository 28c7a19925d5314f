/* SPDX-License-Identifier: Apache-2.0 */
/* coordlfs: finds the subcommand. The daemon's processes are this program too,
 * executed again as `_child ROLE`. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/command.h"
#include "fs/commands.h"
#include "fs/manual.h"
#include "fs/process.h"

/* A descriptor of the standard three that is closed would become the next file
 * that is opened. */
static int fill_standard_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

static int run_child(const char *role)
{
    if (strcmp(role, "worker") == 0)
        worker_main();
    if (strcmp(role, "pinner") == 0)
        pinner_main();
    return EXIT_USAGE;
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    if (fill_standard_descriptors() != 0)
        return EXIT_FAILED;
    if (argc < 2) {
        manual_print_commands(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "_child") == 0 && argc == 3)
        return run_child(argv[2]);
    const struct command *command = commands_find(argv[1]);
    if (!command) {
        command_unknown(argv[1]);
        return EXIT_USAGE;
    }
    if (asks_for_help(argc, argv)) {
        manual_print_command(stdout, command);
        return EXIT_DONE;
    }
    return command->run(argc - 2, argv + 2);
}
