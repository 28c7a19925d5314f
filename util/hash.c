/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3-64 behind two names. Ids 0 (no node) and 1 (the root) are taken, so a
 * path that hashes to one of them is moved to a fixed other value. */
#include "util/hash.h"

#include <xxhash.h>

static const uint64_t moved_id[] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9};

uint64_t hash_bytes(const void *bytes, size_t length)
{
    return XXH3_64bits(bytes, length);
}

uint64_t hash_path(const char *path, size_t length)
{
    if (length == 0)
        return HASH_ROOT_ID;

    uint64_t id = XXH3_64bits(path, length);
    return id > HASH_ROOT_ID ? id : moved_id[id];
}
