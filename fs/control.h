/* SPDX-License-Identifier: Apache-2.0 */
/* The socket through which commands reach a mount: a file under /run/coordlfs
 * named after the mount's device number, so that its length does not depend on
 * any path. A request is one line; the answer is lines until the end.
 *
 * Functions that return a descriptor give -errno instead on failure; none logs
 * but control_listen. */
#ifndef FS_CONTROL_H
#define FS_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/cleanup.h"

#define CONTROL_FOLDER "/run/coordlfs"

/* Longest request: a command and a path relative to the dataset. */
enum { CONTROL_LINE_BYTES = 64 * 1024 };

/* *inode identifies the socket's file for control_unlink. */
int control_listen(unsigned major, unsigned minor, uint64_t *inode) MUST_CHECK;

/* Removes the file if it still is that one: the kernel gives the device number
 * of a mount that has gone to the next, whose socket it may be by now. inode 0:
 * whichever. */
void control_unlink(unsigned major, unsigned minor, uint64_t inode);

/* -ECONNREFUSED or -ENOENT: no supervisor is there. */
int control_connect(unsigned major, unsigned minor) MUST_CHECK;

/* Sends a line and its newline; false when the other end is gone or takes
 * nothing for 10 s. */
bool control_send_line(int fd, const char *line);

/* Passes a connection and a text on to another process, over a pair made by
 * control_pair; receive gives the connection. */
int control_pair(int pair[2]) MUST_CHECK;
int control_pass(int fd, int connection, const char *text) MUST_CHECK;
int control_receive(int fd, char **text) MUST_CHECK;

/* A path as one line of a request, in a new string (NULL without memory): a
 * line break is written as \n, and a backslash as two. unescape takes that
 * back in place. */
char *control_escape(const char *path);
void control_unescape(char *text);

/* A copy of a name with what is not UTF-8 or not printable as \xNN; NULL
 * without memory. */
char *control_printable(const char *name);

#endif
