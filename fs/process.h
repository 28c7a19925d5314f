/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes of a mount agree on: the descriptors that a child is
 * executed with, and how it begins. */
#ifndef FS_PROCESS_H
#define FS_PROCESS_H

#include "util/shared.h"

enum process_fd {
    PROCESS_FD_FUSE = 10, /* /dev/fuse: supervisor and worker only */
    PROCESS_FD_DATASET,   /* O_PATH, opened before the mount covered it */
    PROCESS_FD_CACHE,     /* this dataset's folder in the cache directory */
    PROCESS_FD_LOCK,      /* held by all: free when all are gone */
    PROCESS_FD_SHARED,
    PROCESS_FD_LOG,     /* --log-file, or stderr in the foreground; or none */
    PROCESS_FD_CONTROL, /* connections that the supervisor passes on */
    PROCESS_FD_TREE,    /* detached clone of the mount: pinner only */
    PROCESS_FD_END,
};

/* Puts /dev/null at every number above, so that none is handed out for
 * something else; and at one of them, whose descriptor it closes. 0 or -errno.
 */
int process_reserve_descriptors(void) MUST_CHECK;
int process_release_descriptor(enum process_fd number);

/* Moves a descriptor to its number; fd may be an error, which is returned. */
int process_place_descriptor(int fd, enum process_fd number) MUST_CHECK;

/* Whether the log goes to PROCESS_FD_LOG, and not to syslog. */
bool process_logs_to_descriptor(const struct config *config);

/* A child's first steps: dies with the supervisor, has a name, logs as role,
 * has the shared area mapped and locked. Exits the process on failure. */
struct shared *process_begin(const char *role);

/* Logs to where the configuration says. */
void process_open_log(const struct config *config, const char *role);

/* Raises the soft limit of descriptors to the hard one. */
void process_raise_limits(void);

/* Gives up every capability but those of the mask (1 << CAP_...), for the
 * calling thread and those that it makes. */
void process_keep_capabilities(uint64_t mask);

/* Entry points of the children; never return. */
void worker_main(void) __attribute__((noreturn));
void pinner_main(void) __attribute__((noreturn));

#endif
