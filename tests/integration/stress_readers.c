/* SPDX-License-Identifier: Apache-2.0 */
/* Four comparing readers of a mount, for as long as one likes.
 *
 *     stress_readers SOURCE MOUNT SEED SECONDS      (0 s: until SIGTERM)
 *
 * One thread reads, one maps, one reads with O_DIRECT, one lists and stats;
 * each picks at random and compares with the source. Every call on the mount is
 * timed. It says "ready" when the readers start, and at the end prints
 *
 *     reader NAME calls N failed N wrong N longest_ms X
 *     calls_within_ms LIMIT N
 *     stall NAME BEGIN SECONDS      (calls over 0.1 s; BEGIN since the epoch)
 *     total calls N failed N wrong N
 *
 * and exits with 1 if a call failed or a byte or name was wrong. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { READ, MAP, DIRECT, LIST, KINDS };
enum {
    WINDOW_BYTES = 1 << 20, /* at most this much of a file at a time */
    PAGE_BYTES = 4096,      /* alignment for O_DIRECT */
    MAX_STALLS = 4096,      /* further ones only count */
    MAX_COMPLAINTS = 20,    /* lines on stderr */
    STATS_PER_LISTING = 8,
};

static const char *const kind_names[KINDS] = {"read", "map", "direct", "list"};
static const int bucket_ms[] = {1, 3, 10, 30, 100, 300, 1000, 3000, 10000};
enum { BUCKETS = sizeof(bucket_ms) / sizeof(bucket_ms[0]) + 1 };

struct stall {
    double begin_s, seconds;
};

struct reader {
    int kind;
    pthread_t thread;
    uint64_t random;
    unsigned char *expected, *seen; /* WINDOW_BYTES each, page-aligned */
    unsigned long calls, failed, wrong, histogram[BUCKETS];
    double longest_s;
    unsigned stalls;
    struct stall stall[MAX_STALLS];
};

struct list {
    char **names;
    size_t count, room;
};

/* What part of which file is compared. */
struct window {
    const char *path;
    off_t offset, file_bytes;
    size_t bytes;
};

static struct list files, folders;
static size_t source_length;
static int source_fd, mount_fd;
static _Atomic int stop;
static _Atomic int complaints;
static __thread sigjmp_buf bus_error;

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t pick(struct reader *r, uint64_t below)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return r->random % below;
}

static void add(struct list *list, const char *name)
{
    if (list->count == list->room) {
        list->room = list->room ? list->room * 2 : 1024;
        list->names = realloc(list->names, list->room * sizeof(char *));
        if (!list->names)
            die("realloc");
    }
    list->names[list->count] = strdup(name);
    if (!list->names[list->count++])
        die("strdup");
}

static void clear(struct list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    list->count = 0;
}

/* Notes the outcome of one call on the mount that began at begin_s. */
static void note_call(struct reader *r, double begin_s)
{
    double seconds = now_s() - begin_s;
    int bucket = 0;

    while (bucket < BUCKETS - 1 && seconds * 1000 > bucket_ms[bucket])
        bucket++;
    r->calls++;
    r->histogram[bucket]++;
    if (seconds > r->longest_s)
        r->longest_s = seconds;
    if (seconds > 0.1) {
        if (r->stalls < MAX_STALLS)
            r->stall[r->stalls] = (struct stall){begin_s, seconds};
        r->stalls++;
    }
}

static void complain(struct reader *r, const char *path, const char *what)
{
    if (atomic_fetch_add(&complaints, 1) < MAX_COMPLAINTS)
        fprintf(stderr, "stress_readers: %.6f %s: %s: %s\n", now_s(),
                kind_names[r->kind], path, what);
}

static void failed(struct reader *r, const char *path, const char *call)
{
    char what[128];

    snprintf(what, sizeof(what), "%s: %s", call, strerrordesc_np(errno));
    r->failed++;
    complain(r, path, what);
}

static void wrong(struct reader *r, const char *path, const char *what)
{
    r->wrong++;
    complain(r, path, what);
}

/* ---- readers of files ---- */

/* Picks a window and reads the source's bytes of it into r->expected. */
static struct window choose_window(struct reader *r)
{
    struct window w = {.path = files.names[pick(r, files.count)]};
    struct stat st;
    int fd = openat(source_fd, w.path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0)
        die(w.path);
    w.file_bytes = st.st_size;
    w.bytes = (size_t)st.st_size;
    if (w.bytes > WINDOW_BYTES) {
        uint64_t pages = (uint64_t)st.st_size / PAGE_BYTES;
        w.offset = (off_t)(pick(r, pages) * PAGE_BYTES);
        w.bytes = (size_t)(st.st_size - w.offset);
        if (w.bytes > WINDOW_BYTES)
            w.bytes = WINDOW_BYTES;
    }
    for (size_t done = 0; done < w.bytes;) {
        ssize_t n = pread(fd, r->expected + done, w.bytes - done,
                          w.offset + (off_t)done);
        if (n <= 0)
            die(w.path);
        done += (size_t)n;
    }
    close(fd);
    return w;
}

/* Opens the file in the mount and compares its size. -1 if that failed. */
static int open_window(struct reader *r, const struct window *w, int flags)
{
    struct stat st;
    double begin = now_s();
    int fd = openat(mount_fd, w->path, O_RDONLY | O_CLOEXEC | flags);

    note_call(r, begin);
    if (fd < 0) {
        failed(r, w->path, "open");
        return -1;
    }
    begin = now_s();
    int err = fstat(fd, &st);
    note_call(r, begin);
    if (err != 0)
        failed(r, w->path, "fstat");
    else if (st.st_size != w->file_bytes)
        wrong(r, w->path, "wrong size");
    else
        return fd;
    close(fd);
    return -1;
}

static void read_window(struct reader *r, const struct window *w, int fd)
{
    size_t done = 0, ask = WINDOW_BYTES;

    if (r->kind == READ && pick(r, 2))
        ask = 1 + pick(r, 200000); /* odd sizes and offsets */
    while (done < w->bytes) {
        size_t n_max = ask < w->bytes - done ? ask : w->bytes - done;
        if (r->kind == DIRECT)
            n_max = WINDOW_BYTES - done; /* aligned: beyond the end */
        double begin = now_s();
        ssize_t n = pread(fd, r->seen + done, n_max, w->offset + (off_t)done);
        note_call(r, begin);
        if (n < 0) {
            failed(r, w->path, "read");
            return;
        }
        if (n == 0)
            break;
        done += (size_t)n;
    }
    if (done < w->bytes)
        wrong(r, w->path, "ends too early");
    else if (memcmp(r->seen, r->expected, w->bytes) != 0)
        wrong(r, w->path, "wrong bytes");
}

static void on_bus_error(int signal)
{
    (void)signal;
    siglongjmp(bus_error, 1);
}

static void map_window(struct reader *r, const struct window *w, int fd)
{
    if (w->bytes == 0)
        return;
    volatile double begin = now_s();
    void *map = mmap(NULL, w->bytes, PROT_READ,
                     r->calls % 2 ? MAP_SHARED : MAP_PRIVATE, fd, w->offset);
    if (map == MAP_FAILED) {
        failed(r, w->path, "mmap");
        return;
    }
    if (sigsetjmp(bus_error, 1) == 0) {
        bool same = memcmp(map, r->expected, w->bytes) == 0;
        note_call(r, begin);
        if (!same)
            wrong(r, w->path, "wrong bytes");
    } else {
        note_call(r, begin);
        errno = EFAULT;
        failed(r, w->path, "page fault");
    }
    munmap(map, w->bytes);
}

static void compare_file(struct reader *r)
{
    struct window w = choose_window(r);
    int fd = open_window(r, &w, r->kind == DIRECT ? O_DIRECT : 0);

    if (fd < 0)
        return;
    if (r->kind != DIRECT && pick(r, 2)) /* so that the daemon is asked */
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (r->kind == MAP)
        map_window(r, &w, fd);
    else
        read_window(r, &w, fd);
    close(fd);
}

/* ---- reader of listings ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* False, with errno, if the folder cannot be listed to its end. */
static bool list_folder(int top, const char *path, struct list *list)
{
    int fd = openat(top, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    clear(list);
    if (!folder)
        return false;
    while (errno = 0, (entry = readdir(folder)) != NULL)
        add(list, entry->d_name);
    int err = errno;
    closedir(folder);
    errno = err;
    if (err == 0 && list->count > 0)
        qsort(list->names, list->count, sizeof(char *), by_name);
    return err == 0;
}

static void compare_stat(struct reader *r, const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat want, got;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (fstatat(source_fd, path, &want, AT_SYMLINK_NOFOLLOW) != 0)
        die(path);
    double begin = now_s();
    int err = fstatat(mount_fd, path, &got, AT_SYMLINK_NOFOLLOW);
    note_call(r, begin);
    if (err != 0)
        failed(r, path, "stat");
    else if (want.st_mode != got.st_mode || want.st_size != got.st_size ||
             want.st_mtim.tv_sec != got.st_mtim.tv_sec ||
             want.st_mtim.tv_nsec != got.st_mtim.tv_nsec)
        wrong(r, path, "wrong attributes");
}

static void compare_listing(struct reader *r, struct list *want,
                            struct list *got)
{
    const char *path = folders.names[pick(r, folders.count)];

    if (!list_folder(source_fd, path, want))
        die(path);
    double begin = now_s();
    bool listed = list_folder(mount_fd, path, got);
    note_call(r, begin);
    if (!listed) {
        failed(r, path, "list");
        return;
    }
    bool same = want->count == got->count;
    for (size_t i = 0; same && i < want->count; i++)
        same = strcmp(want->names[i], got->names[i]) == 0;
    if (!same)
        wrong(r, path, "wrong names");
    for (int i = 0; i < STATS_PER_LISTING; i++) {
        const char *name = want->names[pick(r, want->count)];
        if (strcmp(name, "..") != 0)
            compare_stat(r, path, name);
    }
}

/* ---- the whole ---- */

static void *run_reader(void *argument)
{
    struct reader *r = argument;
    struct list want = {0}, got = {0};

    while (!stop)
        if (r->kind == LIST)
            compare_listing(r, &want, &got);
        else
            compare_file(r);
    clear(&want);
    clear(&got);
    free(want.names);
    free(got.names);
    return NULL;
}

static int on_entry(const char *path, const struct stat *st, int type,
                    struct FTW *position)
{
    const char *relative = path + source_length;

    (void)position;
    while (*relative == '/')
        relative++;
    if (type == FTW_D)
        add(&folders, *relative ? relative : ".");
    else if (type == FTW_F && S_ISREG(st->st_mode))
        add(&files, relative);
    return 0;
}

static void on_stop(int signal)
{
    (void)signal;
    stop = 1;
}

static bool report(const struct reader *readers)
{
    unsigned long calls = 0, failures = 0, wrongs = 0;

    for (const struct reader *r = readers; r < readers + KINDS; r++) {
        printf("reader %s calls %lu failed %lu wrong %lu longest_ms %.1f\n",
               kind_names[r->kind], r->calls, r->failed, r->wrong,
               r->longest_s * 1000);
        calls += r->calls;
        failures += r->failed;
        wrongs += r->wrong;
    }
    for (int i = 0; i < BUCKETS; i++) {
        unsigned long sum = 0;
        for (int k = 0; k < KINDS; k++)
            sum += readers[k].histogram[i];
        if (i < BUCKETS - 1)
            printf("calls_within_ms %d %lu\n", bucket_ms[i], sum);
        else
            printf("calls_within_ms inf %lu\n", sum);
    }
    for (const struct reader *r = readers; r < readers + KINDS; r++)
        for (unsigned i = 0; i < r->stalls && i < MAX_STALLS; i++)
            printf("stall %s %.6f %.6f\n", kind_names[r->kind],
                   r->stall[i].begin_s, r->stall[i].seconds);
    printf("total calls %lu failed %lu wrong %lu\n", calls, failures, wrongs);
    return failures == 0 && wrongs == 0;
}

static void start_readers(struct reader *readers, uint64_t seed)
{
    for (int i = 0; i < KINDS; i++) {
        struct reader *r = &readers[i];
        r->kind = i;
        r->random = (seed + 1) * 0x9e3779b97f4a7c15 + (uint64_t)i * 0x1234567;
        if (posix_memalign((void **)&r->expected, PAGE_BYTES, WINDOW_BYTES) ||
            posix_memalign((void **)&r->seen, PAGE_BYTES, WINDOW_BYTES))
            die("posix_memalign");
        if (pthread_create(&r->thread, NULL, run_reader, r) != 0)
            die("pthread_create");
    }
    puts("ready");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct sigaction on_bus = {.sa_handler = on_bus_error};
    struct sigaction on_end = {.sa_handler = on_stop};

    if (argc != 5) {
        fprintf(stderr, "usage: stress_readers SOURCE MOUNT SEED SECONDS\n");
        return 2;
    }
    source_length = strlen(argv[1]);
    source_fd = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    mount_fd = open(argv[2], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (source_fd < 0 || mount_fd < 0)
        die("open");
    if (nftw(argv[1], on_entry, 64, FTW_PHYS) != 0 || files.count == 0)
        die(argv[1]);
    sigaction(SIGBUS, &on_bus, NULL);
    sigaction(SIGTERM, &on_end, NULL);
    sigaction(SIGINT, &on_end, NULL);
    sigaction(SIGALRM, &on_end, NULL);
    static struct reader readers[KINDS];
    start_readers(readers, strtoull(argv[3], NULL, 10));
    alarm((unsigned)strtoul(argv[4], NULL, 10));
    while (!stop)
        usleep(20000);
    for (int i = 0; i < KINDS; i++)
        pthread_join(readers[i].thread, NULL);
    return report(readers) ? 0 : 1;
}
