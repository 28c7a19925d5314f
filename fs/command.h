/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands, and what they share. */
#ifndef FS_COMMAND_H
#define FS_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "util/mountinfo.h"

enum command_exit {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_MOUNTED = 3,
    EXIT_BUSY = 4,
};

/* argv starts after the subcommand's name; returns an exit code. */
int cmd_clear(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_help(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_mount(int argc, char **argv);
int cmd_refresh(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_umount(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_warm(int argc, char **argv);

/* A mount that a command speaks to. */
struct command_target {
    unsigned major;
    unsigned minor;
    char *mountpoint; /* owned */
    char *relative;   /* of the path given, below the mount point; owned */
};

/* False, after a message, for anyone but root, who alone may speak to a daemon.
 */
bool command_is_root(const char *command);

/* Finds the coordlfs mount that path lies in, or the only one when path is
 * NULL. EXIT_DONE, or another exit code after a message on stderr (none when
 * quiet). */
int command_find(const char *path, bool quiet, struct command_target *target);
void command_target_fini(struct command_target *target);

/* Follows symbolic links on the way to what target->relative names, the last
 * name only if follow_last. EXIT_DONE, also where it does not exist, or
 * EXIT_FAILED after a message: it leads out of the mount, or the daemon does
 * not answer. */
int command_resolve(struct command_target *target, bool follow_last);

/* Sends a request to the target's supervisor and reads the answer to its end,
 * at most COMMAND_ANSWER_BYTES with the NUL. 0 or -errno; gives up after 5 s.
 */
enum { COMMAND_ANSWER_BYTES = 64 * 1024 };
int command_ask(const struct command_target *target, const char *request,
                char *answer) MUST_CHECK;

/* One number of a mount's status, by its dotted name; 0 when its supervisor
 * does not answer. */
uint64_t command_query(unsigned major, unsigned minor, const char *name);

/* Prints "coordlfs: ..." on stderr. */
void command_error(const char *format, ...) PRINTF_LIKE(1, 2);

/* Says that there is no such command, and which is the nearest. */
void command_unknown(const char *name);

/* One option of a command as its table has it: *value becomes true where it is
 * there, *text its value. */
struct command_flag {
    const char *name;
    bool *value;       /* NULL for an option with a value */
    const char **text; /* borrowed from argv */
};

/* Splits the arguments of a command into its options and others, of which
 * *path is the only one, or NULL. EXIT_DONE or EXIT_USAGE after a message. */
int command_parse(const char *command, int argc, char **argv,
                  const struct command_flag *flags, size_t count,
                  const char **path);

/* The same with any number of paths, which has room for argc. */
int command_parse_paths(const char *command, int argc, char **argv,
                        const struct command_flag *flags, size_t count,
                        const char **paths, size_t *path_count);

#endif
