/* SPDX-License-Identifier: Apache-2.0 */
/* Item records are looked at file by file: those that a file has, not those
 * that it could have, so that what is not cached costs one look. */
#include "fs/report.h"

#include <errno.h>
#include <string.h>

#include "fs/control.h"
#include "fs/tasks.h"
#include "fs/walk.h"
#include "util/clock.h"

enum { MISSING_REPORTED = 1000, PROGRESS_MS = 200 };

struct numbers {
    uint64_t files, size, items;
    uint64_t cached_items, cached_bytes;
    uint64_t dram_items, dram_bytes, nvme_items, nvme_bytes;
};

static void add(struct numbers *sum, const struct numbers *file)
{
    sum->files++;
    sum->size += file->size;
    sum->items += file->items;
    sum->cached_items += file->cached_items;
    sum->cached_bytes += file->cached_bytes;
    sum->dram_items += file->dram_items;
    sum->dram_bytes += file->dram_bytes;
    sum->nvme_items += file->nvme_items;
    sum->nvme_bytes += file->nvme_bytes;
}

static json_t *pack(const struct numbers *n)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "size", (json_int_t)n->size,
        "items", (json_int_t)n->items, "cached_items",
        (json_int_t)n->cached_items, "cached_bytes",
        (json_int_t)n->cached_bytes, "dram_items", (json_int_t)n->dram_items,
        "dram_bytes", (json_int_t)n->dram_bytes, "nvme_items",
        (json_int_t)n->nvme_items, "nvme_bytes", (json_int_t)n->nvme_bytes);
}

struct look {
    struct cache *cache;
    uint64_t version;
    struct numbers *numbers;
};

static bool look_at_item(const struct item *item, void *data)
{
    struct look *look = data;
    struct numbers *numbers = look->numbers;
    uint32_t places = cache_places(look->cache, item);

    if (item->version != look->version)
        places &= ~(uint32_t)ITEM_ON_NVME;
    if (places & ITEM_IN_DRAM) {
        numbers->dram_items++;
        numbers->dram_bytes += item->length;
    }
    if (places & ITEM_ON_NVME) {
        numbers->nvme_items++;
        numbers->nvme_bytes += item->length;
    }
    if (places != 0) {
        numbers->cached_items++;
        numbers->cached_bytes += item->length;
    }
    return true;
}

static int look_at(struct worker *worker, const struct node *node,
                   struct numbers *numbers)
{
    struct look look = {worker->cache, node_version(node), numbers};

    *numbers = (struct numbers){
        .size = node->size, .items = inodes_item_count(worker->inodes, node)};
    if (numbers->items == 0)
        return 0;
    return index_each_item(worker->index, node->id, look_at_item, &look);
}

/* ---- info ---- */

static const char *type_name(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "file";
    case S_IFDIR:
        return "directory";
    case S_IFLNK:
        return "link";
    case S_IFIFO:
        return "pipe";
    case S_IFSOCK:
        return "socket";
    default:
        return "device";
    }
}

void report_info_run(struct worker *worker, int connection, const char *path)
{
    AUTO_FREE char *text = control_printable(path);
    struct tasks_output output;
    struct numbers numbers;
    struct node node;
    uint64_t id;

    tasks_output_init(&output, worker, connection);
    int err = tasks_find(worker, path, &id);
    if (err == 0)
        err = inodes_get_known(worker->inodes, id, &node);
    if (err == 0)
        err = look_at(worker, &node, &numbers);
    if (err != 0) {
        tasks_send_fatal(&output, path, err);
    } else {
        json_t *line = pack(&numbers);
        json_object_set_new(line, "path", json_string(text ? text : "?"));
        json_object_set_new(line, "type", json_string(type_name(node.mode)));
        json_object_set_new(line, "done", json_true());
        tasks_send(&output, line);
    }
    tasks_output_fini(&output);
}

/* ---- list and check ---- */

struct report {
    struct worker *worker;
    struct tasks_output output;
    struct numbers sum;
    uint64_t missing_files;
    uint64_t unknown;
    uint64_t told_ms;
    uint64_t parent; /* whose path folder is */
    char *folder;    /* printable, with a slash at its end; owned */
};

/* The printable path of a node; owned by the caller. Files of one directory
 * come one after the other: its path is looked up once. */
static char *path_of(struct report *report, const struct node *node)
{
    AUTO_FREE char *name = control_printable(node->name);
    char *path = NULL;

    if (!report->folder || report->parent != node->parent) {
        AUTO_FREE char *folder = NULL;
        free(report->folder);
        report->folder = NULL;
        if (inodes_path_known(report->worker->inodes, node->parent, &folder) !=
            0)
            return NULL;
        AUTO_FREE char *text = control_printable(folder);
        if (!text ||
            asprintf(&report->folder, "%s%s", text, *text ? "/" : "") < 0) {
            report->folder = NULL;
            return NULL;
        }
        report->parent = node->parent;
    }
    if (!name || asprintf(&path, "%s%s", report->folder, name) < 0)
        return NULL;
    return path;
}

static void count_failure(uint64_t id, int err, void *data)
{
    struct report *report = data;

    tasks_fail(&report->output, id, err);
}

/* A name whose attributes nobody has asked for yet. */
static void list_unknown(uint64_t id, int err, void *data)
{
    struct report *report = data;

    if (err == -ENOENT)
        report->unknown++;
    else
        tasks_fail(&report->output, id, err);
}

static bool list_file(const struct node *node, void *data)
{
    struct report *report = data;
    AUTO_FREE char *path = NULL;
    struct numbers numbers;

    if (!S_ISREG(node->mode))
        return true;
    int err = look_at(report->worker, node, &numbers);
    if (err != 0) {
        tasks_fail(&report->output, node->id, err);
        return true;
    }
    add(&report->sum, &numbers);
    path = path_of(report, node);
    json_t *line = pack(&numbers);
    json_object_set_new(line, "path", json_string(path ? path : "?"));
    return tasks_send(&report->output, line);
}

static void send_missing(struct report *report, const struct node *node,
                         const struct numbers *numbers)
{
    if (report->missing_files++ >= MISSING_REPORTED)
        return;
    AUTO_FREE char *path = path_of(report, node);
    tasks_send(&report->output,
               json_pack("{s:s, s:I, s:I}", "missing", path ? path : "?",
                         "size", (json_int_t)numbers->size, "cached_bytes",
                         (json_int_t)numbers->cached_bytes));
}

static bool check_file(const struct node *node, void *data)
{
    struct report *report = data;
    struct numbers numbers;
    uint64_t now = clock_now_ms();

    int err = look_at(report->worker, node, &numbers);
    if (err != 0)
        tasks_fail(&report->output, node->id, err);
    if (err != 0 || numbers.items == 0)
        return true;
    add(&report->sum, &numbers);
    if (numbers.cached_items < numbers.items)
        send_missing(report, node, &numbers);
    if (now - report->told_ms < PROGRESS_MS)
        return true;
    report->told_ms = now;
    return tasks_send(&report->output,
                      json_pack("{s:I, s:I, s:b}", "total_files",
                                (json_int_t)report->sum.files, "total_bytes",
                                (json_int_t)report->sum.size, "scanned", 0));
}

static void send_result(struct report *report, uint64_t unlisted)
{
    json_t *line = pack(&report->sum);

    json_object_set_new(line, "done", json_true());
    json_object_set_new(line, "files",
                        json_integer((json_int_t)report->sum.files));
    json_object_set_new(line, "missing_files",
                        json_integer((json_int_t)report->missing_files));
    json_object_set_new(
        line, "failed",
        json_integer((json_int_t)atomic_load(&report->output.failed)));
    json_object_set_new(line, "unlisted", json_integer((json_int_t)unlisted));
    tasks_send(&report->output, line);
}

static void run(struct worker *worker, int connection, const char *path,
                const struct walk *model)
{
    struct report report = {.worker = worker, .told_ms = clock_now_ms()};
    struct walk walk = *model;
    uint64_t id;

    tasks_output_init(&report.output, worker, connection);
    walk.output = &report.output;
    walk.data = &report;
    int err = tasks_find(worker, path, &id);
    if (err != 0) {
        tasks_send_fatal(&report.output, path, err);
    } else {
        walk_tree(&walk, id);
        if (!tasks_is_cancelled(&report.output))
            send_result(&report, walk.unlisted + report.unknown);
    }
    free(report.folder);
    tasks_output_fini(&report.output);
}

void report_list_run(struct worker *worker, int connection, const char *path)
{
    run(worker, connection, path,
        &(struct walk){
            .known_only = true, .file = list_file, .failed = list_unknown});
}

void report_check_run(struct worker *worker, int connection, const char *path)
{
    run(worker, connection, path,
        &(struct walk){.file = check_file, .failed = count_failure});
}
