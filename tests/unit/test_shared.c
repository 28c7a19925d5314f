/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/shared.h"

static struct config config = {.item_bytes = 4 << 20};
static struct shared *area;
static int area_fd;

static int begin(void **state)
{
    watch_begin(state);
    return shared_create(&config, 3, &area_fd, &area);
}

static int end(void **state)
{
    shared_detach(area);
    close(area_fd);
    return watch_end(state);
}

static void parts_lie_side_by_side(void **state)
{
    char *slot = shared_slot(area, 0);
    char *calls = (char *)shared_calls(area);
    char *buffers = (char *)shared_buffers(area);
    char *retries = (char *)shared_retries(area);
    char *pool = shared_pool(area);

    (void)state;
    assert_true((char *)area + sizeof(*area) <= slot);
    assert_ptr_equal(shared_slot(area, 2), slot + 2 * SHARED_SLOT_BYTES);
    assert_true(slot + 3 * SHARED_SLOT_BYTES <= calls);
    assert_true(calls + (size_t)SHARED_CALLS * SHARED_CALL_BYTES <= buffers);
    assert_true(buffers + SHARED_BUFFERS * sizeof(struct shared_buffer) <=
                retries);
    assert_true(retries + SHARED_RETRIES * sizeof(struct shared_retry) <= pool);
    assert_ptr_equal(pool + area->pool_bytes, (char *)area + area->area_bytes);
    assert_int_equal((uintptr_t)slot % SHARED_PAGE, 0);
    assert_int_equal((uintptr_t)pool % SHARED_PAGE, 0);
    assert_int_equal(area->pool_bytes % SHARED_PAGE, 0);
}

static void begins_with_nothing_in_it(void **state)
{
    (void)state;
    for (int i = 0; i < SHARED_CALLS; i++)
        assert_int_equal(shared_calls(area)[i].state, CALL_FREE);
    for (int i = 0; i < SHARED_BUFFERS; i++)
        assert_int_equal(shared_buffers(area)[i].state, BUFFER_FREE);
    for (int i = 0; i < SHARED_RETRIES; i++)
        assert_int_equal(shared_retries(area)[i].id, 0);
    assert_int_equal(area->dram.used_bytes, 0);
    assert_int_equal(area->config.item_bytes, config.item_bytes);
    assert_int_equal(area->intent.valid, 0);
}

static void is_one_area_for_all_who_attach(void **state)
{
    struct shared *other;

    (void)state;
    assert_int_equal(shared_attach(area_fd, &other), 0);
    assert_ptr_not_equal(other, area);
    assert_int_equal(other->pool_bytes, area->pool_bytes);
    shared_pool(area)[area->pool_bytes - 1] = 'x';
    assert_int_equal(shared_pool(other)[other->pool_bytes - 1], 'x');
    shared_calls(other)[SHARED_CALLS - 1].length = 77;
    assert_int_equal(shared_calls(area)[SHARED_CALLS - 1].length, 77);
    shared_detach(other);
}

static void has_room_for_a_few_of_the_largest_items(void **state)
{
    struct config large = {.item_bytes = 40 << 20};
    struct shared *shared;
    int fd;

    (void)state;
    assert_int_equal(shared_create(&large, 1, &fd, &shared), 0);
    assert_true(shared->pool_bytes >=
                4 * shared_run_bytes(TASK_PIN, large.item_bytes, 4096));
    shared_detach(shared);
    close(fd);
}

static void refuses_another_layout(void **state)
{
    struct shared *other = NULL;
    size_t bytes = area->area_bytes, pool = area->pool_bytes;

    (void)state;
    area->layout = SHARED_LAYOUT + 1;
    assert_int_equal(shared_attach(area_fd, &other), -EPROTO);
    area->layout = SHARED_LAYOUT;
    area->slots = 0;
    assert_int_equal(shared_attach(area_fd, &other), -EPROTO);
    area->slots = SHARED_SLOTS + 1;
    assert_int_equal(shared_attach(area_fd, &other), -EPROTO);
    area->slots = UINT32_MAX;
    assert_int_equal(shared_attach(area_fd, &other), -EPROTO);
    area->slots = 2;
    assert_int_equal(shared_attach(area_fd, &other), -EPROTO);
    area->slots = 3;
    area->pool_bytes = pool + SHARED_PAGE;
    assert_int_equal(shared_attach(area_fd, &other), -EPROTO);
    area->pool_bytes = SIZE_MAX;
    assert_int_equal(shared_attach(area_fd, &other), -EPROTO);
    area->pool_bytes = pool;
    area->area_bytes = bytes - SHARED_PAGE;
    assert_int_equal(shared_attach(area_fd, &other), -EPROTO);
    area->area_bytes = bytes;
    assert_null(other);
    assert_int_equal(shared_attach(area_fd, &other), 0);
    shared_detach(other);
}

static void refuses_what_is_no_area(void **state)
{
    struct shared *other = NULL;
    int fd = memfd_create("test", MFD_CLOEXEC);
    int pipe_fds[2];

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(shared_attach(fd, &other), -EPROTO);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(shared_attach(fd, &other), -EPROTO);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    assert_int_equal(shared_attach(fd, &other), -EPROTO);
    close(fd);
    assert_int_equal(shared_attach(fd, &other), -EBADF);
    assert_int_equal(pipe(pipe_fds), 0);
    assert_true(shared_attach(pipe_fds[0], &other) < 0);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    assert_null(other);
}

static void grown_and_cut_areas_are_refused(void **state)
{
    struct shared *other = NULL;
    off_t bytes = (off_t)area->area_bytes;

    (void)state;
    assert_int_equal(ftruncate(area_fd, bytes + SHARED_PAGE), 0);
    assert_int_equal(shared_attach(area_fd, &other), -EPROTO);
    assert_int_equal(ftruncate(area_fd, bytes - SHARED_PAGE), 0);
    assert_int_equal(shared_attach(area_fd, &other), -EPROTO);
    assert_int_equal(ftruncate(area_fd, bytes), 0);
    assert_null(other);
}

static void a_run_holds_whole_pages_checksums_and_the_path(void **state)
{
    (void)state;
    assert_int_equal(shared_run_bytes(TASK_PIN, 1, 0), 8192);
    assert_int_equal(shared_run_bytes(TASK_PIN, 4096, 4087), 8192);
    assert_int_equal(shared_run_bytes(TASK_STORE, 4096, 4088), 12288);
    assert_int_equal(shared_run_bytes(TASK_PIN, 4097, 1), 12288);
    assert_int_equal(shared_run_bytes(TASK_PIN, 0, 1), 4096);
    assert_int_equal(shared_run_bytes(TASK_REPIN, 4 << 20, 1), 4096);
    assert_int_equal(shared_run_bytes(TASK_RELEASE, 0, 5000), 8192);
    assert_int_equal(shared_run_bytes(TASK_PIN, UINT32_MAX, 0),
                     (1ULL << 32) + 32768 * sizeof(uint64_t) + 4096);
}

/* An offset before the end of the pool, wherever that is. */
#define POOL_END (1ULL << 62)
#define LAST(bytes) (POOL_END - (bytes))

static const struct run_case {
    const char *name;
    uint32_t task;
    uint32_t length;
    uint64_t pool_offset; /* or LAST */
    uint32_t run_bytes;
    uint32_t path_length;
    bool inside;
    uint32_t path_at; /* from the run's begin */
} run_cases[] = {
    {"a page and its path", TASK_PIN, 4096, 0, 8192, 10, true, 4104},
    {"a page and a byte", TASK_PIN, 4097, 4096, 12288, 10, true, 8200},
    {"an empty item", TASK_PIN, 0, 0, 4096, 10, true, 0},
    {"the longest path", TASK_PIN, 4096, 0, 8192, 4087, true, 4104},
    {"a path too long by one", TASK_PIN, 4096, 0, 8192, 4088, false, 0},
    {"the end of the pool", TASK_PIN, 1, LAST(8192), 8192, 1, true, 4104},
    {"past it by a page", TASK_PIN, 1, LAST(4096), 8192, 1, false, 0},
    {"past it by a byte", TASK_PIN, 1, LAST(8191), 8192, 1, false, 0},
    {"no length counts", TASK_RELEASE, UINT32_MAX, 0, 4096, 10, true, 0},
    {"nor here", TASK_REPIN, UINT32_MAX, 0, 4096, 4095, true, 0},
    {"a path too long alone", TASK_REPIN, 0, 0, 4096, 4096, false, 0},
    {"the longest of all paths", TASK_PIN, 1, 0, 8192, UINT32_MAX, false, 0},
    {"and without an item", TASK_RELEASE, 1, 0, 4096, UINT32_MAX, false, 0},
    {"the longest item", TASK_PIN, UINT32_MAX, 0, 8192, 1, false, 0},
    {"in the longest run", TASK_PIN, UINT32_MAX, 0, UINT32_MAX, 1, false, 0},
    {"no run", TASK_PIN, 0, 0, 0, 0, false, 0},
    {"the pool's end itself", TASK_RELEASE, 0, LAST(0), 4096, 1, false, 0},
    {"a wrap to the begin", TASK_PIN, 1, 1ULL << 63, 8192, 1, false, 0},
    {"unknown task", 77, 4096, 0, 4096, 10, true, 0},
};

static void trusts_no_run_that_leaves_the_pool(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(run_cases) / sizeof(run_cases[0]); i++) {
        const struct run_case *c = &run_cases[i];
        struct shared_buffer buffer = {
            .task = c->task,
            .length = c->length,
            .pool_offset =
                c->pool_offset > LAST(16384) && c->pool_offset <= POOL_END
                    ? area->pool_bytes - (POOL_END - c->pool_offset)
                    : c->pool_offset,
            .run_bytes = c->run_bytes,
            .path_length = c->path_length,
        };
        const char *bytes = shared_buffer_bytes(area, &buffer);
        const char *path = shared_buffer_path(area, &buffer);
        bool right = !bytes && !path;

        if (c->inside)
            right = bytes == shared_pool(area) + buffer.pool_offset &&
                    path == bytes + c->path_at;
        if (!right)
            fail_msg("%s", c->name);
    }
}

static void no_offset_is_too_far(void **state)
{
    struct shared_buffer buffer = {.task = TASK_RELEASE, .run_bytes = 4096};

    (void)state;
    for (int i = 0; i < 4096; i++) {
        buffer.pool_offset = UINT64_MAX - (uint64_t)i;
        assert_null(shared_buffer_bytes(area, &buffer));
    }
}

#define area_test(function)                                                    \
    cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        area_test(parts_lie_side_by_side),
        area_test(begins_with_nothing_in_it),
        area_test(is_one_area_for_all_who_attach),
        area_test(has_room_for_a_few_of_the_largest_items),
        area_test(refuses_another_layout),
        area_test(refuses_what_is_no_area),
        area_test(grown_and_cut_areas_are_refused),
        area_test(a_run_holds_whole_pages_checksums_and_the_path),
        area_test(trusts_no_run_that_leaves_the_pool),
        area_test(no_offset_is_too_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
