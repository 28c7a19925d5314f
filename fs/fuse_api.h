/* SPDX-License-Identifier: Apache-2.0 */
/* libfuse's low-level interface, at the version that Debian 12 ships. */
#ifndef FS_FUSE_API_H
#define FS_FUSE_API_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#endif
