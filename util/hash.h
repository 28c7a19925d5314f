/* SPDX-License-Identifier: Apache-2.0 */
/* Ids and checksums: XXH3-64 of xxhash, whose output is a published, frozen
 * format, so that what is stored today is understood tomorrow. */
#ifndef UTIL_HASH_H
#define UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { HASH_ROOT_ID = 1 };

/* Checksum of an item's bytes. */
uint64_t hash_bytes(const void *bytes, size_t length);

/* The node id of a path relative to the dataset ("" is the root, whose id is
 * 1). Never 0 or 1 for any other path. */
uint64_t hash_path(const char *path, size_t length);

#endif
