/* SPDX-License-Identifier: Apache-2.0 */
/* Directory listings: taken from the source once per mount, written to the
 * index as a whole, and served from there by ordinal, so that a directory
 * stream goes on after the death of the worker that began it. */
#ifndef FS_LISTING_H
#define FS_LISTING_H

#include "cache/backing.h"
#include "cache/index.h"
#include "fs/inode.h"

struct listings;

typedef void (*listing_wake_cb)(struct admission_waiter *waiter, void *data);

struct listings *listings_create(struct shared *shared, struct index *index,
                                 struct inodes *inodes, struct backing *backing,
                                 listing_wake_cb wake, void *data);
void listings_destroy(struct listings *listings);

/* Makes sure that the index has the directory's listing, compared with the
 * source in this mount; with --revalidate at each beginning of a stream, but
 * not when one goes on (begun). -EAGAIN: another
 * thread is making it, and the waiter is woken when that has ended (waiter
 * NULL: waits in this thread). Asks the source; not for who holds a slot. */
int listings_ensure(struct listings *listings, uint64_t directory, bool begun,
                    struct admission_waiter *waiter) MUST_CHECK;

/* Compares the listing with the source now, and makes it anew if that has
 * changed. Waits for others who make it. */
int listings_renew(struct listings *listings, uint64_t directory) MUST_CHECK;

#endif
