/* SPDX-License-Identifier: Apache-2.0 */
/* Node ids, attributes and paths.
 *
 * A node id is the hash of the path relative to the dataset, and the index maps
 * it back; nothing here is needed by the kernel's ids after a crash. Functions
 * that end in _known read the index only, and may be called by who holds a
 * slot; the others may ask the source. Callable from every thread. */
#ifndef FS_INODE_H
#define FS_INODE_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/backing.h"
#include "cache/cache.h"
#include "cache/node.h"

struct inodes;

/* All borrowed until inodes_destroy. */
struct inodes *inodes_create(struct shared *shared, struct index *index,
                             struct cache *cache, struct backing *backing);
void inodes_destroy(struct inodes *inodes);

/* The node as the index has it. -ENOENT: unknown. */
int inodes_get_known(struct inodes *inodes, uint64_t id,
                     struct node *node) MUST_CHECK;

/* True when the node was compared with the source in this mount and was not
 * found changed then or since: no need to ask the source again. Never with
 * --revalidate: the kernel asks when its time is over. */
bool inodes_is_fresh(const struct inodes *inodes, const struct node *node);

/* Path of a node relative to the dataset, in a new string owned by the caller.
 * -ENOENT: the index lacks a node on the way. */
int inodes_path_known(struct inodes *inodes, uint64_t id,
                      char **path) MUST_CHECK;

/* The child's node when it is fresh; -ENOENT: ask inodes_lookup. */
int inodes_lookup_known(struct inodes *inodes, uint64_t parent,
                        const char *name, struct node *node) MUST_CHECK;

/* The child's node, compared with the source. -ENOENT: no such name. */
int inodes_lookup(struct inodes *inodes, uint64_t parent, const char *name,
                  struct node *node) MUST_CHECK;

/* Compares a known node with the source and takes over new attributes. A node
 * that is marked as changed stays so until inodes_confirm. */
int inodes_refresh(struct inodes *inodes, uint64_t id,
                   struct node *node) MUST_CHECK;

/* The node is a file that the kernel must drop the pages of before it is told
 * the attributes. */
bool inodes_must_drop(const struct node *node);

/* The kernel has dropped the pages of a file that was marked then. */
void inodes_dropped(struct inodes *inodes, uint64_t id, uint64_t version);

/* The kernel is about to be told the node's attributes: clears the mark, unless
 * the file may still be in the middle of a change. */
void inodes_confirm(struct inodes *inodes, const struct node *node);

/* The source has another version of the file than the node: marks it, drops
 * its items, has the pinner let go and ask for the attributes. */
void inodes_changed(struct inodes *inodes, const struct node *node,
                    const char *path);

/* The source has the file no longer: its items go, who has it open gets ESTALE.
 * The node stays, since the kernel may still name it. */
void inodes_removed(struct inodes *inodes, const struct node *node,
                    const char *path);

/* Items that a file of that many bytes has. */
uint64_t inodes_item_count(const struct inodes *inodes,
                           const struct node *node);

/* The id of parent_path/name, and that path in a new string. */
int inodes_child(const char *parent_path, const char *name, uint64_t *id,
                 char **path) MUST_CHECK;

/* Makes or refreshes the root's node. */
int inodes_open_root(struct inodes *inodes) MUST_CHECK;

#endif
