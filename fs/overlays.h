/* SPDX-License-Identifier: Apache-2.0 */
/* Which overlays have a mount as a layer. */
#ifndef FS_OVERLAYS_H
#define FS_OVERLAYS_H

#include "util/mountinfo.h"

/* Walks the overlays of which folder, or a folder in it, is a lower layer: the
 * one after previous (NULL: the first), or NULL at the end. Layers are known by
 * the paths that they were given by; an overlay in another mount namespace, or
 * one that was given a relative path, is not found. */
const struct mountinfo_entry *
overlays_next(const struct mountinfo *info, const char *folder,
              const struct mountinfo_entry *previous);

#endif
