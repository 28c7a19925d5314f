/* SPDX-License-Identifier: Apache-2.0 */
/* path_open_beneath lets the kernel do the checking, in one call for every
 * usual path. One longer than PATH_MAX is cut at a slash, and each part is
 * opened below the one before under the same rules. */
#include "util/path.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel answers EAGAIN when ".." meets a rename anywhere in the system;
 * that many in a row mean somebody does nothing else. */
enum { OPEN_TRIES = 100 };

enum { LINKS_MOST = 40 }; /* as the kernel has it */

/* Appends the components of path to out, of which length bytes are in use (0
 * stands for the root). Returns the new length, or -ENAMETOOLONG. */
static ssize_t append_components(char *out, size_t out_bytes, size_t length,
                                 const char *path)
{
    while (*path != '\0') {
        size_t part = strcspn(path, "/");

        if (part == 2 && path[0] == '.' && path[1] == '.') {
            while (length > 0 && out[--length] != '/')
                ;
        } else if (part > 0 && !(part == 1 && path[0] == '.')) {
            if (length + 1 + part >= out_bytes)
                return -ENAMETOOLONG;
            out[length] = '/';
            memcpy(out + length + 1, path, part);
            length += 1 + part;
        }
        path += part;
        path += strspn(path, "/");
    }
    return (ssize_t)length;
}

int path_absolute(const char *path, const char *base, char *out,
                  size_t out_bytes)
{
    AUTO_FREE char *directory = NULL;
    ssize_t length = 0;

    if (*path == '\0')
        return -EINVAL;
    if (*path != '/') {
        if (base == NULL) {
            directory = getcwd(NULL, 0);
            if (directory == NULL)
                return -errno;
            base = directory;
        }
        assert(*base == '/');
        length = append_components(out, out_bytes, 0, base);
        if (length < 0)
            return (int)length;
    }
    length = append_components(out, out_bytes, (size_t)length, path);
    if (length < 0)
        return (int)length;
    if (length == 0) {
        if (out_bytes < 2)
            return -ENAMETOOLONG;
        out[length++] = '/';
    }
    out[length] = '\0';
    return 0;
}

bool path_is_inside(const char *path, const char *folder)
{
    size_t length = strlen(folder);

    if (strncmp(path, folder, length) != 0)
        return false;
    return path[length] == '\0' || path[length] == '/' ||
           (length > 0 && folder[length - 1] == '/');
}

struct real {
    char *out; /* ends with a NUL here; "" is the root */
    size_t out_bytes;
    size_t length;
    char *rest; /* still to be walked; owned */
    int links;
    bool lexical; /* nothing is looked at any more */
};

static void set_length(struct real *real, size_t length)
{
    real->length = length;
    real->out[length] = '\0';
}

static void leave_last(struct real *real)
{
    const char *slash = strrchr(real->out, '/');

    set_length(real, slash ? (size_t)(slash - real->out) : 0);
}

/* Where out is a link, its target goes before what is left to be walked. */
static int follow_link(struct real *real, const char *left)
{
    char target[PATH_MAX];
    char *rest;
    ssize_t n = readlink(real->out, target, sizeof(target) - 1);

    if (n < 0) {
        real->lexical = errno != EINVAL;
        return 0;
    }
    if (++real->links > LINKS_MOST)
        return -ELOOP;
    target[n] = '\0';
    if (asprintf(&rest, "%s/%s", target, left) < 0)
        return -ENOMEM;
    free(real->rest);
    real->rest = rest;
    if (target[0] == '/')
        set_length(real, 0);
    else
        leave_last(real);
    return 1;
}

/* Appends a name. 0, or 1 when it was a link, or an error. */
static int enter(struct real *real, const char *name, size_t bytes,
                 path_stop_cb stop, void *data)
{
    if (stop && !real->lexical)
        real->lexical = stop(real->length > 0 ? real->out : "/", data);
    if (real->length + 1 + bytes >= real->out_bytes)
        return -ENAMETOOLONG;
    real->out[real->length] = '/';
    memcpy(real->out + real->length + 1, name, bytes);
    set_length(real, real->length + 1 + bytes);
    return real->lexical ? 0 : follow_link(real, name + bytes);
}

static int walk(struct real *real, path_stop_cb stop, void *data)
{
    for (const char *at = real->rest; *(at += strspn(at, "/")) != '\0';) {
        size_t bytes = strcspn(at, "/");
        int err = 0;

        if (bytes == 2 && at[0] == '.' && at[1] == '.')
            leave_last(real);
        else if (bytes != 1 || at[0] != '.')
            err = enter(real, at, bytes, stop, data);
        if (err < 0)
            return err;
        at = err > 0 ? real->rest : at + bytes;
    }
    return 0;
}

int path_real(const char *path, path_stop_cb stop, void *data, char *out,
              size_t out_bytes)
{
    struct real real = {.out = out, .out_bytes = out_bytes};
    int err = 0;

    if (*path == '\0')
        return -EINVAL;
    if (out_bytes < 2)
        return -ENAMETOOLONG;
    set_length(&real, 0);
    if (*path != '/') {
        err = path_absolute(".", NULL, out, out_bytes);
        if (err != 0)
            return err;
        set_length(&real, strcmp(out, "/") == 0 ? 0 : strlen(out));
    }
    real.rest = strdup(path);
    err = real.rest ? walk(&real, stop, data) : -ENOMEM;
    free(real.rest);
    if (err == 0 && real.length == 0) {
        out[0] = '/';
        out[1] = '\0';
    }
    return err;
}

static int open_part(int folder_fd, const char *part, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags,
        .resolve =
            RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };

    for (int tries = 1;;) {
        long fd = syscall(SYS_openat2, folder_fd, part, &how, sizeof(how));
        if (fd >= 0)
            return (int)fd;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN || tries++ == OPEN_TRIES)
            return -errno;
    }
}

/* The length of the part to open first: all of path, or up to the last slash
 * that leaves it shorter than PATH_MAX; 0 where there is none. */
static size_t part_length(const char *path)
{
    size_t length = strnlen(path, PATH_MAX);

    if (length < PATH_MAX)
        return length;
    while (length > 0 && path[length - 1] != '/')
        length--;
    return length;
}

int path_open_beneath(int root_fd, const char *relative, int flags)
{
    AUTO_CLOSE int folder_fd = -1;
    char part[PATH_MAX];

    assert((flags & O_CREAT) == 0 && (flags & O_TMPFILE) != O_TMPFILE);
    flags |= O_CLOEXEC;
    for (;;) {
        size_t length = part_length(relative);
        if (relative[length] == '\0')
            break;
        if (length == 0)
            return -ENAMETOOLONG;
        memcpy(part, relative, length - 1);
        part[length - 1] = '\0';

        int fd = open_part(folder_fd >= 0 ? folder_fd : root_fd, part,
                           O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return fd;
        if (folder_fd >= 0)
            close(folder_fd);
        folder_fd = fd;
        relative += length;
        relative += strspn(relative, "/");
    }
    return open_part(folder_fd >= 0 ? folder_fd : root_fd,
                     *relative == '\0' ? "." : relative, flags);
}
