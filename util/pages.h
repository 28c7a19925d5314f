/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for direct reads. A child that is forked does not get it: a page that
 * both had would be copied at the next touch, and the disk would write to the
 * copy that is the other's. */
#ifndef UTIL_PAGES_H
#define UTIL_PAGES_H

#include <stddef.h>

/* Zeroed pages that are there already; NULL: no memory. Released by munmap. */
char *pages_map(size_t bytes);

#endif
