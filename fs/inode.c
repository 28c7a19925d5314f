/* SPDX-License-Identifier: Apache-2.0 */
/* Paths are put together from the index's parent links; those of directories
 * are kept in a small direct-mapped table, since a dataset's files lie in few
 * of them. */
#include "fs/inode.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "util/hash.h"
#include "util/log.h"

enum {
    PATH_SLOTS = 4096, /* directories whose paths are remembered */
    RECORD_LOCKS = 64,
    DEPTH_LIMIT = 65536, /* an index that loops ends here */
};

struct path_slot {
    uint64_t id;
    char *path;
};

struct inodes {
    struct shared *shared;
    struct index *index;
    struct cache *cache;
    struct backing *backing;

    /* By node id. Held from reading a node's record to writing it, so across
     * the index: else one of two threads would write back what the other has
     * just replaced. Taken before the cache's locks. */
    pthread_mutex_t records[RECORD_LOCKS];

    pthread_mutex_t lock;
    /* guarded by lock: */
    struct path_slot slots[PATH_SLOTS];
};

struct inodes *inodes_create(struct shared *shared, struct index *index,
                             struct cache *cache, struct backing *backing)
{
    struct inodes *inodes = calloc(1, sizeof(*inodes));

    if (!inodes)
        return NULL;
    inodes->shared = shared;
    inodes->index = index;
    inodes->cache = cache;
    inodes->backing = backing;
    pthread_mutex_init(&inodes->lock, NULL);
    for (int i = 0; i < RECORD_LOCKS; i++)
        pthread_mutex_init(&inodes->records[i], NULL);
    return inodes;
}

void inodes_destroy(struct inodes *inodes)
{
    for (int i = 0; i < PATH_SLOTS; i++)
        free(inodes->slots[i].path);
    pthread_mutex_destroy(&inodes->lock);
    for (int i = 0; i < RECORD_LOCKS; i++)
        pthread_mutex_destroy(&inodes->records[i]);
    free(inodes);
}

int inodes_get_known(struct inodes *inodes, uint64_t id, struct node *node)
{
    return index_get_node(inodes->index, id, node);
}

bool inodes_is_fresh(const struct inodes *inodes, const struct node *node)
{
    return inodes->shared->config.revalidate == 0 &&
           node->serial == atomic_load(&inodes->shared->serial) &&
           !(node->flags & (NODE_CHANGED | NODE_VOLATILE));
}

uint64_t inodes_item_count(const struct inodes *inodes, const struct node *node)
{
    return S_ISREG(node->mode)
               ? item_count(node->size, inodes->shared->config.item_bytes)
               : 0;
}

/* ---- paths ---- */

static struct path_slot *slot_of(struct inodes *inodes, uint64_t id)
{
    return &inodes->slots[(id ^ id >> 32) % PATH_SLOTS];
}

/* A copy of the remembered path of a directory, or NULL. */
static char *remembered(struct inodes *inodes, uint64_t id)
{
    SCOPED_LOCK(&inodes->lock);
    struct path_slot *slot = slot_of(inodes, id);

    return slot->path && slot->id == id ? strdup(slot->path) : NULL;
}

static void remember(struct inodes *inodes, uint64_t id, const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return;
    SCOPED_LOCK(&inodes->lock);
    struct path_slot *slot = slot_of(inodes, id);

    free(slot->path);
    slot->id = id;
    slot->path = copy;
}

int inodes_child(const char *parent_path, const char *name, uint64_t *id,
                 char **path)
{
    int n =
        asprintf(path, "%s%s%s", parent_path, *parent_path ? "/" : "", name);
    if (n < 0)
        return -ENOMEM;
    *id = hash_path(*path, (size_t)n);
    return 0;
}

/* Puts name and a slash before path. */
static int prepend(char **path, const char *name)
{
    char *longer;

    if (asprintf(&longer, "%s%s%s", name, **path ? "/" : "", *path) < 0)
        return -ENOMEM;
    free(*path);
    *path = longer;
    return 0;
}

int inodes_path_known(struct inodes *inodes, uint64_t id, char **path)
{
    struct node node = {.id = id};
    char *found = strdup("");
    int err = found ? 0 : -ENOMEM;

    for (int depth = 0; err == 0 && node.id != HASH_ROOT_ID; depth++) {
        AUTO_FREE char *known = remembered(inodes, node.id);
        if (known) {
            err = prepend(&found, known);
            break;
        }
        err = depth < DEPTH_LIMIT
                  ? index_get_node(inodes->index, node.id, &node)
                  : -ELOOP;
        if (err == 0)
            err = prepend(&found, node.name);
        node.id = node.parent;
    }
    if (err != 0) {
        free(found);
        return err;
    }
    *path = found;
    return 0;
}

static int directory_path(struct inodes *inodes, uint64_t id, char **path)
{
    char *known = remembered(inodes, id);

    if (known) {
        *path = known;
        return 0;
    }
    int err = inodes_path_known(inodes, id, path);
    if (err == 0)
        remember(inodes, id, *path);
    return err;
}

/* ---- nodes ---- */

static pthread_mutex_t *record_lock(struct inodes *inodes, uint64_t id)
{
    return &inodes->records[id % RECORD_LOCKS];
}

/* Two paths with one hash: the second is refused. */
static int check_identity(const struct node *node, uint64_t parent,
                          const char *name, const char *path)
{
    if (node->parent == parent && strcmp(node->name, name) == 0)
        return 0;
    log_error("node id %016llx belongs to %s and to %s: the latter cannot be "
              "served; rename it",
              (unsigned long long)node->id, node->name, path);
    return -EIO;
}

static bool same_attributes(const struct node *node, const struct stat *st)
{
    struct node other = *node;
    char a[NODE_PACKED_BYTES], b[NODE_PACKED_BYTES];

    node_set_stat(&other, st);
    size_t length = node_pack(node, a);
    return length == node_pack(&other, b) && memcmp(a, b, length) == 0;
}

static void count_known(struct inodes *inodes, const struct node *node,
                        int64_t sign)
{
    uint64_t items = inodes_item_count(inodes, node);

    if (items > 0)
        atomic_fetch_add(&inodes->shared->metrics.known_items,
                         (uint64_t)(sign * (int64_t)items));
}

/* Brings node, which the index has, up to what st says. A file that changed in
 * this mount is marked until the kernel knows: it may have pages of the old
 * version. */
static int take_over_locked(struct inodes *inodes, struct node *node,
                            const struct stat *st, const char *path)
{
    bool changed = node_version(node) != node_stat_version(st);
    uint64_t serial = atomic_load(&inodes->shared->serial);

    if (!changed && node->serial == serial && same_attributes(node, st))
        return 0;
    if (changed && S_ISREG(node->mode)) {
        int err = cache_forget(inodes->cache, node->id, path);
        if (err != 0)
            return err;
    }
    count_known(inodes, node, -1);
    node_set_stat(node, st);
    /* The kernel of this mount has not heard of it yet. */
    if (node->serial != serial)
        node->flags = 0;
    else if (changed && S_ISREG(node->mode))
        node->flags |= NODE_VOLATILE | NODE_CHANGED;
    else if (changed)
        node->flags |= NODE_VOLATILE;
    node->serial = serial;
    count_known(inodes, node, 1);
    return index_put_node(inodes->index, node);
}

static int make_node_locked(struct inodes *inodes, uint64_t id, uint64_t parent,
                            const char *name, const struct stat *st,
                            struct node *node)
{
    *node = (struct node){
        .id = id,
        .parent = parent,
        .serial = atomic_load(&inodes->shared->serial),
    };
    snprintf(node->name, sizeof(node->name), "%s", name);
    node_set_stat(node, st);
    int err = index_put_node(inodes->index, node);
    if (err == 0)
        count_known(inodes, node, 1);
    return err;
}

int inodes_lookup_known(struct inodes *inodes, uint64_t parent,
                        const char *name, struct node *node)
{
    AUTO_FREE char *parent_path = NULL;
    AUTO_FREE char *path = NULL;
    uint64_t id;
    int err = directory_path(inodes, parent, &parent_path);

    if (err == 0)
        err = inodes_child(parent_path, name, &id, &path);
    if (err == 0)
        err = index_get_node(inodes->index, id, node);
    if (err != 0)
        return err;
    if (node->parent != parent || strcmp(node->name, name) != 0 ||
        !inodes_is_fresh(inodes, node))
        return -ENOENT;
    return 0;
}

/* The source has no such file any more: what is cached of it only takes room.
 */
static void forget_absent(struct inodes *inodes, uint64_t id, const char *path)
{
    AUTO_FREE char *known = NULL;
    struct node node;

    if (index_get_node(inodes->index, id, &node) == 0 &&
        !((node.flags & NODE_CHANGED) && node.size == 0) &&
        inodes_path_known(inodes, id, &known) == 0 && strcmp(known, path) == 0)
        inodes_removed(inodes, &node, path);
}

int inodes_lookup(struct inodes *inodes, uint64_t parent, const char *name,
                  struct node *node)
{
    AUTO_FREE char *parent_path = NULL;
    AUTO_FREE char *path = NULL;
    uint64_t id;
    struct stat st;

    if (strlen(name) >= NODE_NAME_BYTES)
        return -ENAMETOOLONG;
    int err = directory_path(inodes, parent, &parent_path);
    if (err != 0)
        return err == -ENOENT ? -ESTALE : err;
    err = inodes_child(parent_path, name, &id, &path);
    if (err == 0)
        err = backing_stat(inodes->backing, path, &st);
    if (err == -ENOENT)
        forget_absent(inodes, id, path);
    if (err != 0)
        return err;

    SCOPED_LOCK(record_lock(inodes, id));
    err = index_get_node(inodes->index, id, node);
    if (err == -ENOENT || err == -EIO)
        return make_node_locked(inodes, id, parent, name, &st, node);
    if (err == 0)
        err = check_identity(node, parent, name, path);
    return err ? err : take_over_locked(inodes, node, &st, path);
}

int inodes_refresh(struct inodes *inodes, uint64_t id, struct node *node)
{
    AUTO_FREE char *path = NULL;
    struct stat st;
    int err = inodes_path_known(inodes, id, &path);

    if (err == 0)
        err = backing_stat(inodes->backing, path, &st);
    if (err == -ENOENT && path)
        forget_absent(inodes, id, path);
    if (err != 0)
        return err;
    SCOPED_LOCK(record_lock(inodes, id));
    err = index_get_node(inodes->index, id, node);
    return err ? err : take_over_locked(inodes, node, &st, path);
}

/* The record as it is now, if it still is of that version. */
static bool is_version_locked(struct inodes *inodes, uint64_t id,
                              uint64_t version, struct node *now)
{
    return index_get_node(inodes->index, id, now) == 0 &&
           node_version(now) == version;
}

static bool is_current_locked(struct inodes *inodes, const struct node *node,
                              struct node *now)
{
    return is_version_locked(inodes, node->id, node_version(node), now);
}

bool inodes_must_drop(const struct node *node)
{
    return S_ISREG(node->mode) &&
           (node->flags & (NODE_CHANGED | NODE_DROPPED)) == NODE_CHANGED;
}

void inodes_dropped(struct inodes *inodes, uint64_t id, uint64_t version)
{
    struct node now;
    SCOPED_LOCK(record_lock(inodes, id));

    if (!is_version_locked(inodes, id, version, &now) ||
        !inodes_must_drop(&now))
        return;
    now.flags |= NODE_DROPPED;
    if (index_put_node(inodes->index, &now) != 0)
        log_debug("a changed file is asked for again");
}

void inodes_confirm(struct inodes *inodes, const struct node *node)
{
    struct node now;
    struct timespec time;

    if (!(node->flags & NODE_CHANGED))
        return;
    clock_gettime(CLOCK_REALTIME, &time);
    SCOPED_LOCK(record_lock(inodes, node->id));
    if (!is_current_locked(inodes, node, &now) || inodes_must_drop(&now) ||
        node_unsettled_ns(&now, time) > 0)
        return;
    now.flags &= ~(uint32_t)(NODE_CHANGED | NODE_DROPPED);
    if (index_put_node(inodes->index, &now) != 0)
        log_warn("a changed file stays unreadable: its mark cannot be "
                 "cleared in the index");
}

void inodes_changed(struct inodes *inodes, const struct node *node,
                    const char *path)
{
    struct node now;
    SCOPED_LOCK(record_lock(inodes, node->id));

    if (!is_current_locked(inodes, node, &now))
        return; /* another thread has taken the new version over */
    if (!(now.flags & NODE_CHANGED)) {
        atomic_fetch_add(&inodes->shared->metrics.changed_files, 1);
        log_info("changed at the source: %s", path);
        now.flags |= NODE_CHANGED | NODE_VOLATILE;
        if (index_put_node(inodes->index, &now) != 0)
            return;
    }
    /* Again for every reader that still meets the mark: a request to the
     * pinner may have died with it. */
    if (cache_forget(inodes->cache, node->id, path) != 0)
        log_debug("changed file not forgotten yet: %s", path);
}

void inodes_removed(struct inodes *inodes, const struct node *node,
                    const char *path)
{
    struct node now;
    SCOPED_LOCK(record_lock(inodes, node->id));

    if (!is_current_locked(inodes, node, &now))
        return;
    count_known(inodes, &now, -1);
    now.size = 0; /* has no items */
    now.blocks = 0;
    now.flags |= NODE_CHANGED | NODE_VOLATILE;
    if (index_put_node(inodes->index, &now) != 0 ||
        cache_forget(inodes->cache, node->id, path) != 0)
        log_debug("removed file not forgotten yet: %s", path);
}

int inodes_open_root(struct inodes *inodes)
{
    struct stat st;
    struct node node;
    int err = backing_stat(inodes->backing, "", &st);
    if (err != 0)
        return err;

    SCOPED_LOCK(record_lock(inodes, HASH_ROOT_ID));
    if (index_get_node(inodes->index, HASH_ROOT_ID, &node) != 0)
        return make_node_locked(inodes, HASH_ROOT_ID, HASH_ROOT_ID, "", &st,
                                &node);
    return take_over_locked(inodes, &node, &st, "");
}
