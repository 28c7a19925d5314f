/* SPDX-License-Identifier: Apache-2.0 */
/* Folders for tests, on a real file system. A step that fails fails the test;
 * for the test's own thread. */
#ifndef FAKES_TEMP_FOLDER_H
#define FAKES_TEMP_FOLDER_H

#include <limits.h>
#include <stddef.h>

/* Makes an empty folder in parent (NULL: TMPDIR, or /tmp) and writes its path,
 * for which there is PATH_MAX room. */
void temp_folder_make(const char *parent, char *path);

/* Removes it with all that is in it, however deep. */
void temp_folder_remove(const char *path);

/* Makes or replaces a file. */
void temp_folder_write(const char *folder, const char *name, const void *bytes,
                       size_t length);

/* Bytes of which every run of a few tells where it comes from. */
void temp_folder_pattern(char *bytes, size_t length, unsigned seed);

#endif
