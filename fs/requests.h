/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's end of the control socket. It answers `status` itself, and
 * passes the tasks of the worker (fs/tasks.h) on to it; a connection that says
 * nothing is dropped after a second, and none is waited for. For the
 * supervisor's one thread. */
#ifndef FS_REQUESTS_H
#define FS_REQUESTS_H

#include <poll.h>

#include "util/shared.h"

/* Descriptors that requests_fill may add: the socket and its connections. */
enum { REQUESTS_POLLED = 33 };

struct requests;

/* worker_fd (borrowed): where connections are passed on. */
int requests_create(struct shared *shared, int worker_fd,
                    struct requests **requests) MUST_CHECK;
void requests_destroy(struct requests *requests);

nfds_t requests_fill(struct requests *requests, struct pollfd *polled);
void requests_serve(struct requests *requests, const struct pollfd *polled,
                    nfds_t count);

#endif
