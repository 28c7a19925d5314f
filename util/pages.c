/* SPDX-License-Identifier: Apache-2.0 */
#include "util/pages.h"

#include <sys/mman.h>

char *pages_map(size_t bytes)
{
    char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (pages == MAP_FAILED)
        return NULL;
    if (madvise(pages, bytes, MADV_DONTFORK) != 0) {
        munmap(pages, bytes);
        return NULL;
    }
    return pages;
}
