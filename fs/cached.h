/* SPDX-License-Identifier: Apache-2.0 */
/* The cached items of a part of the dataset, for tasks that go over them. */
#ifndef FS_CACHED_H
#define FS_CACHED_H

#include "fs/tasks.h"

struct cached {
    struct tasks_output *output; /* its cancelling ends the walk */
    /* Called for each item that is in a tier, with its file's path; those of a
     * file one after the other. False ends the walk. */
    bool (*item)(const struct item *item, uint32_t places, const char *path,
                 void *data);
    void *data;
    const char *below; /* a path of the dataset, "" for all; set by each */
    char *path;        /* of the file id; private */
    uint64_t id;
};

/* 0 or -errno. Reads the index alone. */
int cached_each(struct cached *cached, const char *below) MUST_CHECK;

#endif
