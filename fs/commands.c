/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/commands.h"

#include <string.h>

#include "fs/command.h"
#include "util/nearest.h"

static const struct command table[] = {
    {"mount",
     "[options] DATASET [MOUNTPOINT]",
     "put a dataset behind the cache, in place without MOUNTPOINT",
     cmd_mount,
     "Mounts DATASET, cached, at MOUNTPOINT, or over DATASET itself, and "
     "returns when the mount answers. Readers keep their paths.",
     ARGUMENTS_DATASET,
     true,
     {{NULL, NULL, NULL}}},
    {"umount",
     "[--force] [PATH]",
     "end a mount",
     cmd_umount,
     "Unmounts, and returns when the daemon is gone. A mount in use is left, "
     "and its users are named.",
     ARGUMENTS_PATH,
     false,
     {{"--force", NULL,
       "end the daemon at once, wherever its mount is still visible: waiting "
       "readers get an error"}}},
    {"status",
     "[--json|--ready|--live] [PATH]",
     "say what a mount does",
     cmd_status,
     NULL,
     ARGUMENTS_PATH,
     false,
     {{"--json", NULL, "everything, as JSON"},
      {"--ready", NULL,
       "exit with 0 if the mount answers readers, else with 1"},
      {"--live", NULL, "exit with 0 if its daemon runs, else with 1"}}},
    {"stats",
     "[--interval S] [--count N] [PATH]",
     "print a line each second of what a mount does",
     cmd_stats,
     "Shows the READ requests per second that the daemon answered, and their "
     "bytes, by where they came from: item buffers, the tiers, peers, the "
     "source. Then what was read from the source, and what each tier holds. "
     "Hits in DRAM do not reach the daemon, so they are not among them. Ends "
     "at Ctrl-C, or with exit code 3 when the mount ends.",
     ARGUMENTS_PATH,
     false,
     {{"--interval", "S",
       "seconds between two lines, 0.1 or more (default: 1)"},
      {"--count", "N", "end after so many lines"}}},
    {"warm",
     "[--check] [PATH]",
     "cache what fits, before it is read",
     cmd_warm,
     "Reads the files below PATH (all, without one) until the cache is full, "
     "and returns when what fits is pinned or on disk. Files that fail are "
     "listed, and the exit code is then 1. It can be stopped and started "
     "again. warmup is the same command.",
     ARGUMENTS_PATH,
     false,
     {{"--check", NULL,
       "load nothing; say how much is cached and what is missing, and exit "
       "with 0 if all is cached, else with 1"}}},
    {"info",
     "FILE...",
     "say what of a file is cached, and where",
     cmd_info,
     "For each FILE its size, its items, and the bytes that are in DRAM and "
     "on NVMe. Of a symbolic link its target: where that lies outside the "
     "dataset, it is not cached.",
     ARGUMENTS_PATH,
     false,
     {{NULL, NULL, NULL}}},
    {"list",
     "[--json] [PATH]",
     "list the files that are known, and what of "
     "them is cached",
     cmd_list,
     "Looks at the index alone, so it shows what somebody has looked up in "
     "this or an earlier mount. warm --check looks at all files.",
     ARGUMENTS_PATH,
     false,
     {{"--json", NULL, "one JSON object per file, with exact numbers"}}},
    {"refresh",
     "[PATH]",
     "see what has changed in the dataset",
     cmd_refresh,
     "Compares names and files below PATH (all, without one) with the "
     "dataset. What has changed is dropped from the cache, and readers see "
     "the new files.",
     ARGUMENTS_PATH,
     false,
     {{NULL, NULL, NULL}}},
    {"verify",
     "[PATH]",
     "check the bytes of what is cached",
     cmd_verify,
     "Reads every cached item below PATH (all, without one), DRAM included, "
     "and compares it with its checksum. A bad one is dropped; the exit code "
     "is then 1.",
     ARGUMENTS_PATH,
     false,
     {{NULL, NULL, NULL}}},
    {"clear",
     "[PATH]",
     "empty the cache",
     cmd_clear,
     "Drops what is cached below PATH (all, without one). Readers are not "
     "disturbed: what they read next comes from the dataset, and is cached "
     "again.",
     ARGUMENTS_PATH,
     false,
     {{NULL, NULL, NULL}}},
    {"doctor",
     "[options] [DATASET]",
     "check this machine, its configuration, and a dataset",
     cmd_doctor,
     "Changes nothing. Says of each thing that matters whether it is as it "
     "should be, and if not, what to do. Exits with 0 when there is no "
     "problem, else with 1. Takes the options of mount, and checks the cache "
     "directory that they name.",
     ARGUMENTS_DATASET,
     true,
     {{NULL, NULL, NULL}}},
    {"version",
     "",
     "print the version",
     cmd_version,
     NULL,
     ARGUMENTS_NONE,
     false,
     {{NULL, NULL, NULL}}},
    {"help",
     "[COMMAND]",
     "explain a command",
     cmd_help,
     NULL,
     ARGUMENTS_COMMAND,
     false,
     {{NULL, NULL, NULL}}},
};
enum { COMMANDS = sizeof(table) / sizeof(table[0]) };

static const char *const aliases[][2] = {
    {"warmup", "warm"},
    {"--help", "help"},
    {"-h", "help"},
    {"--version", "version"},
};

const struct command *commands_at(size_t index)
{
    return index < COMMANDS ? &table[index] : NULL;
}

const struct command *commands_find(const char *name)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (strcmp(aliases[i][0], name) == 0)
            name = aliases[i][1];
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const char *commands_nearest(const char *name)
{
    struct nearest nearest;

    nearest_init(&nearest, name, strlen(name));
    for (size_t i = 0; i < COMMANDS; i++)
        nearest_offer(&nearest, table[i].name);
    return nearest.best;
}
