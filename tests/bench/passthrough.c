/* SPDX-License-Identifier: Apache-2.0 */
/* A minimal pass-through FUSE server: what a mount costs that caches nothing
 * but what the kernel keeps. It is the yardstick of the benchmarks.
 *
 * It works as most servers do: threads of libfuse, one descriptor per known
 * node, OPEN and RELEASE for every file, keep_cache, READ by pread into a
 * buffer. Attributes and names are kept by the kernel for a day, so that only
 * the page cache decides what is read again.
 *
 * With --rate it plays slow storage: the source gives that many bytes a second
 * in all. With --direct the source is read past its own page cache. With
 * --memory it answers every READ with zeros and is asked for no OPEN: what FUSE
 * itself costs, and nothing else. With --stats FILE it keeps "bytes reads", as
 * read from the source, in FILE. */
#define FUSE_USE_VERSION 312
#include "tests/bench/bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUCKETS = 1 << 16,
    DIRECT_ALIGN = 4096, /* every logical block size in use divides it */
    TIMEOUT_S = 86400,
};

#define NS_PER_S UINT64_C(1000000000)
/* Time that nobody asked for anything is lost to the source, but the moment
 * between two requests of a busy reader is not. */
static const uint64_t GRACE_NS = NS_PER_S / 100;

struct node {
    struct node *next;
    dev_t dev;
    ino_t ino;
    int fd; /* O_PATH */
    off_t size;
    uint64_t lookups;
};

static struct node root;

/* What the kernel knows. */
static struct {
    pthread_mutex_t lock;
    struct node *buckets[BUCKETS];
} nodes = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* How fast the source may be read, and how much was. */
static struct {
    pthread_mutex_t lock;
    uint64_t free_at_ns; /* when all that was promised will have been read */
    uint64_t bytes;
    uint64_t reads;
} source = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
    uint64_t rate;
    bool direct;
    bool memory;
    bool foreground;
    int stats_fd;
} options = {.stats_fd = -1};

static struct node *node_of(fuse_ino_t id)
{
    return id == FUSE_ROOT_ID ? &root : (struct node *)(uintptr_t)id;
}

static struct node **bucket_of(dev_t dev, ino_t ino)
{
    return &nodes.buckets[bench_mix(dev ^ bench_mix(ino)) % BUCKETS];
}

/* Counts one lookup of the node behind fd. Takes ownership of fd. */
static struct node *node_get(int fd, const struct stat *st)
{
    struct node **bucket = bucket_of(st->st_dev, st->st_ino);
    struct node *node;

    pthread_mutex_lock(&nodes.lock);
    for (node = *bucket; node; node = node->next)
        if (node->dev == st->st_dev && node->ino == st->st_ino)
            break;
    if (node) {
        close(fd);
    } else if ((node = calloc(1, sizeof(*node)))) {
        *node = (struct node){.next = *bucket,
                              .dev = st->st_dev,
                              .ino = st->st_ino,
                              .fd = fd,
                              .size = st->st_size};
        *bucket = node;
    } else {
        close(fd);
    }
    if (node)
        node->lookups++;
    pthread_mutex_unlock(&nodes.lock);
    return node;
}

static void node_put(fuse_ino_t id, uint64_t lookups)
{
    struct node *node = node_of(id);

    if (node == &root)
        return;
    pthread_mutex_lock(&nodes.lock);
    node->lookups -= lookups;
    if (node->lookups) {
        pthread_mutex_unlock(&nodes.lock);
        return;
    }
    struct node **link = bucket_of(node->dev, node->ino);
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    pthread_mutex_unlock(&nodes.lock);
    close(node->fd);
    free(node);
}

/* 0 or an errno, as libfuse wants it. */
static int look_up(fuse_ino_t parent, const char *name,
                   struct fuse_entry_param *entry)
{
    int fd = openat(node_of(parent)->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errno;
    *entry = (struct fuse_entry_param){.attr_timeout = TIMEOUT_S,
                                       .entry_timeout = TIMEOUT_S};
    if (fstatat(fd, "", &entry->attr, AT_EMPTY_PATH)) {
        int error = errno;
        close(fd);
        return error;
    }
    struct node *node = node_get(fd, &entry->attr);
    entry->ino = (uintptr_t)node;
    return node ? 0 : ENOMEM;
}

static void op_init(void *user, struct fuse_conn_info *connection)
{
    (void)user;
    connection->want &=
        ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
                    FUSE_CAP_SPLICE_MOVE);
}

static void op_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param entry;
    int error = look_up(parent, name, &entry);

    if (error)
        fuse_reply_err(request, error);
    else
        fuse_reply_entry(request, &entry);
}

static void op_forget(fuse_req_t request, fuse_ino_t id, uint64_t lookups)
{
    node_put(id, lookups);
    fuse_reply_none(request);
}

static void op_forget_multi(fuse_req_t request, size_t count,
                            struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        node_put(forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(request);
}

static void op_getattr(fuse_req_t request, fuse_ino_t id,
                       struct fuse_file_info *file)
{
    struct stat st;

    (void)file;
    if (fstatat(node_of(id)->fd, "", &st, AT_EMPTY_PATH))
        fuse_reply_err(request, errno);
    else
        fuse_reply_attr(request, &st, TIMEOUT_S);
}

static int open_again(fuse_ino_t id, int flags)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", node_of(id)->fd);
    return open(path, O_RDONLY | O_CLOEXEC | flags);
}

static void op_open(fuse_req_t request, fuse_ino_t id,
                    struct fuse_file_info *file)
{
    if (options.memory) {
        fuse_reply_err(request, ENOSYS);
        return;
    }
    int fd = open_again(id, options.direct ? O_DIRECT : 0);

    if (fd < 0) {
        fuse_reply_err(request, errno);
        return;
    }
    file->fh = (uint64_t)fd;
    file->keep_cache = 1;
    if (fuse_reply_open(request, file))
        close(fd);
}

static void op_release(fuse_req_t request, fuse_ino_t id,
                       struct fuse_file_info *file)
{
    (void)id;
    close((int)file->fh);
    fuse_reply_err(request, 0);
}

/* Called with the source's lock held, or before there are threads. */
static void write_stats_locked(void)
{
    char text[64];
    int length = snprintf(text, sizeof(text), "%020" PRIu64 " %020" PRIu64 "\n",
                          source.bytes, source.reads);

    if (pwrite(options.stats_fd, text, (size_t)length, 0) != length)
        warn("stats");
}

/* Promises the source's next bytes; when they will have been read. */
static uint64_t reserve_locked(uint64_t bytes)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
    if (source.free_at_ns + GRACE_NS < now_ns)
        source.free_at_ns = now_ns - GRACE_NS;
    source.free_at_ns += bytes * NS_PER_S / options.rate;
    return source.free_at_ns;
}

/* Counts bytes, and waits until the source would have given them. */
static void account(uint64_t bytes)
{
    uint64_t until_ns = 0;

    if (!options.rate && options.stats_fd < 0)
        return;
    pthread_mutex_lock(&source.lock);
    source.bytes += bytes;
    source.reads++;
    if (options.stats_fd >= 0)
        write_stats_locked();
    if (options.rate)
        until_ns = reserve_locked(bytes);
    pthread_mutex_unlock(&source.lock);
    if (!until_ns)
        return;
    struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                             .tv_nsec = (long)(until_ns % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
        ;
}

static void reply_zeros(fuse_req_t request, fuse_ino_t id, size_t size,
                        off_t offset)
{
    static const char zeros[1 << 20];
    off_t left = node_of(id)->size - offset;

    if (left < 0)
        left = 0;
    if ((off_t)size > left)
        size = (size_t)left;
    fuse_reply_buf(request, zeros, size < sizeof(zeros) ? size : sizeof(zeros));
}

static void op_read(fuse_req_t request, fuse_ino_t id, size_t size,
                    off_t offset, struct fuse_file_info *file)
{
    if (options.memory) {
        reply_zeros(request, id, size, offset);
        return;
    }
    size_t align = options.direct ? DIRECT_ALIGN : 1;
    size_t before = (size_t)offset % align;
    size_t room = (before + size + align - 1) / align * align;
    char *buffer = NULL;

    (void)id;
    if (options.direct)
        buffer = aligned_alloc(DIRECT_ALIGN, room);
    else
        buffer = malloc(room);
    if (!buffer) {
        fuse_reply_err(request, ENOMEM);
        return;
    }
    ssize_t length = pread((int)file->fh, buffer, room, offset - (off_t)before);
    if (length < 0) {
        fuse_reply_err(request, errno);
    } else {
        account((uint64_t)length);
        size_t got = (size_t)length > before ? (size_t)length - before : 0;
        fuse_reply_buf(request, buffer + before, got < size ? got : size);
    }
    free(buffer);
}

static DIR *directory_of(const struct fuse_file_info *file)
{
    return (DIR *)(uintptr_t)file->fh;
}

static void op_opendir(fuse_req_t request, fuse_ino_t id,
                       struct fuse_file_info *file)
{
    int fd = open_again(id, O_DIRECTORY);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);

    if (!directory) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        fuse_reply_err(request, error);
        return;
    }
    file->fh = (uintptr_t)directory;
    if (fuse_reply_open(request, file))
        closedir(directory);
}

static void op_releasedir(fuse_req_t request, fuse_ino_t id,
                          struct fuse_file_info *file)
{
    (void)id;
    closedir(directory_of(file));
    fuse_reply_err(request, 0);
}

static bool is_dots(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..");
}

/* Adds one entry; 0 when it does not fit any more. */
static size_t add_entry(fuse_req_t request, fuse_ino_t id, bool plus,
                        const struct dirent *found, char *buffer, size_t room)
{
    struct fuse_entry_param entry = {0};
    size_t length;

    entry.attr.st_ino = found->d_ino;
    entry.attr.st_mode = DTTOIF(found->d_type);
    if (!plus)
        return fuse_add_direntry(request, buffer, room, found->d_name,
                                 &entry.attr, found->d_off);
    if (!is_dots(found->d_name) && look_up(id, found->d_name, &entry))
        entry = (struct fuse_entry_param){0}; /* gone: the kernel will ask */
    length = fuse_add_direntry_plus(request, buffer, room, found->d_name,
                                    &entry, found->d_off);
    if (length > room && entry.ino)
        node_put(entry.ino, 1);
    return length;
}

static void list(fuse_req_t request, fuse_ino_t id, size_t size, off_t offset,
                 struct fuse_file_info *file, bool plus)
{
    DIR *directory = directory_of(file);
    char *buffer = malloc(size);
    size_t used = 0;
    struct dirent *found;

    if (!buffer) {
        fuse_reply_err(request, ENOMEM);
        return;
    }
    if (offset)
        seekdir(directory, offset);
    else
        rewinddir(directory);
    errno = 0;
    while ((found = readdir(directory))) {
        size_t length =
            add_entry(request, id, plus, found, buffer + used, size - used);
        if (length > size - used)
            break;
        used += length;
        errno = 0;
    }
    if (!found && errno && !used)
        fuse_reply_err(request, errno);
    else
        fuse_reply_buf(request, buffer, used);
    free(buffer);
}

static void op_readdir(fuse_req_t request, fuse_ino_t id, size_t size,
                       off_t offset, struct fuse_file_info *file)
{
    list(request, id, size, offset, file, false);
}

static void op_readdirplus(fuse_req_t request, fuse_ino_t id, size_t size,
                           off_t offset, struct fuse_file_info *file)
{
    list(request, id, size, offset, file, true);
}

static const struct fuse_lowlevel_ops operations = {
    .init = op_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .getattr = op_getattr,
    .open = op_open,
    .read = op_read,
    .release = op_release,
    .opendir = op_opendir,
    .readdir = op_readdir,
    .readdirplus = op_readdirplus,
    .releasedir = op_releasedir,
};

/* Prints the pid of the process that serves; the parent ends here. */
static void go_to_background(void)
{
    pid_t pid = options.foreground ? getpid() : fork();

    if (pid < 0)
        err(1, "fork");
    if (pid > 0) {
        printf("%d\n", (int)pid);
        fflush(stdout);
        if (options.foreground)
            return;
        _exit(0);
    }
    setsid();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
        dup2(null, 2) < 0 || chdir("/"))
        _exit(1);
    close(null);
}

/* Every known node holds a descriptor. */
static void raise_file_limit(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};

    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        err(1, "limit of open files");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit))
        err(1, "limit of open files");
}

static int serve(const char *mountpoint)
{
    char *arguments[] = {
        "passthrough", "-o",
        "ro,allow_other,default_permissions,subtype=passthrough", NULL};
    struct fuse_args args = FUSE_ARGS_INIT(3, arguments);
    struct fuse_session *session =
        fuse_session_new(&args, &operations, sizeof(operations), NULL);

    if (!session)
        return 1;
    if (fuse_session_mount(session, mountpoint)) {
        fuse_session_destroy(session);
        return 1;
    }
    go_to_background();
    int failed = fuse_set_signal_handlers(session);
    if (!failed)
        failed = fuse_session_loop_mt(session, NULL);
    fuse_session_unmount(session);
    fuse_session_destroy(session);
    fuse_opt_free_args(&args);
    return failed != 0;
}

static void parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"rate", required_argument, NULL, 'r'},
        {"stats", required_argument, NULL, 's'},
        {"direct", no_argument, NULL, 'd'},
        {"memory", no_argument, NULL, 'm'},
        {"foreground", no_argument, NULL, 'f'},
        {0}};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'r') {
            options.rate = bench_parse("--rate", optarg);
        } else if (option == 's') {
            options.stats_fd =
                open(optarg, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
            if (options.stats_fd < 0)
                err(1, "%s", optarg);
            write_stats_locked();
        } else if (option == 'd') {
            options.direct = true;
        } else if (option == 'm') {
            options.memory = true;
        } else if (option == 'f') {
            options.foreground = true;
        } else {
            optind = argc;
        }
    }
    if (optind != argc - 2) {
        fputs("usage: passthrough [--rate BYTES] [--direct|--memory] "
              "[--stats FILE] "
              "[--foreground] SOURCE MOUNTPOINT\n",
              stderr);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    char mountpoint[PATH_MAX];

    parse(argc, argv);
    root.fd = open(argv[optind], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root.fd < 0)
        err(1, "%s", argv[optind]);
    if (!realpath(argv[optind + 1], mountpoint))
        err(1, "%s", argv[optind + 1]);
    raise_file_limit();
    return serve(mountpoint);
}
