/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets: a stream between command and supervisor, and a pair of packet
 * sockets over which the supervisor hands connections to the worker. The pair
 * outlives the worker, so a request that it had not taken is its successor's.
 */
#include "fs/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "util/log.h"

enum { BACKLOG = 64, SEND_WAIT_MS = 10000 };

static void make_address(struct sockaddr_un *address, unsigned major,
                         unsigned minor)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof(address->sun_path), "%s/%u-%u.sock",
             CONTROL_FOLDER, major, minor);
}

int control_listen(unsigned major, unsigned minor, uint64_t *inode)
{
    struct sockaddr_un address;
    struct stat st = {.st_ino = 0};
    int err = 0;

    make_address(&address, major, minor);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* The device is ours, so a socket of that name is a dead mount's. */
    unlink(address.sun_path);
    if ((mkdir(CONTROL_FOLDER, 0755) != 0 && errno != EEXIST) ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        chmod(address.sun_path, 0600) != 0 || listen(fd, BACKLOG) != 0 ||
        stat(address.sun_path, &st) != 0)
        err = -errno;
    if (err != 0) {
        log_error("control socket %s: %s", address.sun_path, strerror(-err));
        close(fd);
        return err;
    }
    *inode = st.st_ino;
    return fd;
}

void control_unlink(unsigned major, unsigned minor, uint64_t inode)
{
    struct sockaddr_un address;
    struct stat st;

    make_address(&address, major, minor);
    if (stat(address.sun_path, &st) == 0 && (inode == 0 || st.st_ino == inode))
        unlink(address.sun_path);
}

int control_connect(unsigned major, unsigned minor)
{
    struct sockaddr_un address;

    make_address(&address, major, minor);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        int err = -errno;
        close(fd);
        return err;
    }
    return fd;
}

static bool send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd poller = {.fd = fd, .events = POLLOUT};
            if (poll(&poller, 1, SEND_WAIT_MS) <= 0)
                return false;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        length -= (size_t)n;
    }
    return true;
}

bool control_send_line(int fd, const char *line)
{
    return send_all(fd, line, strlen(line)) && send_all(fd, "\n", 1);
}

int control_pair(int pair[2])
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0
               ? -errno
               : 0;
}

int control_pass(int fd, int connection, const char *text)
{
    char space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {.iov_base = (void *)text, .iov_len = strlen(text) + 1};
    struct msghdr message = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = space,
        .msg_controllen = sizeof(space),
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &connection, sizeof(int));
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int control_receive(int fd, char **text)
{
    char space[CMSG_SPACE(sizeof(int))] = {0};
    AUTO_FREE char *buffer = malloc(CONTROL_LINE_BYTES);
    if (!buffer)
        return -ENOMEM;
    struct iovec iov = {.iov_base = buffer, .iov_len = CONTROL_LINE_BYTES - 1};
    struct msghdr message = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = space,
        .msg_controllen = sizeof(space),
    };
    ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0)
        return -errno;

    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int connection;
    if (!header || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(sizeof(int)))
        return -EPROTO;
    memcpy(&connection, CMSG_DATA(header), sizeof(int));
    buffer[n] = '\0';
    *text = buffer;
    buffer = NULL;
    return connection;
}

char *control_escape(const char *path)
{
    char *text = malloc(2 * strlen(path) + 1);
    char *to = text;

    for (; text && *path; path++) {
        if (*path == '\\' || *path == '\n')
            *to++ = '\\';
        *to++ = *path == '\n' ? 'n' : *path;
    }
    if (text)
        *to = '\0';
    return text;
}

void control_unescape(char *text)
{
    char *to = text;

    for (; *text; text++) {
        bool escaped = *text == '\\' && text[1];
        text += escaped;
        *to++ = escaped && *text == 'n' ? '\n' : *text;
    }
    *to = '\0';
}

/* Length of the UTF-8 sequence at text, or 0 where there is none. */
static size_t sequence_length(const unsigned char *text)
{
    size_t length = *text < 0x80                    ? 1
                    : *text >= 0xc2 && *text < 0xe0 ? 2
                    : *text >= 0xe0 && *text < 0xf0 ? 3
                    : *text >= 0xf0 && *text < 0xf5 ? 4
                                                    : 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    /* Over-long forms, surrogates and what lies past U+10FFFF. */
    if ((*text == 0xe0 && text[1] < 0xa0) ||
        (*text == 0xed && text[1] > 0x9f) ||
        (*text == 0xf0 && text[1] < 0x90) || (*text == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

char *control_printable(const char *name)
{
    const unsigned char *from = (const unsigned char *)name;
    char *text = malloc(4 * strlen(name) + 1);
    char *to = text;

    while (text && *from) {
        size_t length = sequence_length(from);
        bool c1 = from[0] == 0xc2 && from[1] < 0xa0;
        if (length == 0 || *from < 0x20 || *from == 0x7f || c1) {
            to += sprintf(to, "\\x%02x", *from++);
            continue;
        }
        memcpy(to, from, length);
        to += length;
        from += length;
    }
    if (text)
        *to = '\0';
    return text;
}
