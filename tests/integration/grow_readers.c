/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file in a mount while its source grows and is cut again: every byte
 * that a reader gets is the file's byte at that offset, and none is zero.
 *
 *   grow_readers SOURCE_FILE MOUNTED_FILE SECONDS
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    READERS = 3,
    FIRST_BYTES = 5000,
    MOST_BYTES = 200000,
    STEP_BYTES = 1777,
    SEEN_S = 10,
};

static const char *mounted;
static _Atomic bool done;
static _Atomic unsigned long reads;

static char byte_at(size_t offset)
{
    return (char)(1 + offset % 251);
}

static void __attribute__((noreturn)) fail(const char *what, size_t at)
{
    fprintf(stderr, "grow_readers: %s at %zu: %s\n", what, at, strerror(errno));
    exit(1);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* What a read at an offset gave is right. */
static void check(const char *bytes, size_t offset, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != byte_at(offset + i)) {
            fprintf(stderr,
                    "grow_readers: byte %d, not %d, at %zu of a read of %zu "
                    "at %zu\n",
                    bytes[i], byte_at(offset + i), i, length, offset);
            exit(1);
        }
}

static void *read_on(void *data)
{
    static __thread char bytes[MOST_BYTES];
    int fd = open(mounted, O_RDONLY);

    (void)data;
    if (fd < 0)
        fail("open", 0);
    while (!atomic_load(&done)) {
        ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
        if (n < 0 && errno != ESTALE && errno != EIO)
            fail("pread", 0);
        if (n > 0) {
            check(bytes, 0, (size_t)n);
            atomic_fetch_add(&reads, 1);
        }
    }
    close(fd);
    return NULL;
}

/* Until the kernel has been told the size, and the last byte can be read. */
static void wait_seen(int fd, size_t size)
{
    double until = now_s() + SEEN_S;
    struct statx st;
    char last;

    for (;;) {
        if (now_s() > until)
            fail("not seen", size);
        if (statx(AT_FDCWD, mounted, AT_STATX_FORCE_SYNC, STATX_SIZE, &st) != 0)
            fail("statx", size);
        if (st.stx_size == size && pread(fd, &last, 1, (off_t)size - 1) == 1) {
            check(&last, size - 1, 1);
            return;
        }
    }
}

static size_t grow(int source, size_t size)
{
    static char more[STEP_BYTES];

    if (size + STEP_BYTES > MOST_BYTES) {
        if (ftruncate(source, FIRST_BYTES) != 0)
            fail("ftruncate", size);
        return FIRST_BYTES;
    }
    for (size_t i = 0; i < STEP_BYTES; i++)
        more[i] = byte_at(size + i);
    if (pwrite(source, more, STEP_BYTES, (off_t)size) != STEP_BYTES)
        fail("pwrite", size);
    return size + STEP_BYTES;
}

int main(int argc, char **argv)
{
    pthread_t thread[READERS];
    unsigned changes = 0;
    size_t size = FIRST_BYTES;

    if (argc != 4)
        return 2;
    mounted = argv[2];
    int source = open(argv[1], O_WRONLY);
    int fd = open(mounted, O_RDONLY);
    if (source < 0 || fd < 0)
        fail("open", 0);
    for (size_t at = 0; at < FIRST_BYTES; at++) {
        char byte = byte_at(at);
        if (pwrite(source, &byte, 1, (off_t)at) != 1)
            fail("pwrite", at);
    }
    wait_seen(fd, size);
    for (int i = 0; i < READERS; i++)
        if (pthread_create(&thread[i], NULL, read_on, NULL) != 0)
            fail("pthread_create", 0);
    for (double until = now_s() + atof(argv[3]); now_s() < until; changes++) {
        size = grow(source, size);
        wait_seen(fd, size);
    }
    atomic_store(&done, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(thread[i], NULL);
    printf("%u changes, %lu reads\n", changes, (unsigned long)reads);
    return changes > 0 && reads > 0 ? 0 : 1;
}
