/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test_main.h"

#include <stdatomic.h>

#include "fs/ahead.h"
#include "tests/fakes/fake_mount.h"
#include "util/clock.h"

enum { READERS = 8, ROUNDS = 3000, FILES = 40, BLOCK = 1 << 20, READ = 4096 };

static struct fake_mount mount;
static struct ahead *ahead; /* its threads live on, as in a worker */

/* Reads four blocks of one file after another; none of them can be read. */
static void *read_on(void *data)
{
    unsigned seed = (unsigned)(uintptr_t)data;
    char *bytes;

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t id = 1 + (uint64_t)rand_r(&seed) % FILES;
        for (uint64_t at = 0; at < 4; at++) {
            struct ahead_block *block =
                ahead_get(ahead, id, (uint32_t)at, 1, READ * at, READ, &bytes);
            assert_null(block);
            ahead_note(ahead, id, 1, 64 * BLOCK, at * READ, READ);
        }
    }
    return NULL;
}

/* Who waits for a block that turns out to be unreadable must not find another
 * one in its place, nor leave it unusable. */
static void a_block_that_fails_stays_until_its_readers_know(void **state)
{
    pthread_t thread[READERS];

    (void)state;
    fake_mount_open(&mount);
    ahead = ahead_create(mount.cache, BLOCK);
    assert_non_null(ahead);
    for (uintptr_t i = 0; i < READERS; i++)
        assert_int_equal(
            pthread_create(&thread[i], NULL, read_on, (void *)(i + 1)), 0);
    for (int i = 0; i < READERS; i++)
        pthread_join(thread[i], NULL);
    clock_sleep_ns(200000000); /* until what is wanted has been tried */
    fake_mount_close(&mount);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        watched_test(a_block_that_fails_stays_until_its_readers_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
