/* SPDX-License-Identifier: Apache-2.0 */
/* The pinner: an ordinary reader of the mount, which it reaches through a
 * detached clone and never through /dev/fuse. For every LOADED buffer it opens
 * and maps the file and locks the pages. Those that a reader brought in are
 * charged to that reader's memory cgroup: unless that is the pinner's own, they
 * are dropped first and read again, which the worker answers from the buffer.
 *
 * Pages that a job has mapped cannot be dropped, and locking them would charge
 * the job for ever: such a pin is tried again a few times, then refused.
 *
 * One thread; it may wait on the mount, which is why it is a process of its
 * own. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "fs/charge.h"
#include "fs/pinmap.h"
#include "fs/process.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/path.h"

enum {
    WAVE = 16, /* items whose pages are read ahead together */
    IDLE_MS = 1000,
    TRIES = 4,
    RESIDENT_CHUNK = 1024, /* pages per mincore call */
};

/* Pages that remain after DONTNEED are usually on their way out. */
static const uint32_t retry_ms[TRIES - 1] = {5, 20, 80};

struct pin {
    struct shared_buffer *buffer;
    int fd;
    void *address;
};

struct pinner {
    struct shared *shared;
    struct shared_buffer *buffers;
    struct pinmap *map;
    struct charge *charge; /* NULL: the kernel does not tell */
    uint32_t generation;
    uint64_t due_ns[SHARED_BUFFERS]; /* of a pin that is tried again */
    uint8_t tries[SHARED_BUFFERS];
};

static size_t index_of(const struct pinner *pinner, const struct pin *pin)
{
    return (size_t)(pin->buffer - pinner->buffers);
}

static void answer(struct pinner *pinner, struct shared_buffer *buffer, int err)
{
    size_t i = (size_t)(buffer - pinner->buffers);

    pinner->tries[i] = 0;
    pinner->due_ns[i] = 0;
    buffer->error = err;
    buffer->pinner = pinner->generation;
    atomic_store(&buffer->state, err == 0 ? BUFFER_PINNED : BUFFER_REFUSED);
    event_signal(&pinner->shared->worker_event);
}

/* ---- steps of a pin ---- */

static int open_file(struct pinner *pinner, const struct shared_buffer *buffer)
{
    const char *path = shared_buffer_path(pinner->shared, buffer);
    struct stat st;
    if (!path || path[buffer->path_length] != '\0')
        return -EPROTO;

    int fd = path_open_beneath(PROCESS_FD_TREE, path,
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) != 0 || st.st_ino != buffer->id) {
        close(fd);
        return -ESTALE;
    }
    return fd;
}

static size_t page_count(size_t length)
{
    return (length + SHARED_PAGE - 1) / SHARED_PAGE;
}

/* How many pages of the mapping are in memory, or -errno. */
static ssize_t count_resident(char *address, size_t length)
{
    unsigned char pages[RESIDENT_CHUNK];
    size_t count = page_count(length);
    ssize_t resident = 0;

    for (size_t done = 0; done < count; done += RESIDENT_CHUNK) {
        size_t now =
            count - done < RESIDENT_CHUNK ? count - done : RESIDENT_CHUNK;
        if (mincore(address + done * SHARED_PAGE, now * SHARED_PAGE, pages) !=
            0)
            return -errno;
        for (size_t i = 0; i < now; i++)
            resident += pages[i] & 1;
    }
    return resident;
}

static void forget_mapping(struct pinner *pinner,
                           const struct shared_buffer *buffer)
{
    struct pinmap_entry entry;

    if (pinmap_take(pinner->map, buffer->id, buffer->extent, &entry))
        munmap(entry.address, entry.length);
}

static int map_item(struct pinner *pinner, struct pin *pin)
{
    struct shared_buffer *buffer = pin->buffer;

    forget_mapping(pinner, buffer);
    pin->fd = open_file(pinner, buffer);
    if (pin->fd < 0)
        return pin->fd;
    pin->address = mmap(NULL, buffer->length, PROT_READ, MAP_SHARED, pin->fd,
                        (off_t)buffer->file_offset);
    return pin->address == MAP_FAILED ? -errno : 0;
}

/* Whether the reader's pages can stay: all there, and charged to us. */
static bool can_keep(struct pinner *pinner, const struct pin *pin,
                     ssize_t resident)
{
    size_t length = pin->buffer->length;

    return pinner->charge && (size_t)resident == page_count(length) &&
           madvise(pin->address, length, MADV_POPULATE_READ) == 0 &&
           charge_owner(pinner->charge, pin->address, length) == CHARGE_OURS;
}

/* Takes our own references to the pages away again, which would keep them. */
static void unmap_pages(const struct pin *pin)
{
    madvise(pin->address, pin->buffer->length, MADV_DONTNEED);
}

/* Opens, maps, drops what others are charged for, and reads ahead. -EAGAIN:
 * pages are still in use. */
static int prepare(struct pinner *pinner, struct pin *pin)
{
    const struct shared_buffer *buffer = pin->buffer;
    off_t offset = (off_t)buffer->file_offset;
    int err = map_item(pinner, pin);
    if (err != 0 || buffer->task == TASK_REPIN)
        return err;

    ssize_t resident = count_resident(pin->address, buffer->length);
    if (resident > 0) {
        if (can_keep(pinner, pin, resident))
            return 0;
        unmap_pages(pin);
        posix_fadvise(pin->fd, offset, buffer->length, POSIX_FADV_DONTNEED);
        resident = count_resident(pin->address, buffer->length);
    }
    if (resident != 0)
        return resident < 0 ? (int)resident : -EAGAIN;
    /* Twice the usual window, so that an item takes half the requests. */
    posix_fadvise(pin->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    readahead(pin->fd, offset, buffer->length);
    return 0;
}

static void let_go(struct pin *pin)
{
    if (pin->address != MAP_FAILED && pin->address)
        munmap(pin->address, pin->buffer->length);
    if (pin->fd >= 0)
        close(pin->fd);
}

static int lock_pages(struct pinner *pinner, struct pin *pin)
{
    struct shared_buffer *buffer = pin->buffer;

    /* mlock2: sanitizers make mlock do nothing. */
    if (mlock2(pin->address, buffer->length, 0) != 0) {
        /* ENOMEM is also what a page that could not be read gives. */
        return errno == ENOMEM ? -EIO : -errno;
    }
    /* Somebody else's reader may have brought them back in between. */
    if (charge_owner(pinner->charge, pin->address, buffer->length) ==
        CHARGE_FOREIGN)
        return -EAGAIN;
    return pinmap_add(pinner->map, buffer->id, buffer->extent, pin->address,
                      buffer->length);
}

/* Puts the pin off, or refuses it after its last try. */
static void put_off(struct pinner *pinner, struct pin *pin)
{
    size_t i = index_of(pinner, pin);

    let_go(pin);
    /* What a dead pinner held has no bytes here to read again. */
    if (pinner->tries[i] >= TRIES - 1 || pin->buffer->task == TASK_REPIN) {
        answer(pinner, pin->buffer, -EBUSY);
        return;
    }
    uint32_t wait_ms = retry_ms[pinner->tries[i]++];
    pinner->due_ns[i] = clock_now_ns() + wait_ms * 1000000ull;
}

/* Takes a wave of pins through the steps together, so that the pages of all
 * are on their way while the first is locked. */
static void pin_wave(struct pinner *pinner, struct pin *wave, size_t count)
{
    int err[WAVE];

    for (size_t i = 0; i < count; i++) {
        wave[i].fd = -1;
        wave[i].address = NULL;
        err[i] = prepare(pinner, &wave[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (err[i] == 0)
            err[i] = lock_pages(pinner, &wave[i]);
        if (err[i] == -EAGAIN) {
            put_off(pinner, &wave[i]);
            continue;
        }
        if (err[i] != 0)
            let_go(&wave[i]);
        else
            close(wave[i].fd);
        answer(pinner, wave[i].buffer, err[i]);
    }
}

/* ---- release ---- */

static int open_released(const char *path)
{
    int fd = path_open_beneath(PROCESS_FD_TREE, path,
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK);

    return fd >= 0
               ? fd
               : path_open_beneath(PROCESS_FD_TREE, path, O_PATH | O_NOFOLLOW);
}

/* Lets go of every extent, and has the kernel ask for the attributes, which
 * drops the pages of an old version; then of the pages, if they are not. */
static void release(struct pinner *pinner, struct shared_buffer *buffer)
{
    struct pinmap_entry entry;
    struct statx stx;

    while (pinmap_take_any(pinner->map, buffer->id, &entry))
        munmap(entry.address, entry.length);
    const char *path = shared_buffer_path(pinner->shared, buffer);
    if (path && path[buffer->path_length] == '\0') {
        int fd = open_released(path);
        if (fd >= 0) {
            statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC,
                  STATX_BASIC_STATS, &stx);
            /* Not before: new pages must not come under the old size. */
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            close(fd);
        }
    }
    answer(pinner, buffer, 0);
}

/* ---- the loop ---- */

/* Whether the buffer is the pinner's and due now; else *next_ns becomes the
 * time when it will be, if that is sooner. */
static bool is_due(struct pinner *pinner, size_t i, uint64_t now,
                   uint64_t *next_ns)
{
    struct shared_buffer *buffer = &pinner->buffers[i];
    uint32_t state = atomic_load(&buffer->state);
    uint64_t due = 0;

    if (buffer->task == TASK_STORE)
        return false; /* the worker's own */
    if (state == BUFFER_LOADED)
        due = buffer->ready_ns;
    else if (state == BUFFER_PINNING)
        due = pinner->due_ns[i];
    else
        return false;
    if (due <= now)
        return true;
    if (due < *next_ns)
        *next_ns = due;
    return false;
}

static bool is_pinned_already(struct pinner *pinner,
                              const struct shared_buffer *buffer)
{
    return buffer->task == TASK_REPIN &&
           pinmap_has(pinner->map, buffer->id, buffer->extent);
}

/* One pass over the buffers; true when something was due. */
static bool pass(struct pinner *pinner, uint64_t *next_ns)
{
    struct pin wave[WAVE];
    size_t count = 0;
    bool worked = false;
    uint64_t now = clock_now_ns();

    for (size_t i = 0; i < SHARED_BUFFERS; i++) {
        struct shared_buffer *buffer = &pinner->buffers[i];
        if (!is_due(pinner, i, now, next_ns))
            continue;
        atomic_store(&buffer->state, BUFFER_PINNING);
        worked = true;
        if (buffer->task == TASK_RELEASE) {
            release(pinner, buffer);
        } else if (is_pinned_already(pinner, buffer)) {
            answer(pinner, buffer, 0);
        } else {
            wave[count++].buffer = buffer;
        }
        if (count == WAVE) {
            pin_wave(pinner, wave, count);
            count = 0;
        }
    }
    pin_wave(pinner, wave, count);
    return worked;
}

void pinner_main(void)
{
    struct shared *shared = process_begin("pinner");
    static struct pinner pinner;

    pinner.shared = shared;
    pinner.buffers = shared_buffers(shared);
    pinner.generation = atomic_load(&shared->pinner_generation);
    pinner.map = pinmap_create();
    if (!pinner.map)
        _exit(1);
    /* It needs CAP_SYS_ADMIN, at the open alone. */
    pinner.charge = charge_create();
    process_keep_capabilities(1ull << CAP_DAC_READ_SEARCH |
                              1ull << CAP_IPC_LOCK | 1ull << CAP_FOWNER);
    for (;;) {
        uint32_t seen = event_read(&shared->pinner_event);
        uint64_t now = clock_now_ns();
        uint64_t next = now + IDLE_MS * 1000000ull;
        if (!pass(&pinner, &next)) {
            now = clock_now_ns();
            long wait = next > now ? (long)((next - now) / 1000000u) + 1 : 1;
            atomic_store(&shared->pinner_until_ns, next);
            event_wait(&shared->pinner_event, seen, wait);
        }
    }
}
