/* SPDX-License-Identifier: Apache-2.0 */
/* Connections are few and short-lived: a table of them, scanned. */
#include "fs/requests.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "fs/control.h"
#include "fs/status.h"
#include "fs/tasks.h"
#include "util/clock.h"
#include "util/log.h"

enum { CONNECTIONS = REQUESTS_POLLED - 1, PATIENCE_MS = 1000 };

struct connection {
    int fd; /* -1: free */
    uint64_t until_ms;
    char *line;
    size_t used;
};

struct requests {
    struct shared *shared;
    int worker_fd;
    int socket;
    uint64_t inode; /* of the socket's file */
    struct connection connections[CONNECTIONS];
};

int requests_create(struct shared *shared, int worker_fd,
                    struct requests **requests)
{
    struct requests *made = calloc(1, sizeof(*made));
    if (!made)
        return -ENOMEM;
    made->socket = control_listen(shared->device_major, shared->device_minor,
                                  &made->inode);
    if (made->socket < 0) {
        int err = made->socket;
        free(made);
        return err;
    }
    made->shared = shared;
    made->worker_fd = worker_fd;
    for (int i = 0; i < CONNECTIONS; i++)
        made->connections[i].fd = -1;
    *requests = made;
    return 0;
}

static void drop(struct connection *connection)
{
    close(connection->fd);
    free(connection->line);
    *connection = (struct connection){.fd = -1};
}

void requests_destroy(struct requests *requests)
{
    struct shared *shared = requests->shared;

    for (int i = 0; i < CONNECTIONS; i++)
        if (requests->connections[i].fd >= 0)
            drop(&requests->connections[i]);
    close(requests->socket);
    control_unlink(shared->device_major, shared->device_minor, requests->inode);
    free(requests);
}

nfds_t requests_fill(struct requests *requests, struct pollfd *polled)
{
    nfds_t count = 0;

    polled[count++] = (struct pollfd){.fd = requests->socket, .events = POLLIN};
    for (int i = 0; i < CONNECTIONS; i++)
        if (requests->connections[i].fd >= 0)
            polled[count++] = (struct pollfd){.fd = requests->connections[i].fd,
                                              .events = POLLIN};
    return count;
}

static void accept_one(struct requests *requests)
{
    int fd = accept4(requests->socket, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    for (int i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &requests->connections[i];
        if (connection->fd >= 0)
            continue;
        connection->line = malloc(CONTROL_LINE_BYTES);
        if (!connection->line)
            break;
        connection->fd = fd;
        connection->used = 0;
        connection->until_ms = clock_now_ms() + PATIENCE_MS;
        return;
    }
    close(fd); /* too many at once: the command tries again */
}

static void send_status(struct requests *requests, int fd)
{
    AUTO_FREE char *json = status_json(requests->shared);

    if (json)
        control_send_line(fd, json);
}

/* A whole request. The answer is small enough for the socket's buffer. */
static void answer(struct requests *requests, struct connection *connection)
{
    const char *line = connection->line;

    if (strcmp(line, "status") == 0) {
        send_status(requests, connection->fd);
    } else if (strcmp(line, "state") == 0) {
        control_send_line(connection->fd, status_state(requests->shared));
    } else if (tasks_know(line)) {
        int err = control_pass(requests->worker_fd, connection->fd, line);
        if (err != 0)
            log_debug("control: pass on: %s", strerror(-err));
    } else {
        control_send_line(connection->fd, "unknown command");
    }
    drop(connection);
}

static void receive(struct requests *requests, struct connection *connection)
{
    size_t room = CONTROL_LINE_BYTES - connection->used;
    ssize_t n = recv(connection->fd, connection->line + connection->used, room,
                     MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(connection);
        return;
    }
    char *newline =
        memchr(connection->line + connection->used, '\n', (size_t)n);
    connection->used += (size_t)n;
    if (newline) {
        *newline = '\0';
        answer(requests, connection);
    } else if (connection->used == CONTROL_LINE_BYTES) {
        drop(connection);
    }
}

void requests_serve(struct requests *requests, const struct pollfd *polled,
                    nfds_t count)
{
    uint64_t now = clock_now_ms();

    for (int i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &requests->connections[i];
        for (nfds_t p = 1; p < count && connection->fd >= 0; p++)
            if (polled[p].fd == connection->fd && polled[p].revents) {
                receive(requests, connection);
                break;
            }
        if (connection->fd >= 0 && now > connection->until_ms)
            drop(connection);
    }
    if (polled[0].revents & POLLIN)
        accept_one(requests);
}
