/* SPDX-License-Identifier: Apache-2.0 */
/* Goes over the nodes of the index, not over the tree: the kernel may know
 * names that no listing has. A directory that has changed is listed anew, and
 * the kernel is told of every name in it that is new: it may remember that
 * there was none.
 *
 * Order of a change: the records go, the kernel drops its pages, the pinner
 * lets go and asks for the attributes. */
#include "fs/refresh.h"

#include <errno.h>
#include <string.h>

#include "fs/notify.h"
#include "fs/tasks.h"
#include "fs/upkeep.h"
#include "util/clock.h"

enum {
    PROGRESS_MS = 200,
    WAIT_MS = 50,
    RELEASES_MS = 10000, /* for the pinner to have done what it was asked */
};

/* Nodes of one kind that have changed. */
struct nodes {
    struct node_version {
        uint64_t id;
        uint64_t version;
    } * at; /* owned */
    size_t count;
    size_t room;
};

struct refresh {
    struct worker *worker;
    struct tasks_output output;
    struct notify notify;
    const char *below;
    struct nodes directories;
    struct nodes files;
    uint64_t settled_ns; /* when the changes are old enough to be believed */
    uint64_t checked, changed, created, removed;
    uint64_t sent_ms;
    int err; /* ends it all */
};

static void send_progress(struct refresh *refresh)
{
    if (clock_now_ms() - refresh->sent_ms < PROGRESS_MS)
        return;
    refresh->sent_ms = clock_now_ms();
    tasks_send(&refresh->output,
               json_pack("{s:I, s:I, s:I, s:I, s:b}", "files",
                         (json_int_t)refresh->checked, "bytes", (json_int_t)0,
                         "total_files", (json_int_t)refresh->checked,
                         "total_bytes", (json_int_t)0, "scanned", 0));
}

static bool is_below(const char *path, const char *below)
{
    size_t length = strlen(below);

    return strncmp(path, below, length) == 0 &&
           (length == 0 || path[length] == '\0' || path[length] == '/');
}

/* The directory that PATH is in may have lost or got its name. */
static bool is_parent(const char *path, const char *below)
{
    const char *slash = strrchr(below, '/');
    size_t length = slash ? (size_t)(slash - below) : 0;

    return *below != '\0' && strlen(path) == length &&
           strncmp(path, below, length) == 0;
}

static int remember(struct nodes *nodes, const struct node *node)
{
    if (nodes->count == nodes->room) {
        size_t room = nodes->room ? nodes->room * 2 : 64;
        struct node_version *at = realloc(nodes->at, room * sizeof(*at));
        if (!at)
            return -ENOMEM;
        nodes->at = at;
        nodes->room = room;
    }
    nodes->at[nodes->count++] =
        (struct node_version){node->id, node_version(node)};
    return 0;
}

/* ---- nodes ---- */

/* A reader who keeps the kernel waiting is reported, and does not end it all:
 * what was sent arrives when that reader has its answer. */
static void note_sent(struct refresh *refresh, uint64_t id, int err)
{
    if (err == -ETIMEDOUT)
        tasks_fail(&refresh->output, id, err);
    else if (err != 0)
        refresh->err = err;
}

static void forget_name(struct refresh *refresh, const struct node *node,
                        const char *path)
{
    inodes_removed(refresh->worker->inodes, node, path);
    note_sent(refresh, node->parent,
              notify_name(&refresh->notify, node->parent, node->name));
}

static void note_settling(struct refresh *refresh, const struct node *node)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t at = clock_now_ns() + node_unsettled_ns(node, now);
    if (at > refresh->settled_ns)
        refresh->settled_ns = at;
}

static void take_over(struct refresh *refresh, const struct node *node)
{
    struct node now;
    int err = inodes_refresh(refresh->worker->inodes, node->id, &now);

    if (err == 0 && S_ISDIR(now.mode)) {
        err = remember(&refresh->directories, &now);
    } else if (err == 0) {
        note_settling(refresh, &now);
        err = notify_data(&refresh->notify, node->id);
    }
    if (err == 0 && S_ISREG(now.mode))
        err = remember(&refresh->files, &now);
    if (err != 0)
        tasks_fail(&refresh->output, node->id, err);
}

static void compare(struct refresh *refresh, const struct node *node,
                    const char *path)
{
    struct stat st;
    int err = backing_stat(refresh->worker->backing, path, &st);

    refresh->checked++;
    if (err == -ENOENT || err == -ENOTDIR) {
        if (!(node->flags & NODE_CHANGED) || node->size != 0)
            refresh->removed++;
        forget_name(refresh, node, path);
    } else if (err != 0) {
        tasks_fail(&refresh->output, node->id, err);
    } else if ((node->mode & S_IFMT) != (st.st_mode & S_IFMT)) {
        refresh->changed++;
        forget_name(refresh, node, path);
        take_over(refresh, node);
    } else if (node_version(node) != node_stat_version(&st)) {
        refresh->changed++;
        take_over(refresh, node);
    }
}

static bool visit_node(const struct node *node, void *data)
{
    struct refresh *refresh = data;
    AUTO_FREE char *path = NULL;

    if (inodes_path_known(refresh->worker->inodes, node->id, &path) == 0 &&
        (is_below(path, refresh->below) || is_parent(path, refresh->below)))
        compare(refresh, node, path);
    send_progress(refresh);
    return refresh->err == 0 && !tasks_is_cancelled(&refresh->output);
}

/* ---- names ---- */

struct names {
    struct refresh *refresh;
    uint64_t directory;
    uint64_t *known; /* ids of the listing before, sorted; owned */
    size_t count;
    size_t room;
};

static bool note_id(uint64_t ordinal, const struct listing_entry *entry,
                    void *data)
{
    struct names *names = data;

    (void)ordinal;
    if (names->count == names->room) {
        size_t room = names->room ? names->room * 2 : 256;
        uint64_t *known = realloc(names->known, room * sizeof(*known));
        if (!known) {
            names->refresh->err = -ENOMEM;
            return false;
        }
        names->known = known;
        names->room = room;
    }
    names->known[names->count++] = entry->id;
    return true;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static bool tell_new(uint64_t ordinal, const struct listing_entry *entry,
                     void *data)
{
    struct names *names = data;
    struct refresh *refresh = names->refresh;

    (void)ordinal;
    if (names->count > 0 && bsearch(&entry->id, names->known, names->count,
                                    sizeof(*names->known), by_id))
        return true;
    refresh->created++;
    note_sent(refresh, names->directory,
              notify_name(&refresh->notify, names->directory, entry->name));
    return refresh->err == 0;
}

/* Lists the directory anew; the kernel learns of new names and, by the
 * attributes, that its own listing is old. */
static int renew(struct refresh *refresh, uint64_t directory)
{
    struct worker *worker = refresh->worker;
    struct names names = {.refresh = refresh, .directory = directory};
    AUTO_FREE char *path = NULL;
    int err = index_each_entry(worker->index, directory, 0, note_id, &names);

    if (names.count > 0)
        qsort(names.known, names.count, sizeof(*names.known), by_id);
    if (err == 0)
        err = listings_renew(worker->listings, directory);
    if (err == 0)
        err = index_each_entry(worker->index, directory, 0, tell_new, &names);
    if (err == 0)
        err = inodes_path_known(worker->inodes, directory, &path);
    if (err == 0)
        err = upkeep_release(worker, directory, path);
    free(names.known);
    return err;
}

/* ---- the task ---- */

/* The kernel has dropped what it had of the files: has the pinner let go, and
 * ask for the attributes. */
static int release_files(struct refresh *refresh)
{
    struct worker *worker = refresh->worker;
    int err = notify_flush(&refresh->notify);
    bool dropped = err == 0;

    if (err == -ETIMEDOUT)
        err = 0; /* it does when the pinner asks */
    for (size_t i = 0; err == 0 && i < refresh->files.count; i++) {
        const struct node_version *file = &refresh->files.at[i];
        AUTO_FREE char *path = NULL;
        if (dropped)
            inodes_dropped(worker->inodes, file->id, file->version);
        err = inodes_path_known(worker->inodes, file->id, &path);
        if (err == 0)
            err = upkeep_release(worker, file->id, path);
    }
    return err;
}

static void wait_for_pinner(struct worker *worker)
{
    struct admission *admission = cache_admission(worker->cache);
    uint64_t until = clock_now_ms() + RELEASES_MS;

    while (admission_has_tasks(admission) && clock_now_ms() < until &&
           !shared_is_closed(worker->shared))
        admission_wait_free(admission, WAIT_MS);
}

static int go_over(struct refresh *refresh, const char *argument)
{
    struct worker *worker = refresh->worker;
    struct stat st;

    refresh->below = argument;
    int err = index_each_node(worker->index, visit_node, refresh);
    for (size_t i = 0;
         err == 0 && refresh->err == 0 && i < refresh->directories.count; i++) {
        uint64_t directory = refresh->directories.at[i].id;
        int failed = renew(refresh, directory);
        if (failed != 0)
            tasks_fail(&refresh->output, directory, failed);
    }
    if (err == 0)
        err = refresh->err;
    if (err == 0)
        err = release_files(refresh);
    wait_for_pinner(worker);
    uint64_t now = clock_now_ns();
    if (refresh->settled_ns > now)
        clock_sleep_ns(refresh->settled_ns - now);
    if (err == 0 && refresh->checked == 0)
        err = backing_stat(worker->backing, argument, &st);
    return err;
}

void refresh_run(struct worker *worker, int connection, const char *argument)
{
    struct refresh refresh = {.worker = worker};

    tasks_output_init(&refresh.output, worker, connection);
    int err = go_over(&refresh, argument);
    if (err != 0)
        tasks_send_fatal(&refresh.output, argument, err);
    else
        tasks_send(&refresh.output,
                   json_pack("{s:b, s:I, s:I, s:I, s:I, s:I}", "done", 1,
                             "checked", (json_int_t)refresh.checked, "changed",
                             (json_int_t)refresh.changed, "created",
                             (json_int_t)refresh.created, "removed",
                             (json_int_t)refresh.removed, "failed",
                             (json_int_t)atomic_load(&refresh.output.failed)));
    notify_fini(&refresh.notify);
    free(refresh.directories.at);
    free(refresh.files.at);
    tasks_output_fini(&refresh.output);
}
