/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE operations of the dataset's mount, as they run when a request was
 * just received: what memory and the index can answer is answered, the rest is
 * handed on. Nothing here waits. */
#ifndef FS_OPS_H
#define FS_OPS_H

#include "fs/worker.h"

extern const struct fuse_lowlevel_ops ops_table;

/* How long the kernel may believe an answer, and that there is no such name, in
 * seconds. */
double ops_timeout(const struct worker *worker, const struct node *node);
double ops_negative_timeout(const struct worker *worker);

void ops_fill_entry(const struct worker *worker, const struct node *node,
                    struct fuse_entry_param *entry);

#endif
