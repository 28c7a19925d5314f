/* SPDX-License-Identifier: Apache-2.0 */
/* Has the kernel drop its pages of a file that has changed, before it is told
 * the file's attributes. It takes over a new size first and drops the pages of
 * the old version then: whoever reads in between would get zeros, from behind
 * the end of what was the last page. */
#ifndef FS_INVALIDATE_H
#define FS_INVALIDATE_H

#include "fs/call.h"
#include "fs/inode.h"

struct invalidate;

/* Both are borrowed. */
struct invalidate *invalidate_create(struct calls *calls,
                                     struct inodes *inodes);
int invalidate_start(struct invalidate *invalidate) MUST_CHECK;

/* Takes the call over, and queues it again when the kernel has dropped its
 * pages of the node, or has not within NOTIFY_MS. Waits for nothing. */
void invalidate_call(struct invalidate *invalidate, struct call *call,
                     const struct node *node);

#endif
