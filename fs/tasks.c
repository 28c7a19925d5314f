/* SPDX-License-Identifier: Apache-2.0 */
/* A thread waits for connections; it starts one for each. Tasks may wait for
 * buffers and for the source, as the read path must not. */
#include "fs/tasks.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/clear.h"
#include "fs/control.h"
#include "fs/process.h"
#include "fs/refresh.h"
#include "fs/report.h"
#include "fs/verify.h"
#include "fs/warm.h"
#include "util/hash.h"

enum { FAILURES_REPORTED = 1000 };

/* run has the connection until it returns. */
struct task {
    const char *name;
    void (*run)(struct worker *worker, int connection, const char *argument);
};

static const struct task table[] = {
    {"warm", warm_run},        {"check", report_check_run},
    {"info", report_info_run}, {"list", report_list_run},
    {"verify", verify_run},    {"refresh", refresh_run},
    {"clear", clear_run},
};

/* ---- what tasks share ---- */

void tasks_output_init(struct tasks_output *output, struct worker *worker,
                       int connection)
{
    *output = (struct tasks_output){.worker = worker, .connection = connection};
    pthread_mutex_init(&output->lock, NULL);
}

void tasks_output_fini(struct tasks_output *output)
{
    pthread_mutex_destroy(&output->lock);
}

bool tasks_send(struct tasks_output *output, json_t *object)
{
    AUTO_FREE char *line = json_dumps(object, JSON_COMPACT);

    json_decref(object);
    SCOPED_LOCK(&output->lock);
    if (!line || !control_send_line(output->connection, line))
        tasks_cancel(output);
    return !tasks_is_cancelled(output);
}

bool tasks_is_cancelled(struct tasks_output *output)
{
    return atomic_load(&output->cancelled);
}

void tasks_cancel(struct tasks_output *output)
{
    atomic_store(&output->cancelled, true);
}

void tasks_fail(struct tasks_output *output, uint64_t id, int err)
{
    tasks_fail_text(output, id, strerror(-err));
}

void tasks_fail_text(struct tasks_output *output, uint64_t id,
                     const char *error)
{
    AUTO_FREE char *path = NULL;
    AUTO_FREE char *text = NULL;

    if (atomic_fetch_add(&output->failed, 1) >= FAILURES_REPORTED)
        return;
    if (inodes_path_known(output->worker->inodes, id, &path) == 0)
        text = control_printable(path);
    tasks_send(output, json_pack("{s:s, s:s}", "failed", text ? text : "?",
                                 "error", error));
}

void tasks_send_fatal(struct tasks_output *output, const char *path, int err)
{
    AUTO_FREE char *text = control_printable(path);

    tasks_send(output, json_pack("{s:s, s:s}", "fatal", text ? text : "?",
                                 "error", strerror(-err)));
}

int tasks_find(struct worker *worker, const char *path, uint64_t *id)
{
    AUTO_FREE char *copy = strdup(path);
    char *rest = NULL;
    struct node node = {.id = HASH_ROOT_ID};
    if (!copy)
        return -ENOMEM;

    for (char *name = strtok_r(copy, "/", &rest); name;
         name = strtok_r(NULL, "/", &rest)) {
        int err = strlen(name) >= NODE_NAME_BYTES
                      ? -ENAMETOOLONG
                      : inodes_lookup(worker->inodes, node.id, name, &node);
        if (err != 0)
            return err;
    }
    *id = node.id;
    return 0;
}

/* ---- the connections ---- */

static const struct task *find_task(const char *line)
{
    size_t length = strcspn(line, " ");

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (line[length] == ' ' && strlen(table[i].name) == length &&
            memcmp(table[i].name, line, length) == 0)
            return &table[i];
    return NULL;
}

bool tasks_know(const char *line)
{
    return find_task(line) != NULL;
}

struct request {
    struct worker *worker;
    const struct task *task;
    int connection;
    char *line;
};

static void *task_main(void *data)
{
    struct request *request = data;
    char *argument = request->line + strlen(request->task->name) + 1;

    control_unescape(argument);
    request->task->run(request->worker, request->connection, argument);
    close(request->connection);
    free(request->line);
    free(request);
    return NULL;
}

static void accept_request(struct worker *worker)
{
    char *line = NULL;
    int connection = control_receive(PROCESS_FD_CONTROL, &line);
    if (connection < 0)
        return;

    const struct task *task = find_task(line);
    struct request *request = task ? calloc(1, sizeof(*request)) : NULL;
    pthread_t thread;
    if (request) {
        *request = (struct request){worker, task, connection, line};
        if (pthread_create(&thread, NULL, task_main, request) == 0) {
            pthread_detach(thread);
            return;
        }
    }
    free(request);
    free(line);
    close(connection);
}

static void *server_main(void *data)
{
    pthread_setname_np(pthread_self(), "control");
    for (;;) {
        struct pollfd poller = {.fd = PROCESS_FD_CONTROL, .events = POLLIN};
        int ready = poll(&poller, 1, -1);
        if (ready > 0 && poller.revents & POLLIN)
            accept_request(data);
        else if (ready > 0)
            return NULL; /* the supervisor is gone */
    }
}

int tasks_start(struct worker *worker)
{
    pthread_t thread;
    int err = pthread_create(&thread, NULL, server_main, worker);

    if (err == 0)
        pthread_detach(thread);
    return -err;
}
