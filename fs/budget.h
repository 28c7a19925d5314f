/* SPDX-License-Identifier: Apache-2.0 */
/* How much a mount may take of memory and disk: what the options ask for, less
 * what other running mounts may still take. */
#ifndef FS_BUDGET_H
#define FS_BUDGET_H

#include <stdint.h>

#include "util/config.h"

struct budget {
    uint64_t dram_bytes;
    uint64_t nvme_bytes;
    char nvme_why_none[128]; /* "": as the options say */
};

/* Works the budget out, once the cache folder is open (PROCESS_FD_CACHE), and
 * raises vm.max_map_count to what the pins may need. An exit code, after a
 * message if it is not EXIT_DONE. */
int budget_resolve(const struct config *config, struct budget *budget);

#endif
