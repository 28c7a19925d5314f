/* SPDX-License-Identifier: Apache-2.0 */
/* Every answer is built before the right to reply is claimed, and nothing of
 * the call is touched after it has been ended. */
#include "fs/serve.h"

#include <errno.h>
#include <string.h>

#include "fs/invalidate.h"
#include "fs/ops.h"
#include "fs/recover.h"
#include "util/log.h"

static void reply_negative(struct worker *worker, struct call *call)
{
    struct fuse_entry_param entry = {.entry_timeout =
                                         ops_negative_timeout(worker)};
    fuse_req_t req = calls_claim(worker->calls, call);

    if (req)
        fuse_reply_entry(req, &entry);
    calls_end(worker->calls, call);
}

/* True: the call is with the thread that has the kernel drop the file's pages
 * first. */
static bool drop_first(struct worker *worker, struct call *call,
                       const struct node *node)
{
    if (call->dropped_id != 0 || !inodes_must_drop(node))
        return false;
    invalidate_call(worker->invalidate, call, node);
    return true;
}

/* The right to reply with the node's attributes. A READ that comes before the
 * reply finds no old pages beside its own. The kernel may not believe a reply
 * to what it asked before it dropped them: so that does not count. */
static fuse_req_t claim_attributes(struct worker *worker, struct call *call,
                                   const struct node *node)
{
    fuse_req_t req = calls_claim(worker->calls, call);

    if (req && call->dropped_id == 0)
        inodes_confirm(worker->inodes, node);
    return req;
}

static void serve_lookup(struct worker *worker, struct call *call)
{
    struct node node;
    struct fuse_entry_param entry;
    int err = inodes_lookup(worker->inodes, call->ino, call->name, &node);

    if (err == -ENOENT) {
        reply_negative(worker, call);
        return;
    }
    /* -ESTALE: the index does not know the directory. */
    if (err != 0 && (err != -ESTALE || recover_node(worker->recover, call)))
        calls_fail(worker->calls, call, err);
    if (err != 0 || drop_first(worker, call, &node))
        return;
    ops_fill_entry(worker, &node, &entry);
    fuse_req_t req = claim_attributes(worker, call, &node);
    if (req)
        fuse_reply_entry(req, &entry);
    calls_end(worker->calls, call);
}

static void serve_getattr(struct worker *worker, struct call *call)
{
    struct node node;
    struct stat st;
    int err = inodes_refresh(worker->inodes, call->ino, &node);

    if (err != 0) {
        calls_fail(worker->calls, call, err);
        return;
    }
    if (drop_first(worker, call, &node))
        return;
    node_get_stat(&node, &st);
    fuse_req_t req = claim_attributes(worker, call, &node);
    if (req)
        fuse_reply_attr(req, &st, ops_timeout(worker, &node));
    calls_end(worker->calls, call);
}

static void serve_readlink(struct worker *worker, struct call *call)
{
    AUTO_FREE char *path = NULL;
    AUTO_FREE char *target = NULL;
    int err = inodes_path_known(worker->inodes, call->ino, &path);

    if (err == 0)
        err = backing_readlink(worker->backing, path, &target);
    if (err != 0) {
        calls_fail(worker->calls, call, err);
        return;
    }
    fuse_req_t req = calls_claim(worker->calls, call);
    if (req)
        fuse_reply_readlink(req, target);
    calls_end(worker->calls, call);
}

static void serve_statfs(struct worker *worker, struct call *call)
{
    struct statvfs st;
    int err = backing_statvfs(worker->backing, &st);

    if (err != 0) {
        calls_fail(worker->calls, call, err);
        return;
    }
    fuse_req_t req = calls_claim(worker->calls, call);
    if (req)
        fuse_reply_statfs(req, &st);
    calls_end(worker->calls, call);
}

/* ---- directories ---- */

struct filling {
    struct worker *worker;
    struct call *call;
    char *buffer;
    size_t room;
    size_t used;
};

/* Cookies: "." has 1 and ".." has 2, so an entry's is its ordinal + 3; the next
 * READDIR begins with the ordinal cookie - 2. */
enum { DOTS = 2 };

/* False when the entry does not fit. */
static bool fill_plain(struct filling *filling, const char *name, uint64_t id,
                       uint32_t type, uint64_t cookie)
{
    struct stat st = {.st_ino = id, .st_mode = DTTOIF(type)};
    size_t room = filling->room - filling->used;
    size_t need = fuse_add_direntry(NULL, filling->buffer + filling->used, room,
                                    name, &st, (off_t)cookie);

    if (need > room)
        return false;
    filling->used += need;
    return true;
}

/* An entry with attributes; one that cannot be looked up goes without, and the
 * kernel asks again when somebody uses it. */
static bool fill_plus(struct filling *filling, const char *name, uint64_t id,
                      uint32_t type, uint64_t cookie, bool look_up)
{
    struct worker *worker = filling->worker;
    struct fuse_entry_param entry = {.attr.st_ino = id,
                                     .attr.st_mode = DTTOIF(type)};
    struct node node;
    size_t room = filling->room - filling->used;
    size_t need = fuse_add_direntry_plus(NULL, NULL, 0, name, &entry, 0);
    bool found = false;

    if (need > room)
        return false;
    if (look_up &&
        (inodes_lookup_known(worker->inodes, filling->call->ino, name, &node) ==
             0 ||
         inodes_lookup(worker->inodes, filling->call->ino, name, &node) == 0)) {
        /* A changed file is confirmed by GETATTR or LOOKUP alone: this reply
         * may be dropped by the kernel without a word. */
        found = !(node.flags & NODE_CHANGED);
    }
    if (found)
        ops_fill_entry(worker, &node, &entry);
    fuse_add_direntry_plus(NULL, filling->buffer + filling->used, room, name,
                           &entry, (off_t)cookie);
    filling->used += need;
    return true;
}

static bool fill(struct filling *filling, const char *name, uint64_t id,
                 uint32_t type, uint64_t cookie, bool look_up)
{
    return filling->call->kind == CALL_READDIRPLUS
               ? fill_plus(filling, name, id, type, cookie, look_up)
               : fill_plain(filling, name, id, type, cookie);
}

static bool fill_entry(uint64_t ordinal, const struct listing_entry *entry,
                       void *data)
{
    return fill(data, entry->name, entry->id, entry->type, ordinal + DOTS + 1,
                true);
}

static int fill_directory(struct filling *filling)
{
    struct worker *worker = filling->worker;
    struct node node;
    uint64_t cookie = filling->call->offset;
    int err = inodes_get_known(worker->inodes, filling->call->ino, &node);

    if (err != 0)
        return err == -ENOENT ? -ESTALE : err;
    if (cookie == 0 && fill(filling, ".", node.id, DT_DIR, 1, false))
        cookie = 1;
    if (cookie == 1 && fill(filling, "..", node.parent, DT_DIR, 2, false))
        cookie = DOTS;
    if (cookie < DOTS)
        return 0;
    return index_each_entry(worker->index, node.id, cookie - DOTS, fill_entry,
                            filling);
}

static void serve_readdir(struct worker *worker, struct call *call,
                          char *scratch)
{
    struct filling filling = {
        .worker = worker,
        .call = call,
        .buffer = scratch,
        .room =
            call->size < SERVE_SCRATCH_BYTES ? call->size : SERVE_SCRATCH_BYTES,
    };
    int err = listings_ensure(worker->listings, call->ino, call->offset > 0,
                              &call->waiter);

    if (err == -EAGAIN)
        return; /* the call is with the thread that makes the listing */
    if (err == 0)
        err = fill_directory(&filling);
    if (err != 0) {
        calls_fail(worker->calls, call, err);
        return;
    }
    fuse_req_t req = calls_claim(worker->calls, call);
    if (req)
        fuse_reply_buf(req, filling.buffer, filling.used);
    calls_end(worker->calls, call);
}

void serve_call(struct worker *worker, struct call *call, char *scratch)
{
    /* The two frequent kinds find out by themselves. */
    if (call->kind != CALL_LOOKUP && call->kind != CALL_READ &&
        !recover_node(worker->recover, call))
        return;
    switch (call->kind) {
    case CALL_LOOKUP:
        serve_lookup(worker, call);
        break;
    case CALL_GETATTR:
        serve_getattr(worker, call);
        break;
    case CALL_READLINK:
        serve_readlink(worker, call);
        break;
    case CALL_READ:
        if (fetch_read(worker->fetch, call, scratch) != 0 &&
            recover_node(worker->recover, call))
            calls_requeue(worker->calls, call);
        break;
    case CALL_READDIR:
    case CALL_READDIRPLUS:
        serve_readdir(worker, call, scratch);
        break;
    case CALL_STATFS:
        serve_statfs(worker, call);
        break;
    }
}
