/* SPDX-License-Identifier: Apache-2.0 */
/* Reads ahead of who reads an item on NVMe from start to end: the kernel asks
 * for 128 KiB at a time, and a disk needs more at once. Blocks of 1 MiB are
 * read and verified by threads of their own before they are asked for.
 * Callable from every thread that may wait. */
#ifndef FS_AHEAD_H
#define FS_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"

struct ahead;
struct ahead_block;

/* Both borrowed. Threads and memory come with the first sequential reader. */
struct ahead *ahead_create(struct cache *cache, uint64_t item_bytes);

/* A range of an item: the block that holds it, to be put, and where it begins
 * there; waits for one that is being read. NULL: nobody read it ahead. */
struct ahead_block *ahead_get(struct ahead *ahead, uint64_t id, uint32_t extent,
                              uint64_t version, uint64_t offset, size_t length,
                              char **bytes);
void ahead_put(struct ahead *ahead, struct ahead_block *block);

/* A READ of a file of size bytes was served from NVMe. */
void ahead_note(struct ahead *ahead, uint64_t id, uint64_t version,
                uint64_t size, uint64_t offset, size_t length);

#endif
