/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/temp_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/cleanup.h"

void temp_folder_make(const char *parent, char *path)
{
    const char *temporary = parent ? parent : getenv("TMPDIR");

    snprintf(path, PATH_MAX, "%s/coordlfs-test.XXXXXX",
             temporary ? temporary : "/tmp");
    assert_non_null(mkdtemp(path));
}

/* Works from descriptor to descriptor: paths may be longer than PATH_MAX. */
static void remove_all(int parent_fd, const char *name)
{
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
        return;

    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    while (directory && (entry = readdir(directory)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_all(fd, entry->d_name);
    if (directory)
        closedir(directory);
    unlinkat(parent_fd, name, AT_REMOVEDIR);
}

void temp_folder_remove(const char *path)
{
    remove_all(AT_FDCWD, path);
}

void temp_folder_write(const char *folder, const char *name, const void *bytes,
                       size_t length)
{
    char path[PATH_MAX + NAME_MAX + 2];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    AUTO_CLOSE int fd =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), (ssize_t)length);
}

void temp_folder_pattern(char *bytes, size_t length, unsigned seed)
{
    uint32_t value = seed * 2654435761u + 1;

    for (size_t i = 0; i < length; i++) {
        value = value * 1664525u + 1013904223u;
        bytes[i] = (char)(value >> 24);
    }
}
