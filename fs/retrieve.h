/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a pinned item, back from the kernel's page cache, for readers
 * that go past it and for `verify`. The kernel takes only pages that are there,
 * and waits for nothing; its answer comes as a request of its own. */
#ifndef FS_RETRIEVE_H
#define FS_RETRIEVE_H

#include "fs/fuse_api.h"

#include <stddef.h>
#include <stdint.h>

#include "cache/index.h"

struct retrieve;

/* session is borrowed. */
struct retrieve *retrieve_create(struct fuse_session *session);
void retrieve_destroy(struct retrieve *retrieve);

/* For threads that may wait, at most a second. -EAGAIN: not all of the bytes
 * are there. */
int retrieve_range(struct retrieve *retrieve, uint64_t id, uint64_t offset,
                   size_t length, char *buffer) MUST_CHECK;

/* A range of an item that begins at first in its file, with the whole chunks
 * around it, verified: buffer is page aligned and has room for length and two
 * chunks; the range begins at *start of it. -EAGAIN: the pin was lost;
 * -EBADMSG: not the bytes of the checksums, for a second. Waits at most two. */
int retrieve_item(struct retrieve *retrieve, const struct item *item,
                  const struct item_sums *sums, uint64_t first, uint64_t offset,
                  size_t length, char *buffer, size_t *start) MUST_CHECK;

/* For who receives: takes the kernel's answer. */
void retrieve_answer(struct retrieve *retrieve, void *cookie, uint64_t id,
                     uint64_t offset, struct fuse_bufvec *bytes);

#endif
