/* SPDX-License-Identifier: Apache-2.0 */
/* What a command asks the worker for: a table of tasks, each run in a thread of
 * its own on a connection that the supervisor passes on, and what they share.
 *
 * A request is the line "NAME ARGUMENT"; the argument is mostly a path relative
 * to the dataset, as control_escape writes it. The answer is one JSON object
 * per line:
 *
 *   {"files", "bytes", "total_files", "total_bytes", "scanned"}   progress
 *   {"failed": path, "error": text}      one file; the task goes on
 *   {"fatal": path, "error": text}       the task is over
 *   {"done": true, ...}                  the task is over, with its numbers
 *
 * and what else a task has to say. A client that leaves cancels its task.
 * Nothing of a task outlives the worker: the command asks the next one. */
#ifndef FS_TASKS_H
#define FS_TASKS_H

#include <jansson.h>
#include <stdatomic.h>

#include "fs/worker.h"

/* Where a task's lines go. Every thread of the task may send. */
struct tasks_output {
    struct worker *worker;
    int connection; /* borrowed */
    _Atomic bool cancelled;
    _Atomic uint64_t failed; /* files that tasks_fail was called for */
    pthread_mutex_t lock;    /* lines of several threads do not mix */
};

void tasks_output_init(struct tasks_output *output, struct worker *worker,
                       int connection);
void tasks_output_fini(struct tasks_output *output);

/* Sends one line and takes ownership of object. False, and the task is
 * cancelled, when the client is gone. */
bool tasks_send(struct tasks_output *output, json_t *object);

/* Whether to stop: the client is gone, or tasks_cancel was called. */
bool tasks_is_cancelled(struct tasks_output *output);
void tasks_cancel(struct tasks_output *output);

/* Counts a file that failed with -errno, and says so for the first 1,000. */
void tasks_fail(struct tasks_output *output, uint64_t id, int err);
void tasks_fail_text(struct tasks_output *output, uint64_t id,
                     const char *error);

/* The task cannot be done at all. */
void tasks_send_fatal(struct tasks_output *output, const char *path, int err);

/* The node of a path relative to the dataset ("" is the dataset), looked up
 * step by step; asks the source. */
int tasks_find(struct worker *worker, const char *path,
               uint64_t *id) MUST_CHECK;

/* Whether a request line begins with the name of a task. */
bool tasks_know(const char *line);

/* Serves the connections that the supervisor passes on, until the worker's
 * end. */
int tasks_start(struct worker *worker) MUST_CHECK;

#endif
