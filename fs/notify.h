/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the kernel that names are no longer what it knows. Writing that to
 * /dev/fuse may wait for a directory's lock, which a reader may hold who waits
 * for an answer of ours: so a short-lived child process writes it, never a
 * thread of the worker. */
#ifndef FS_NOTIFY_H
#define FS_NOTIFY_H

#include <stddef.h>
#include <stdint.h>

#include "util/cleanup.h"

/* Notifications that wait to be sent; for one thread. All 0 at first. */
struct notify {
    char *bytes;
    size_t used;
    size_t room;
};

enum { NOTIFY_MS = 5000 };

/* Adds a node whose data the kernel is to drop: pages, or the target of a link.
 * Both send what there is when it is much. */
int notify_data(struct notify *notify, uint64_t id) MUST_CHECK;

/* Adds a name of a directory. */
int notify_name(struct notify *notify, uint64_t directory,
                const char *name) MUST_CHECK;

/* Sends the rest, and returns when the kernel has taken it. -ETIMEDOUT: it has
 * not within NOTIFY_MS, since a reader waits for a source that does not answer;
 * it will when that reader has its answer. */
int notify_flush(struct notify *notify) MUST_CHECK;
void notify_fini(struct notify *notify);

#endif
