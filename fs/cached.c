/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/cached.h"

#include <errno.h>
#include <string.h>

static bool is_below(const char *path, const char *below)
{
    size_t length = strlen(below);

    return strncmp(path, below, length) == 0 &&
           (length == 0 || path[length] == '\0' || path[length] == '/');
}

static bool visit(const struct item *item, void *data)
{
    struct cached *cached = data;
    struct worker *worker = cached->output->worker;
    uint32_t places = cache_places(worker->cache, item);

    if (places == 0)
        return !tasks_is_cancelled(cached->output);
    if (!cached->path || cached->id != item->id) {
        free(cached->path);
        cached->path = NULL;
        cached->id = item->id;
        if (inodes_path_known(worker->inodes, item->id, &cached->path) != 0)
            return true; /* of a name that the index has lost */
    }
    if (is_below(cached->path, cached->below) &&
        !cached->item(item, places, cached->path, cached->data))
        return false;
    return !tasks_is_cancelled(cached->output);
}

int cached_each(struct cached *cached, const char *below)
{
    cached->below = below;
    cached->path = NULL;
    int err = index_each_item(cached->output->worker->index, 0, visit, cached);
    free(cached->path);
    cached->path = NULL;
    return err;
}
