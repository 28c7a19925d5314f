/* SPDX-License-Identifier: Apache-2.0 */
/* Makes many small files quickly, or checks them.
 *
 *     make_many [-v] FOLDER COUNT MIN_BYTES MAX_BYTES [FILES_PER_FOLDER]
 *
 * File number i is FOLDER/dNNNNN/fNNNNNNN. Its size and bytes follow from i
 * alone, so that -v can check a copy of the tree, or one seen through a mount,
 * without the original. Two threads share the folders. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 2 };

static const char *top;
static long count, min_bytes, max_bytes, per_folder = 1000;
static bool verify;
static _Atomic long next_folder, failures;

static void complain(const char *name, const char *what)
{
    if (atomic_fetch_add(&failures, 1) < 20)
        fprintf(stderr, "make_many: %s: %s\n", name, what);
}

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static size_t content(long number, unsigned char *bytes)
{
    uint64_t seed = mix((uint64_t)number);
    size_t span = (size_t)(max_bytes - min_bytes) + 1;
    size_t size = (size_t)min_bytes + seed % span;

    for (size_t i = 0; i < size; i += sizeof(seed)) {
        seed = mix(seed);
        memcpy(bytes + i, &seed, sizeof(seed)); /* the buffer has room */
    }
    return size;
}

static void make_file(const char *name, const unsigned char *bytes, size_t size)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        complain(name, strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void check_file(const char *name, const unsigned char *bytes,
                       size_t size, unsigned char *seen)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, seen, (size_t)max_bytes + 1);

    if (n < 0)
        complain(name, strerror(errno));
    else if ((size_t)n != size || memcmp(bytes, seen, size) != 0)
        complain(name, "wrong bytes");
    if (fd >= 0)
        close(fd);
}

static void *work(void *unused)
{
    unsigned char *bytes = malloc((size_t)max_bytes + sizeof(uint64_t));
    unsigned char *seen = malloc((size_t)max_bytes + 1);
    char name[4096];

    (void)unused;
    while (bytes && seen) {
        long folder = atomic_fetch_add(&next_folder, 1);
        long first = folder * per_folder;
        if (first >= count)
            break;
        snprintf(name, sizeof(name), "%s/d%05ld", top, folder);
        if (!verify && mkdir(name, 0755) != 0 && errno != EEXIST)
            complain(name, strerror(errno));
        for (long i = first; i < first + per_folder && i < count; i++) {
            size_t size = content(i, bytes);
            snprintf(name, sizeof(name), "%s/d%05ld/f%07ld", top, folder, i);
            if (verify)
                check_file(name, bytes, size, seen);
            else
                make_file(name, bytes, size);
        }
    }
    free(bytes);
    free(seen);
    return NULL;
}

static int usage(void)
{
    fprintf(stderr, "usage: make_many [-v] FOLDER COUNT MIN_BYTES MAX_BYTES "
                    "[FILES_PER_FOLDER]\n");
    return 2;
}

int main(int argc, char **argv)
{
    pthread_t ids[THREADS];

    if (argc > 1 && strcmp(argv[1], "-v") == 0) {
        verify = true;
        argc--;
        argv++;
    }
    if (argc < 5 || argc > 6)
        return usage();
    top = argv[1];
    count = strtol(argv[2], NULL, 10);
    min_bytes = strtol(argv[3], NULL, 10);
    max_bytes = strtol(argv[4], NULL, 10);
    if (argc == 6)
        per_folder = strtol(argv[5], NULL, 10);
    if (count < 1 || min_bytes < 0 || max_bytes < min_bytes || per_folder < 1)
        return usage();
    if (!verify && mkdir(top, 0755) != 0 && errno != EEXIST)
        complain(top, strerror(errno));
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&ids[i], NULL, work, NULL) != 0)
            return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    if (failures)
        fprintf(stderr, "make_many: %ld failures\n", failures);
    return failures ? 1 : 0;
}
