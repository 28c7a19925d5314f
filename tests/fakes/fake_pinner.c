/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/fake_pinner.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "util/clock.h"
#include "util/hash.h"

static void note(struct fake_pinner *pinner, const struct shared_buffer *buffer,
                 const char *path)
{
    SCOPED_LOCK(&pinner->lock);
    if (pinner->seen_count == FAKE_PINNER_SEEN)
        return;
    struct fake_pinner_task *task = &pinner->seen[pinner->seen_count++];

    task->task = buffer->task;
    task->id = buffer->id;
    task->extent = buffer->extent;
    snprintf(task->path, sizeof(task->path), "%s", path);
}

static void count(struct fake_pinner *pinner, uint32_t task)
{
    atomic_fetch_add(task == TASK_PIN     ? &pinner->pins
                     : task == TASK_REPIN ? &pinner->repins
                                          : &pinner->releases,
                     1);
}

static void answer(struct fake_pinner *pinner, struct shared_buffer *buffer)
{
    const char *bytes = shared_buffer_bytes(pinner->shared, buffer);
    const char *path = shared_buffer_path(pinner->shared, buffer);
    int error = atomic_load(&pinner->answer);

    atomic_store(&buffer->state, BUFFER_PINNING);
    if (!bytes || !path || strlen(path) != buffer->path_length ||
        (buffer->task == TASK_PIN && buffer->checksum != 0 &&
         hash_bytes(bytes, buffer->length) != buffer->checksum))
        atomic_fetch_add(&pinner->damage, 1);
    note(pinner, buffer, path ? path : "");
    uint32_t task = buffer->task;
    if (task == TASK_RELEASE)
        error = 0;
    buffer->error = error;
    buffer->pinner = atomic_load(&pinner->shared->pinner_generation);
    atomic_store(&buffer->state, error == 0 ? BUFFER_PINNED : BUFFER_REFUSED);
    count(pinner, task);
    event_signal(&pinner->shared->worker_event);
}

static void *pinner_main(void *data)
{
    struct fake_pinner *pinner = data;
    struct shared_buffer *buffers = shared_buffers(pinner->shared);

    while (!atomic_load(&pinner->stopping)) {
        uint32_t seen = event_read(&pinner->shared->pinner_event);
        for (int i = 0; i < SHARED_BUFFERS && !atomic_load(&pinner->holding);
             i++)
            if (atomic_load(&buffers[i].state) == BUFFER_LOADED &&
                buffers[i].ready_ns <= clock_now_ns())
                answer(pinner, &buffers[i]);
        event_wait(&pinner->shared->pinner_event, seen, 1);
    }
    return NULL;
}

void fake_pinner_start(struct fake_pinner *pinner, struct shared *shared)
{
    memset(pinner, 0, sizeof(*pinner));
    pinner->shared = shared;
    pthread_mutex_init(&pinner->lock, NULL);
    if (pthread_create(&pinner->thread, NULL, pinner_main, pinner) != 0)
        abort();
}

void fake_pinner_stop(struct fake_pinner *pinner)
{
    atomic_store(&pinner->stopping, true);
    event_signal(&pinner->shared->pinner_event);
    pthread_join(pinner->thread, NULL);
}

size_t fake_pinner_count(struct fake_pinner *pinner, enum buffer_task task,
                         uint64_t id)
{
    size_t found = 0;
    SCOPED_LOCK(&pinner->lock);

    for (size_t i = 0; i < pinner->seen_count; i++)
        found += pinner->seen[i].task == task && pinner->seen[i].id == id;
    return found;
}
