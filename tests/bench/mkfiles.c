/* SPDX-License-Identifier: Apache-2.0 */
/* Makes files of random bytes for the benchmarks.
 *
 * Sizes, names and bytes depend on the arguments alone. A file that is there
 * with the right size is left as it is, so a second call only looks, and a call
 * that was cut short is completed. The names go into FOLDER.list, so that a
 * reader of a cold folder does not have to warm it by listing it. */
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

struct result {
    uint64_t files;
    uint64_t bytes;
    uint64_t written;
};

static void make_folder(const char *path)
{
    if (mkdir(path, 0755) && errno != EEXIST)
        err(1, "%s", path);
}

static void write_all(int fd, const char *path, const char *bytes,
                      size_t length)
{
    while (length) {
        ssize_t done = write(fd, bytes, length);
        if (done < 0)
            err(1, "%s", path);
        bytes += done;
        length -= (size_t)done;
    }
}

/* Writes size bytes of the stream of seed to path, unless it has them. */
static void make_file(const char *path, uint64_t size, uint64_t seed,
                      struct result *result)
{
    static uint64_t chunk[CHUNK / sizeof(uint64_t)];
    struct stat st;

    result->files++;
    result->bytes += size;
    if (!stat(path, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size)
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        err(1, "%s", path);
    for (uint64_t left = size; left;) {
        size_t length = left < CHUNK ? (size_t)left : CHUNK;
        for (size_t i = 0; i < (length + 7) / 8; i++)
            chunk[i] = bench_random(&seed);
        write_all(fd, path, (const char *)chunk, length);
        left -= length;
    }
    if (close(fd))
        err(1, "%s", path);
    result->written++;
}

/* FOLDER COUNT MIN MAX PER_CLASS */
static void make_files(char **argv, struct result *result)
{
    const char *folder = argv[0];
    uint64_t count = bench_parse("COUNT", argv[1]);
    uint64_t min = bench_parse("MIN", argv[2]);
    uint64_t max = bench_parse("MAX", argv[3]);
    uint64_t per_class = bench_parse("PER_CLASS", argv[4]);
    char path[PATH_MAX], name[64];

    if (max < min)
        errx(2, "MAX is below MIN");
    snprintf(path, sizeof(path), "%s.list", folder);
    FILE *list = fopen(path, "we");
    if (!list)
        err(1, "%s", path);
    make_folder(folder);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t state = bench_mix(i + 1);
        uint64_t size = min + bench_random(&state) % (max - min + 1);
        name[0] = '\0';
        if (per_class) {
            snprintf(name, sizeof(name), "class_%04" PRIu64 "/", i / per_class);
            snprintf(path, sizeof(path), "%s/%s", folder, name);
            if (i % per_class == 0)
                make_folder(path);
        }
        snprintf(name + strlen(name), 32, "%08" PRIu64 ".bin", i);
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        make_file(path, size, state, result);
        fprintf(list, "%s\n", name);
    }
    if (fclose(list))
        err(1, "%s.list", folder);
}

/* Written back now, so that it does not happen during a measurement. */
static void flush_to_disk(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || syncfs(fd))
        err(1, "%s", path);
    close(fd);
}

int main(int argc, char **argv)
{
    struct result result = {0};

    if (argc == 7 && !strcmp(argv[1], "files")) {
        make_files(argv + 2, &result);
    } else if (argc == 4 && !strcmp(argv[1], "one")) {
        make_file(argv[2], bench_parse("SIZE", argv[3]), 1, &result);
    } else {
        fputs("usage: mkfiles files FOLDER COUNT MIN MAX PER_CLASS\n"
              "         COUNT files of MIN to MAX bytes, PER_CLASS of them in\n"
              "         each class folder (0: all in FOLDER itself)\n"
              "       mkfiles one FILE SIZE\n",
              stderr);
        return 2;
    }
    if (result.written)
        flush_to_disk(argv[2]);
    printf("files=%" PRIu64 " bytes=%" PRIu64 " written=%" PRIu64 "\n",
           result.files, result.bytes, result.written);
    return 0;
}
