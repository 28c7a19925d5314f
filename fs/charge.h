/* SPDX-License-Identifier: Apache-2.0 */
/* Whom the kernel charges pages to: asks /proc/kpagecgroup, by physical page,
 * for the pages of a mapping. Spares the pinner to drop and read again pages
 * that are in its own memory cgroup already. For one thread. */
#ifndef FS_CHARGE_H
#define FS_CHARGE_H

#include <stddef.h>

struct charge;

/* NULL where the kernel or the container does not tell. */
struct charge *charge_create(void);
void charge_destroy(struct charge *charge);

enum charge_owner {
    CHARGE_OURS,    /* every page is charged to the calling process's cgroup */
    CHARGE_FOREIGN, /* a page is charged to another */
    CHARGE_UNKNOWN, /* a page is not mapped, or the kernel does not tell */
};

/* Whom the pages of a mapping are charged to; charge may be NULL. */
enum charge_owner charge_owner(struct charge *charge, const void *address,
                               size_t length);

#endif
