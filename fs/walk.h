/* SPDX-License-Identifier: Apache-2.0 */
/* A walk over the dataset through the index, for tasks of the worker. */
#ifndef FS_WALK_H
#define FS_WALK_H

#include "fs/tasks.h"

struct walk {
    struct tasks_output *output; /* its cancelling ends the walk */
    /* Looks at the index alone and leaves out what that does not have.
     * Otherwise listings and attributes are taken from the source first. */
    bool known_only;
    /* Called for each regular file (and each special one) of the tree in an
     * order that follows from the listings; false ends the walk. */
    bool (*file)(const struct node *node, void *data);
    /* Called for what cannot be looked up; NULL: it is left out. */
    void (*failed)(uint64_t id, int err, void *data);
    void *data;
    uint64_t unlisted; /* known_only: directories left out; filled in */
};

/* Walks the file or directory top. */
void walk_tree(struct walk *walk, uint64_t top);

#endif
