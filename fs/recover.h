/* SPDX-License-Identifier: Apache-2.0 */
/* Node ids that the kernel knows and the index does not, after damage to the
 * index of a live mount: one walk over the source writes the records again,
 * since an id is the hash of a path. */
#ifndef FS_RECOVER_H
#define FS_RECOVER_H

#include "fs/call.h"
#include "fs/inode.h"
#include "fs/listing.h"

struct recover;

struct recover *recover_create(struct inodes *inodes, struct listings *listings,
                               struct index *index, struct calls *calls);
/* Ends a walk and waits for it. */
void recover_destroy(struct recover *recover);

/* True when the index has the call's node. Else the call is queued again until
 * the walk has found it, or ended with -ESTALE after 5 s, and is no longer the
 * caller's. */
bool recover_node(struct recover *recover, struct call *call);

#endif
