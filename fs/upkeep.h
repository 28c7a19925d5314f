/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker does on its own: loads items for which no buffer was free,
 * tries items again whose pages a job had mapped, and has a new pinner lock
 * again what its predecessor held. */
#ifndef FS_UPKEEP_H
#define FS_UPKEEP_H

#include "fs/worker.h"

struct upkeep;

struct upkeep *upkeep_create(struct worker *worker);
int upkeep_start(struct upkeep *upkeep) MUST_CHECK;
void upkeep_stop(struct upkeep *upkeep);
void upkeep_destroy(struct upkeep *upkeep);

/* An admissible item for which no buffer was free. The list is bounded: when
 * it is full the item is left to a later epoch, and counted. */
void upkeep_defer(struct upkeep *upkeep, uint64_t id, uint32_t extent);

/* The pinner could not pin the item. */
void upkeep_refused(struct upkeep *upkeep, uint64_t id, uint32_t extent,
                    int error);

/* Items that are tried again later. */
uint32_t upkeep_retry_count(struct upkeep *upkeep);

/* Loads an item, waiting for a buffer as long as there is none. As fetch_item,
 * and -ECANCELED when the worker stops. */
int upkeep_load(struct worker *worker, uint64_t id, uint32_t extent,
                bool promote) MUST_CHECK;

/* Has the pinner let go of a file or ask for a directory's attributes, waiting
 * for a buffer as long as there is none. -ECANCELED as above. */
int upkeep_release(struct worker *worker, uint64_t id,
                   const char *path) MUST_CHECK;

#endif
