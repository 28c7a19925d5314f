/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel is a thread: libfuse's function is defined here, and puts the
 * questions into a list that it answers as the test says. */
#include "fs/retrieve.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cache/item.h"
#include "test_main.h"

enum {
    FILE_ID = 77,
    FILE_BYTES = 6 << 20,
    QUESTIONS = 512,
    READERS = 64,
    READER_BYTES = 1 << 20,
    LARGEST_QUESTION = 1 << 20, /* what the kernel gives at most */
    SCRATCH_BYTES = 2 << 20,
};

struct question {
    void *cookie;
    uint64_t id;
    uint64_t offset;
    size_t length;
};

struct kernel {
    struct retrieve *retrieve;
    char *file;
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* guarded by lock: */
    struct question question[QUESTIONS];
    unsigned asked, answered;
    bool stopping;
    int error;          /* of asking */
    bool is_silent;     /* answers nothing */
    size_t present;     /* bytes of the file that are there */
    unsigned damaged;   /* so many answers have a wrong byte */
    unsigned strangers; /* before so many answers come those to others */
    void *late;         /* and one with this cookie */
    unsigned gather;    /* asking takes until so many have asked */
};

static struct kernel kernel;

int fuse_lowlevel_notify_retrieve(struct fuse_session *se, fuse_ino_t ino,
                                  size_t size, off_t offset, void *cookie)
{
    (void)se;
    SCOPED_LOCK(&kernel.lock);
    assert(size > 0 && size <= LARGEST_QUESTION && offset % SHARED_PAGE == 0);
    assert(kernel.asked < QUESTIONS);
    if (kernel.error != 0)
        return kernel.error;
    kernel.question[kernel.asked++] =
        (struct question){cookie, ino, (uint64_t)offset, size};
    pthread_cond_broadcast(&kernel.changed);
    while (kernel.asked < kernel.gather)
        pthread_cond_wait(&kernel.changed, &kernel.lock);
    return 0;
}

static void give(void *cookie, uint64_t id, uint64_t offset, char *bytes,
                 size_t length)
{
    struct fuse_bufvec from = FUSE_BUFVEC_INIT(length);

    from.buf[0].mem = bytes;
    retrieve_answer(kernel.retrieve, cookie, id, offset, &from);
}

/* Answers to questions that nobody has: those of a dead worker, whose numbers
 * are used again, and one that came too late before. */
static void give_strange(const struct question *question, void *late)
{
    AUTO_FREE char *other = calloc(1, question->length);

    assert(other);
    give(question->cookie, question->id + 1, question->offset, other,
         question->length);
    give(question->cookie, question->id, question->offset + SHARED_PAGE, other,
         question->length);
    if (late)
        give(late, question->id, question->offset, other, question->length);
}

static void answer(const struct question *question, bool is_damaged,
                   size_t present)
{
    size_t left =
        present > question->offset ? present - (size_t)question->offset : 0;
    size_t length = question->length < left ? question->length : left;
    AUTO_FREE char *bytes = malloc(length + 1);

    assert(bytes);
    memcpy(bytes, kernel.file + question->offset, length);
    if (is_damaged)
        bytes[length / 2] ^= 1;
    give(question->cookie, question->id, question->offset, bytes, length);
}

static void *kernel_main(void *data)
{
    pthread_mutex_lock(&kernel.lock);
    for (;;) {
        while (!kernel.stopping &&
               (kernel.answered == kernel.asked || kernel.is_silent))
            pthread_cond_wait(&kernel.changed, &kernel.lock);
        if (kernel.stopping)
            break;
        struct question question = kernel.question[kernel.answered++];
        bool is_damaged = kernel.damaged > 0;
        bool is_strange = kernel.strangers > 0;
        size_t present = kernel.present;
        void *late = kernel.late;
        kernel.damaged -= is_damaged;
        kernel.strangers -= is_strange;
        pthread_mutex_unlock(&kernel.lock);
        if (is_strange)
            give_strange(&question, late);
        answer(&question, is_damaged, present);
        pthread_mutex_lock(&kernel.lock);
    }
    pthread_mutex_unlock(&kernel.lock);
    return data;
}

static int setup(void **state)
{
    watch_begin(state);
    kernel = (struct kernel){.present = FILE_BYTES};
    kernel.file = malloc(FILE_BYTES);
    kernel.retrieve = retrieve_create(NULL);
    if (!kernel.file || !kernel.retrieve)
        return -1;
    srand(1);
    for (size_t i = 0; i < FILE_BYTES; i++)
        kernel.file[i] = (char)rand();
    pthread_mutex_init(&kernel.lock, NULL);
    pthread_cond_init(&kernel.changed, NULL);
    return pthread_create(&kernel.thread, NULL, kernel_main, NULL);
}

static int teardown(void **state)
{
    (void)state;
    pthread_mutex_lock(&kernel.lock);
    kernel.stopping = true;
    pthread_cond_broadcast(&kernel.changed);
    pthread_mutex_unlock(&kernel.lock);
    pthread_join(kernel.thread, NULL);
    retrieve_destroy(kernel.retrieve);
    free(kernel.file);
    return watch_end(state);
}

/* Changes how the kernel behaves. */
#define KERNEL_SET(field, value)                                               \
    do {                                                                       \
        SCOPED_LOCK(&kernel.lock);                                             \
        kernel.field = (value);                                                \
    } while (0)

static unsigned questions_asked(void)
{
    SCOPED_LOCK(&kernel.lock);
    return kernel.asked;
}

static int retrieve_file(uint64_t offset, size_t length, char *buffer)
{
    return retrieve_range(kernel.retrieve, FILE_ID, offset, length, buffer);
}

static void test_ranges(void **state)
{
    static const size_t length[] = {1,       4096,         110000,
                                    1 << 19, 1 << 20,      (1 << 20) + 1,
                                    4 << 20, (4 << 20) - 7};
    AUTO_FREE char *buffer = malloc(FILE_BYTES);

    (void)state;
    assert_non_null(buffer);
    for (size_t i = 0; i < sizeof(length) / sizeof(length[0]); i++) {
        memset(buffer, 0, FILE_BYTES);
        assert_int_equal(retrieve_file(1 << 20, length[i], buffer), 0);
        assert_memory_equal(buffer, kernel.file + (1 << 20), length[i]);
        assert_int_equal(buffer[length[i]], 0);
    }
}

static void test_not_there(void **state)
{
    AUTO_FREE char *buffer = malloc(FILE_BYTES);

    (void)state;
    assert_non_null(buffer);
    KERNEL_SET(present, (3 << 20) - 4096);
    assert_int_equal(retrieve_file(0, 2 << 20, buffer), 0);
    assert_int_equal(retrieve_file(2 << 20, 1 << 20, buffer), -EAGAIN);
    assert_int_equal(retrieve_file(0, 4 << 20, buffer), -EAGAIN);
    assert_int_equal(retrieve_file(4 << 20, 4096, buffer), -EAGAIN);
    KERNEL_SET(error, -ENOENT);
    assert_int_equal(retrieve_file(0, 4096, buffer), -EAGAIN);
    KERNEL_SET(error, 0);
    assert_int_equal(retrieve_file(0, 4096, buffer), 0);
}

static void test_answer_to_dead_worker(void **state)
{
    AUTO_FREE char *buffer = malloc(FILE_BYTES);

    (void)state;
    assert_non_null(buffer);
    KERNEL_SET(strangers, QUESTIONS);
    assert_int_equal(retrieve_file(0, 3 << 20, buffer), 0);
    assert_memory_equal(buffer, kernel.file, 3 << 20);
}

/* An answer after the time-out must not be written to the buffer, which its
 * owner may have freed, nor be taken for that to a later question. */
static void test_late_answer(void **state)
{
    char *gone = mmap(NULL, SHARED_PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    AUTO_FREE char *buffer = calloc(1, SHARED_PAGE);
    AUTO_FREE char *other = calloc(1, SHARED_PAGE);

    (void)state;
    assert_ptr_not_equal(gone, MAP_FAILED);
    assert_true(buffer && other);
    KERNEL_SET(is_silent, true);
    assert_int_equal(retrieve_file(0, SHARED_PAGE, gone), -EAGAIN);
    munmap(gone, SHARED_PAGE);
    void *late = kernel.question[0].cookie;
    give(late, FILE_ID, 0, other, SHARED_PAGE);
    KERNEL_SET(answered, 1);

    /* The place is asked from again, and the late answer comes first. */
    KERNEL_SET(late, late);
    KERNEL_SET(strangers, QUESTIONS);
    KERNEL_SET(is_silent, false);
    assert_int_equal(retrieve_file(0, SHARED_PAGE, buffer), 0);
    assert_memory_equal(buffer, kernel.file, SHARED_PAGE);
}

struct reader {
    pthread_t thread;
    char *buffer;
    uint64_t offset;
    int err;
};

static void *reader_main(void *data)
{
    struct reader *reader = data;

    reader->err = retrieve_file(reader->offset, READER_BYTES, reader->buffer);
    return NULL;
}

/* More readers than there are places for all that they ask: who holds a place
 * may not wait for another one. */
static void test_many_readers(void **state)
{
    static struct reader reader[READERS];
    AUTO_FREE char *buffers = malloc((size_t)READERS * READER_BYTES);

    (void)state;
    assert_non_null(buffers);
    /* Then each has asked once, and all places are taken. */
    KERNEL_SET(gather, READERS);
    for (int i = 0; i < READERS; i++) {
        reader[i] =
            (struct reader){.buffer = buffers + (size_t)i * READER_BYTES,
                            .offset = (uint64_t)(i % 5) << 20};
        assert_int_equal(
            pthread_create(&reader[i].thread, NULL, reader_main, &reader[i]),
            0);
    }
    for (int i = 0; i < READERS; i++)
        pthread_join(reader[i].thread, NULL);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(reader[i].err, 0);
        assert_memory_equal(reader[i].buffer, kernel.file + reader[i].offset,
                            READER_BYTES);
    }
}

/* An item of the file from 1 MiB on, the last of whose chunks is short. */
static struct item make_item(struct item_sums *sums)
{
    struct item item = {
        .id = FILE_ID, .extent = 1, .length = 9 * ITEM_CHUNK_BYTES + 5000};

    item.checksum = item_sum(kernel.file + (1 << 20), item.length, sums);
    return item;
}

static int retrieve_part(const struct item *item, const struct item_sums *sums,
                         uint64_t offset, size_t length, char *buffer,
                         size_t *start)
{
    return retrieve_item(kernel.retrieve, item, sums, 1 << 20, offset, length,
                         buffer, start);
}

static void test_items(void **state)
{
    static const struct {
        uint64_t offset;
        size_t length;
    } range[] = {
        {0, 9 * ITEM_CHUNK_BYTES + 5000},
        {0, ITEM_CHUNK_BYTES},
        {1, 1},
        {ITEM_CHUNK_BYTES - 1, 2},
        {ITEM_CHUNK_BYTES + 4096, 3 * ITEM_CHUNK_BYTES},
        {9 * ITEM_CHUNK_BYTES, 5000},
        {9 * ITEM_CHUNK_BYTES + 4999, 1},
    };
    AUTO_FREE char *buffer = malloc(SCRATCH_BYTES);
    struct item_sums sums;
    struct item item = make_item(&sums);

    (void)state;
    assert_non_null(buffer);
    for (size_t i = 0; i < sizeof(range) / sizeof(range[0]); i++) {
        size_t start = SIZE_MAX;
        assert_int_equal(retrieve_part(&item, &sums, range[i].offset,
                                       range[i].length, buffer, &start),
                         0);
        assert_true(start < ITEM_CHUNK_BYTES);
        assert_memory_equal(buffer + start,
                            kernel.file + (1 << 20) + range[i].offset,
                            range[i].length);
    }
}

/* Pages that are still being read have other bytes, for a moment. */
static void test_damage(void **state)
{
    AUTO_FREE char *buffer = malloc(SCRATCH_BYTES);
    struct item_sums sums;
    struct item item = make_item(&sums);
    size_t start = 0;

    (void)state;
    assert_non_null(buffer);
    KERNEL_SET(damaged, 3);
    assert_int_equal(retrieve_part(&item, &sums, 5000, 100000, buffer, &start),
                     0);
    assert_memory_equal(buffer + start, kernel.file + (1 << 20) + 5000, 100000);
    assert_true(questions_asked() >= 4);

    KERNEL_SET(damaged, QUESTIONS);
    start = 4711;
    assert_int_equal(retrieve_part(&item, &sums, 5000, 100000, buffer, &start),
                     -EBADMSG);
    assert_int_equal(start, 4711);
    KERNEL_SET(present, 1 << 20);
    assert_int_equal(retrieve_part(&item, &sums, 5000, 100000, buffer, &start),
                     -EAGAIN);
}

#define test(function)                                                         \
    cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(test_ranges),       test(test_not_there),
        test(test_late_answer),  test(test_answer_to_dead_worker),
        test(test_many_readers), test(test_items),
        test(test_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
