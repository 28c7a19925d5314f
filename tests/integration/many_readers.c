/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads read one file at the same moment and compare it with another.
 *
 *     many_readers EXPECTED_FILE FILE THREADS
 *
 * Exits with 0 if every thread saw every byte, else with 1. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Not a divisor of the item size, so that reads cross its borders. */
enum { CHUNK_BYTES = 96 * 1024 };

static const unsigned char *expected;
static size_t expected_bytes;
static const char *path;
static pthread_barrier_t start_line;
static _Atomic int failures;

static void complain(const char *what)
{
    atomic_fetch_add(&failures, 1);
    fprintf(stderr, "many_readers: %s: %s\n", path, what);
}

static void *read_file(void *unused)
{
    unsigned char *chunk = malloc(CHUNK_BYTES);
    size_t done = 0;

    (void)unused;
    pthread_barrier_wait(&start_line);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || !chunk) {
        complain(strerror(errno));
        free(chunk);
        return NULL;
    }
    for (;;) {
        ssize_t n = read(fd, chunk, CHUNK_BYTES);
        if (n < 0)
            complain(strerror(errno));
        if (n <= 0)
            break;
        if (done + (size_t)n > expected_bytes ||
            memcmp(chunk, expected + done, (size_t)n) != 0) {
            complain("wrong bytes");
            break;
        }
        done += (size_t)n;
    }
    if (done != expected_bytes)
        complain("not all bytes");
    close(fd);
    free(chunk);
    return NULL;
}

static void map_expected(const char *name)
{
    struct stat st;
    int fd = open(name, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0) {
        perror(name);
        exit(2);
    }
    expected_bytes = (size_t)st.st_size;
    expected = mmap(NULL, expected_bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE,
                    fd, 0);
    if (expected == MAP_FAILED) {
        perror(name);
        exit(2);
    }
    close(fd);
}

int main(int argc, char **argv)
{
    int threads = argc == 4 ? atoi(argv[3]) : 0;

    if (threads < 1) {
        fprintf(stderr, "usage: many_readers EXPECTED_FILE FILE THREADS\n");
        return 2;
    }
    map_expected(argv[1]);
    path = argv[2];
    pthread_t *ids = calloc((size_t)threads, sizeof(*ids));
    if (!ids)
        return 2;
    pthread_barrier_init(&start_line, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, read_file, NULL) != 0) {
            fprintf(stderr, "many_readers: no thread\n");
            return 2;
        }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    free(ids);
    return failures ? 1 : 0;
}
