/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that are still to be walked lie on a stack of ids. Entries are
 * taken from the index in batches, so that nothing of it is held while a
 * callback waits for a client or a queue. */
#include "fs/walk.h"

#include <errno.h>
#include <stdlib.h>

enum { BATCH = 128 };

struct stack {
    uint64_t *ids;
    size_t count;
    size_t room;
};

static bool push(struct stack *stack, uint64_t id)
{
    if (stack->count == stack->room) {
        size_t room = stack->room ? stack->room * 2 : 1024;
        uint64_t *ids = realloc(stack->ids, room * sizeof(*ids));
        if (!ids)
            return false;
        stack->ids = ids;
        stack->room = room;
    }
    stack->ids[stack->count++] = id;
    return true;
}

struct batch {
    struct listing_entry entries[BATCH];
    size_t count;
    uint64_t next; /* ordinal */
};

static bool take_entry(uint64_t ordinal, const struct listing_entry *entry,
                       void *data)
{
    struct batch *batch = data;

    batch->entries[batch->count++] = *entry;
    batch->next = ordinal + 1;
    return batch->count < BATCH;
}

static void fail(const struct walk *walk, uint64_t id, int err)
{
    if (walk->failed)
        walk->failed(id, err, walk->data);
}

/* False ends the walk. */
static bool visit(const struct walk *walk, struct stack *stack,
                  uint64_t directory, const struct listing_entry *entry)
{
    struct inodes *inodes = walk->output->worker->inodes;
    struct node node;

    if (tasks_is_cancelled(walk->output))
        return false;
    if (entry->type == DT_LNK)
        return true;
    int err = walk->known_only
                  ? inodes_get_known(inodes, entry->id, &node)
                  : inodes_lookup_known(inodes, directory, entry->name, &node);
    if (err != 0 && !walk->known_only)
        err = inodes_lookup(inodes, directory, entry->name, &node);
    if (err != 0) {
        fail(walk, entry->id, err);
        return true;
    }
    if (!S_ISDIR(node.mode))
        return S_ISLNK(node.mode) || walk->file(&node, walk->data);
    if (push(stack, node.id))
        return true;
    fail(walk, node.id, -ENOMEM);
    return false;
}

/* Makes sure that the index has the listing, or says why not. */
static int ensure(struct walk *walk, uint64_t directory)
{
    struct worker *worker = walk->output->worker;
    struct listing_head head;

    if (!walk->known_only)
        return listings_ensure(worker->listings, directory, false, NULL);
    int err = index_get_listing(worker->index, directory, &head);
    walk->unlisted += err != 0;
    return err;
}

static bool walk_directory(struct walk *walk, struct stack *stack,
                           struct batch *batch, uint64_t directory)
{
    int err = ensure(walk, directory);

    if (err != 0) {
        if (!walk->known_only)
            fail(walk, directory, err);
        return true;
    }
    batch->next = 0;
    do {
        batch->count = 0;
        err = index_each_entry(walk->output->worker->index, directory,
                               batch->next, take_entry, batch);
        for (size_t i = 0; i < batch->count; i++)
            if (!visit(walk, stack, directory, &batch->entries[i]))
                return false;
    } while (err == 0 && batch->count == BATCH);
    if (err != 0)
        fail(walk, directory, err);
    return true;
}

void walk_tree(struct walk *walk, uint64_t top)
{
    AUTO_FREE struct batch *batch = malloc(sizeof(*batch));
    struct stack stack = {NULL, 0, 0};
    struct node node;
    int err = inodes_get_known(walk->output->worker->inodes, top, &node);

    walk->unlisted = 0;
    if (err == 0 && (!batch || (S_ISDIR(node.mode) && !push(&stack, top))))
        err = -ENOMEM;
    if (err != 0)
        fail(walk, top, err);
    else if (!S_ISDIR(node.mode) && !S_ISLNK(node.mode))
        walk->file(&node, walk->data);
    while (stack.count > 0)
        if (!walk_directory(walk, &stack, batch, stack.ids[--stack.count]))
            break;
    free(stack.ids);
}
