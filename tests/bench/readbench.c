/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files and says how fast.
 *
 * files: every file of a list, in random order: open, fstat, read to the end,
 *        close, as a loader does.
 * seq:   one file from start to end, 1 MiB at a time.
 * rand:  4 KiB at random aligned offsets of one file.
 *
 * The list, its order and the offsets depend on the seed alone, and the
 * checksum takes in sizes and some of the bytes, so two runs with the same
 * arguments on two views of the same files must print the same checksum. Only
 * the reading is timed. The result is one line of key=value. */
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <fts.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_THREADS = 256,
    CHUNK = 1 << 20,
    BLOCK = 4096,
};

struct file {
    char *path;
    uint64_t key; /* of its name below the root: tells files apart in the sum */
};

struct list {
    struct file *files;
    size_t count;
    size_t room;
};

struct tally {
    uint64_t reads; /* in mode files: files */
    uint64_t bytes;
    uint64_t checksum;
};

struct bench;
struct mode {
    const char *name;
    const char *unit;
    void (*read)(struct bench *bench, unsigned thread, struct tally *tally);
};

struct bench {
    const struct mode *mode;
    const char *path;
    const char *names;
    uint64_t threads;
    uint64_t seed;
    uint64_t count;  /* rand: reads in all */
    uint64_t passes; /* files, seq: times over everything */
    int flags;       /* of open: O_DIRECT or none */
    struct list list;
    uint32_t *order;
    size_t steps;
    off_t size;
    _Atomic size_t next;
};

struct thread {
    pthread_t id;
    struct bench *bench;
    unsigned number;
    struct tally tally;
};

static uint64_t name_key(const char *name)
{
    uint64_t key = 0;

    for (; *name; name++)
        key = bench_mix(key + (unsigned char)*name);
    return key;
}

static void list_add(struct list *list, const char *root, const char *name)
{
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 1024;
        list->files =
            reallocarray(list->files, list->room, sizeof(*list->files));
        if (!list->files)
            err(1, "list of names");
    }
    struct file *file = &list->files[list->count++];
    if (asprintf(&file->path, "%s/%s", root, name) < 0)
        err(1, "list of names");
    file->key = name_key(name);
}

/* Regular files below directory, as names relative to it. */
static void list_walk(struct list *list, const char *root,
                      const char *directory)
{
    char *start[] = {(char *)directory, NULL};
    FTS *tree = fts_open(start, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    FTSENT *entry;

    if (!tree)
        err(1, "%s", directory);
    while ((errno = 0, entry = fts_read(tree))) {
        if (entry->fts_errno)
            errx(1, "%s: %s", entry->fts_path, strerror(entry->fts_errno));
        if (entry->fts_info != FTS_F)
            continue;
        const char *name = entry->fts_path + strlen(directory);
        while (*name == '/')
            name++;
        list_add(list, root, name);
    }
    if (errno)
        err(1, "%s", directory);
    fts_close(tree);
}

/* One name a line, relative to the root. */
static void list_load(struct list *list, const char *root, const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;

    if (!file)
        err(1, "%s", path);
    while ((length = getline(&line, &room, file)) > 0) {
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        if (line[0])
            list_add(list, root, line);
    }
    free(line);
    fclose(file);
}

static int by_path(const void *a, const void *b)
{
    const struct file *left = a, *right = b;

    return strcmp(left->path, right->path);
}

/* Each pass goes over all files, in an order of its own. */
static void prepare_files(struct bench *bench)
{
    struct list *list = &bench->list;
    const char *names = bench->names ? bench->names : bench->path;
    struct stat st;

    if (stat(names, &st))
        err(1, "%s", names);
    if (S_ISDIR(st.st_mode))
        list_walk(list, bench->path, names);
    else
        list_load(list, bench->path, names);
    if (!list->count || list->count > UINT32_MAX)
        errx(1, "%s: holds no files, or too many", names);
    qsort(list->files, list->count, sizeof(*list->files), by_path);

    bench->steps = list->count * bench->passes;
    bench->order = calloc(bench->steps, sizeof(*bench->order));
    if (!bench->order)
        err(1, "order of %zu reads", bench->steps);
    uint64_t random = bench->seed;
    for (uint64_t pass = 0; pass < bench->passes; pass++) {
        uint32_t *order = bench->order + pass * list->count;
        for (size_t i = 0; i < list->count; i++) {
            size_t other = bench_random(&random) % (i + 1);
            order[i] = order[other];
            order[other] = (uint32_t)i;
        }
    }
}

static void prepare_file(struct bench *bench)
{
    struct stat st;

    if (stat(bench->path, &st))
        err(1, "%s", bench->path);
    if (!S_ISREG(st.st_mode) || st.st_size < BLOCK)
        errx(1, "%s: not a file of at least %d bytes", bench->path, BLOCK);
    bench->size = st.st_size;
    size_t chunks = ((size_t)st.st_size + CHUNK - 1) / CHUNK;
    bench->steps = chunks * bench->passes;
}

static int open_or_exit(const char *path, int flags)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);

    if (fd < 0)
        err(1, "%s", path);
    return fd;
}

static void *buffer_or_exit(void)
{
    void *buffer = aligned_alloc(BLOCK, CHUNK);

    if (!buffer)
        err(1, "buffer");
    memset(buffer, 0, CHUNK);
    return buffer;
}

static uint64_t first_bytes(const void *buffer, size_t length)
{
    uint64_t word = 0;

    memcpy(&word, buffer, length < sizeof(word) ? length : sizeof(word));
    return word;
}

static void read_one_file(const struct file *file, int flags, char *buffer,
                          struct tally *tally)
{
    struct stat st;
    uint64_t bytes = 0, first = 0;
    ssize_t length = 0;
    int fd = open_or_exit(file->path, flags);

    if (fstat(fd, &st))
        err(1, "%s", file->path);
    while (bytes < (uint64_t)st.st_size &&
           (length = read(fd, buffer, CHUNK)) > 0) {
        if (!bytes)
            first = first_bytes(buffer, (size_t)length);
        bytes += (uint64_t)length;
    }
    if (length < 0)
        err(1, "%s", file->path);
    if (bytes != (uint64_t)st.st_size)
        errx(1, "%s: read %" PRIu64 " of %jd bytes", file->path, bytes,
             (intmax_t)st.st_size);
    close(fd);
    tally->reads++;
    tally->bytes += bytes;
    tally->checksum += bench_mix(file->key ^ first) * (bytes + 1);
}

static void read_files(struct bench *bench, unsigned thread,
                       struct tally *tally)
{
    char *buffer = buffer_or_exit();
    size_t step;

    (void)thread;
    while ((step = atomic_fetch_add(&bench->next, 1)) < bench->steps)
        read_one_file(&bench->list.files[bench->order[step]], bench->flags,
                      buffer, tally);
    free(buffer);
}

static void read_at(int fd, const char *path, char *buffer, size_t size,
                    off_t offset, struct tally *tally)
{
    ssize_t length = pread(fd, buffer, size, offset);

    if (length < 0)
        err(1, "%s", path);
    if ((size_t)length != size)
        errx(1, "%s: short read at %jd", path, (intmax_t)offset);
    tally->reads++;
    tally->bytes += size;
    tally->checksum += bench_mix((uint64_t)offset ^ first_bytes(buffer, size));
}

static void read_sequentially(struct bench *bench, unsigned thread,
                              struct tally *tally)
{
    char *buffer = buffer_or_exit();
    int fd = open_or_exit(bench->path, bench->flags);
    size_t step, chunks = bench->steps / bench->passes;

    (void)thread;
    while ((step = atomic_fetch_add(&bench->next, 1)) < bench->steps) {
        off_t offset = (off_t)(step % chunks) * CHUNK;
        off_t rest = bench->size - offset;
        read_at(fd, bench->path, buffer, rest < CHUNK ? (size_t)rest : CHUNK,
                offset, tally);
    }
    close(fd);
    free(buffer);
}

static void read_randomly(struct bench *bench, unsigned thread,
                          struct tally *tally)
{
    char *buffer = buffer_or_exit();
    int fd = open_or_exit(bench->path, bench->flags);
    uint64_t random = bench_mix(bench->seed) + thread;
    uint64_t blocks = (uint64_t)bench->size / BLOCK;
    uint64_t count = bench->count / bench->threads +
                     (thread < bench->count % bench->threads);

    for (uint64_t i = 0; i < count; i++) {
        off_t offset = (off_t)(bench_random(&random) % blocks) * BLOCK;
        read_at(fd, bench->path, buffer, BLOCK, offset, tally);
    }
    close(fd);
    free(buffer);
}

static const struct mode modes[] = {
    {"files", "files", read_files},
    {"seq", "reads", read_sequentially},
    {"rand", "reads", read_randomly},
};

static void *thread_main(void *arg)
{
    struct thread *thread = arg;
    struct tally tally = {0}; /* on the stack: no cache line is shared */

    thread->bench->mode->read(thread->bench, thread->number, &tally);
    thread->tally = tally;
    return NULL;
}

static void run(struct bench *bench)
{
    static struct thread threads[MAX_THREADS];
    struct tally sum = {0};
    double start = bench_seconds(CLOCK_MONOTONIC);
    double start_cpu = bench_seconds(CLOCK_PROCESS_CPUTIME_ID);

    for (unsigned i = 0; i < bench->threads; i++) {
        threads[i].bench = bench;
        threads[i].number = i;
        errno = pthread_create(&threads[i].id, NULL, thread_main, &threads[i]);
        if (errno)
            err(1, "thread");
    }
    for (unsigned i = 0; i < bench->threads; i++) {
        pthread_join(threads[i].id, NULL);
        sum.reads += threads[i].tally.reads;
        sum.bytes += threads[i].tally.bytes;
        sum.checksum += threads[i].tally.checksum;
    }
    double seconds = bench_seconds(CLOCK_MONOTONIC) - start;
    double cpu = bench_seconds(CLOCK_PROCESS_CPUTIME_ID) - start_cpu;

    printf("mode=%s threads=%" PRIu64 " seed=%" PRIu64 " %s=%" PRIu64
           " bytes=%" PRIu64 " seconds=%.6f %s_per_s=%.1f bytes_per_s=%.0f"
           " cpu_s=%.6f checksum=%016" PRIx64 "\n",
           bench->mode->name, bench->threads, bench->seed, bench->mode->unit,
           sum.reads, sum.bytes, seconds, bench->mode->unit,
           (double)sum.reads / seconds, (double)sum.bytes / seconds, cpu,
           sum.checksum);
}

static void usage(void)
{
    fputs("usage: readbench files|seq|rand [options] PATH\n"
          "  files  every file below the directory PATH, in random order\n"
          "  seq    the file PATH, 1 MiB at a time\n"
          "  rand   the file PATH, 4 KiB at random offsets\n"
          "  -t N   threads (1)\n"
          "  -s N   seed (1)\n"
          "  -r N   passes over everything (1); files, seq\n"
          "  -n N   reads (100000); rand\n"
          "  -d     past the page cache (O_DIRECT)\n"
          "  -l X   names to read below PATH: of a directory, or one a line\n"
          "         of a file; files\n",
          stderr);
    exit(2);
}

static const struct mode *mode_named(const char *name)
{
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (!strcmp(modes[i].name, name))
            return &modes[i];
    return NULL;
}

int main(int argc, char **argv)
{
    static struct bench bench = {
        .threads = 1, .seed = 1, .passes = 1, .count = 100000};
    int option;

    bench.mode = argc > 1 ? mode_named(argv[1]) : NULL;
    if (!bench.mode)
        usage();
    optind = 2;
    while ((option = getopt(argc, argv, "t:s:r:n:l:d")) != -1) {
        if (option == 't')
            bench.threads = bench_parse("-t", optarg);
        else if (option == 's')
            bench.seed = bench_parse("-s", optarg);
        else if (option == 'r')
            bench.passes = bench_parse("-r", optarg);
        else if (option == 'n')
            bench.count = bench_parse("-n", optarg);
        else if (option == 'd')
            bench.flags = O_DIRECT;
        else if (option == 'l')
            bench.names = optarg;
        else
            usage();
    }
    if (optind != argc - 1 || !bench.threads || bench.threads > MAX_THREADS ||
        !bench.passes || !bench.count)
        usage();
    bench.path = argv[optind];
    if (bench.mode->read == read_files)
        prepare_files(&bench);
    else
        prepare_file(&bench);
    run(&bench);
    return 0;
}
