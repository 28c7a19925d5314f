/* SPDX-License-Identifier: Apache-2.0 */
/* Thin operations. OPEN and OPENDIR are not implemented on purpose: answered
 * with ENOSYS once, the kernel opens files by itself from then on and keeps
 * their pages between opens. So are FLUSH, RELEASE and the xattr calls. */
#include "fs/ops.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "util/log.h"

enum {
    NEGATIVE_S = 60,
    VOLATILE_S = 1,       /* for a file that has changed all the same */
    DAY_S = 24 * 60 * 60, /* the dataset is immutable while it is mounted */
    MAX_BACKGROUND = 128, /* readahead requests that may be on their way */
};

double ops_timeout(const struct worker *worker, const struct node *node)
{
    int revalidate = worker->shared->config.revalidate;

    if (node->flags & NODE_CHANGED)
        return 0; /* the next to ask may clear the mark */
    if (node->flags & NODE_VOLATILE)
        return VOLATILE_S;
    return revalidate > 0 ? revalidate : DAY_S;
}

double ops_negative_timeout(const struct worker *worker)
{
    int revalidate = worker->shared->config.revalidate;

    return revalidate > 0 && revalidate < NEGATIVE_S ? revalidate : NEGATIVE_S;
}

void ops_fill_entry(const struct worker *worker, const struct node *node,
                    struct fuse_entry_param *entry)
{
    *entry = (struct fuse_entry_param){
        .ino = node->id,
        .generation = 1,
        .attr_timeout = ops_timeout(worker, node),
        .entry_timeout = ops_timeout(worker, node),
    };
    node_get_stat(node, &entry->attr);
}

/* The readdir cache of these kernels loses entries when a directory is read by
 * several at once. */
static bool has_readdir_cache_bug(void)
{
    struct utsname name;
    int major, minor;

    return uname(&name) == 0 &&
           sscanf(name.release, "%d.%d", &major, &minor) == 2 && major == 6 &&
           minor >= 9 && minor <= 12;
}

static void on_init(void *data, struct fuse_conn_info *connection)
{
    struct worker *worker = data;
    unsigned want = FUSE_CAP_NO_OPEN_SUPPORT | FUSE_CAP_NO_OPENDIR_SUPPORT |
                    FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_READDIRPLUS |
                    FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_AUTO_INVAL_DATA |
                    FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ASYNC_READ;
    /* Splice would leave a request in a pipe of a dead worker. With ASYNC_DIO
     * an O_DIRECT reader waits without sending INTERRUPT, so it could not be
     * killed while the source is slow. */
    unsigned avoid = FUSE_CAP_ASYNC_DIO | FUSE_CAP_SPLICE_READ |
                     FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
                     FUSE_CAP_WRITEBACK_CACHE;

    if (!(connection->capable & FUSE_CAP_NO_OPEN_SUPPORT))
        log_warn("this kernel asks for every open: hits will be slower");
    /* The kernel keeps a link's target whatever its attributes say later. */
    if (worker->shared->config.revalidate > 0)
        want &= ~(unsigned)FUSE_CAP_CACHE_SYMLINKS;
    connection->want |= want & connection->capable;
    connection->want &= ~avoid;
    worker->answers_opendir = has_readdir_cache_bug();
    if (worker->answers_opendir)
        connection->want &= ~(unsigned)FUSE_CAP_NO_OPENDIR_SUPPORT;
    connection->max_background = MAX_BACKGROUND;
    connection->congestion_threshold = MAX_BACKGROUND * 3 / 4;
}

static void hand_on(fuse_req_t req, struct call *model)
{
    struct worker *worker = fuse_req_userdata(req);

    model->pid = fuse_req_ctx(req)->pid;
    calls_hand_on(worker->calls, req, model);
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct worker *worker = fuse_req_userdata(req);
    struct node node;
    struct fuse_entry_param entry;

    /* The kernel asks for names of up to its own limit, 1,024 bytes. */
    if (strlen(name) >= NODE_NAME_BYTES) {
        fuse_reply_err(req, ENAMETOOLONG);
        return;
    }
    if (inodes_lookup_known(worker->inodes, parent, name, &node) != 0) {
        hand_on(req, &(struct call){
                         .kind = CALL_LOOKUP, .ino = parent, .name = name});
        return;
    }
    ops_fill_entry(worker, &node, &entry);
    fuse_reply_entry(req, &entry);
}

static void on_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
    (void)ino;
    (void)count;
    fuse_reply_none(req);
}

static void on_forget_multi(fuse_req_t req, size_t count,
                            struct fuse_forget_data *forgets)
{
    (void)count;
    (void)forgets;
    fuse_reply_none(req);
}

static void on_getattr(fuse_req_t req, fuse_ino_t ino,
                       struct fuse_file_info *info)
{
    struct worker *worker = fuse_req_userdata(req);
    struct node node;
    struct stat st;

    (void)info;
    if (inodes_get_known(worker->inodes, ino, &node) != 0 ||
        !inodes_is_fresh(worker->inodes, &node)) {
        hand_on(req, &(struct call){.kind = CALL_GETATTR, .ino = ino});
        return;
    }
    node_get_stat(&node, &st);
    fuse_reply_attr(req, &st, ops_timeout(worker, &node));
}

static void on_readlink(fuse_req_t req, fuse_ino_t ino)
{
    hand_on(req, &(struct call){.kind = CALL_READLINK, .ino = ino});
}

static void on_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *info)
{
    struct worker *worker = fuse_req_userdata(req);
    struct node node;

    if (fuse_req_ctx(req)->pid != atomic_load(&worker->shared->pinner_pid))
        atomic_fetch_add(&worker->reads, 1);
    if (fetch_has_buffer(worker->fetch, ino, (uint64_t)offset) &&
        inodes_get_known(worker->inodes, ino, &node) == 0 &&
        !(node.flags & NODE_CHANGED)) {
        size_t clipped = fetch_clip(&node, (uint64_t)offset, size);
        if (clipped > 0 && fetch_try_buffers(worker->fetch, req, &node,
                                             (uint64_t)offset, clipped))
            return;
    }
    hand_on(req, &(struct call){.kind = CALL_READ,
                                .ino = ino,
                                .offset = (uint64_t)offset,
                                .size = size,
                                .flags = info->flags});
}

static void on_readdir(fuse_req_t req, fuse_ino_t ino, size_t size,
                       off_t offset, struct fuse_file_info *info)
{
    (void)info;
    hand_on(req, &(struct call){.kind = CALL_READDIR,
                                .ino = ino,
                                .offset = (uint64_t)offset,
                                .size = size});
}

static void on_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size,
                           off_t offset, struct fuse_file_info *info)
{
    (void)info;
    hand_on(req, &(struct call){.kind = CALL_READDIRPLUS,
                                .ino = ino,
                                .offset = (uint64_t)offset,
                                .size = size});
}

/* Without this libfuse would answer with success, and go on being asked. */
static void on_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
    (void)ino;
    (void)info;
    fuse_reply_err(req, ENOSYS);
}

static void on_opendir(fuse_req_t req, fuse_ino_t ino,
                       struct fuse_file_info *info)
{
    const struct worker *worker = fuse_req_userdata(req);

    (void)ino;
    if (worker->answers_opendir)
        fuse_reply_open(req, info);
    else
        fuse_reply_err(req, ENOSYS);
}

static void on_statfs(fuse_req_t req, fuse_ino_t ino)
{
    hand_on(req, &(struct call){.kind = CALL_STATFS, .ino = ino});
}

/* A request without a reply. */
static void on_retrieve_reply(fuse_req_t req, void *cookie, fuse_ino_t ino,
                              off_t offset, struct fuse_bufvec *bytes)
{
    struct worker *worker = fuse_req_userdata(req);

    retrieve_answer(worker->retrieve, cookie, ino, (uint64_t)offset, bytes);
    fuse_reply_none(req);
}

const struct fuse_lowlevel_ops ops_table = {
    .init = on_init,
    .lookup = on_lookup,
    .forget = on_forget,
    .forget_multi = on_forget_multi,
    .getattr = on_getattr,
    .readlink = on_readlink,
    .open = on_open,
    .read = on_read,
    .opendir = on_opendir,
    .readdir = on_readdir,
    .readdirplus = on_readdirplus,
    .statfs = on_statfs,
    .retrieve_reply = on_retrieve_reply,
};
