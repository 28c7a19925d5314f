/* SPDX-License-Identifier: Apache-2.0 */
/* The client's end of a task of the worker (fs/tasks.h): asks for it, shows how
 * far it is, and asks again where the worker dies meanwhile. */
#ifndef FS_FOLLOW_H
#define FS_FOLLOW_H

#include <jansson.h>

#include "fs/command.h"

struct follow {
    const char *task;
    const char *doing;   /* what progress is of: "cached" */
    const char *stopped; /* said at Ctrl-C; NULL: nothing */
    bool quiet;          /* shows no progress */
    bool keep_last_name; /* of a path that ends in a symbolic link, the link */
    /* A line that is neither progress nor a failure; NULL where there are none.
     * Once it has been called a task is not asked for again. */
    void (*line)(const json_t *line, void *data);
    /* The last line, and how long it took; returns the exit code. */
    int (*result)(const json_t *line, double seconds, void *data);
    void *data;
};

/* Runs the task for a path as a command got it (NULL: for the whole of the only
 * mount). Returns an exit code, after a message if it is not EXIT_DONE. */
int follow_path(const struct follow *follow, const char *path);

/* For a command that has no options, and one path at most. */
int follow_command(const struct follow *follow, int argc, char **argv);

/* A number of a line; 0 where there is none. */
uint64_t follow_number(const json_t *line, const char *name);

#endif
