/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/self/pagemap gives the frame of each mapped page, /proc/kpagecgroup the
 * inode number of the cgroup that a frame is charged to. The process's own is
 * learnt from a page of its own, made anew each second, since a process may be
 * moved to another cgroup and its pages stay charged where they were. */
#include "fs/charge.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/clock.h"

enum {
    PAGE = 4096,
    CHUNK = 512, /* pages looked at together */
    REFRESH_MS = 1000,
};

#define PRESENT (1ull << 63)
#define FRAME_MASK ((1ull << 55) - 1)

struct charge {
    int pagemap;
    int cgroups;
    uint64_t own; /* inode number of our cgroup */
    uint64_t learnt_ms;
    bool known;
};

/* Frames of count pages from address on; false where one is not mapped. */
static bool get_frames(const struct charge *charge, const char *address,
                       size_t count, uint64_t *frames)
{
    off_t offset = (off_t)((uintptr_t)address / PAGE * sizeof(*frames));
    size_t bytes = count * sizeof(*frames);

    if (pread(charge->pagemap, frames, bytes, offset) != (ssize_t)bytes)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!(frames[i] & PRESENT))
            return false;
        frames[i] &= FRAME_MASK;
        if (frames[i] == 0)
            return false; /* hidden from us */
    }
    return true;
}

/* The cgroups of count frames in a row. */
static bool get_cgroups(const struct charge *charge, uint64_t frame,
                        size_t count, uint64_t *cgroups)
{
    size_t bytes = count * sizeof(*cgroups);

    return pread(charge->cgroups, cgroups, bytes,
                 (off_t)(frame * sizeof(*cgroups))) == (ssize_t)bytes;
}

static void learn_own(struct charge *charge)
{
    uint64_t frame;
    volatile char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    charge->known = false;
    charge->learnt_ms = clock_now_ms();
    if (page == MAP_FAILED)
        return;
    *page = 1;
    charge->known = get_frames(charge, (const char *)page, 1, &frame) &&
                    get_cgroups(charge, frame, 1, &charge->own);
    munmap((void *)page, PAGE);
}

struct charge *charge_create(void)
{
    struct charge *charge = calloc(1, sizeof(*charge));
    if (!charge)
        return NULL;
    charge->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    charge->cgroups = open("/proc/kpagecgroup", O_RDONLY | O_CLOEXEC);
    if (charge->pagemap >= 0 && charge->cgroups >= 0)
        learn_own(charge);
    if (!charge->known) {
        charge_destroy(charge);
        return NULL;
    }
    return charge;
}

void charge_destroy(struct charge *charge)
{
    if (charge->pagemap >= 0)
        close(charge->pagemap);
    if (charge->cgroups >= 0)
        close(charge->cgroups);
    free(charge);
}

static enum charge_owner chunk_owner(const struct charge *charge,
                                     const char *address, size_t count)
{
    uint64_t frames[CHUNK], cgroups[CHUNK];
    enum charge_owner owner = CHARGE_OURS;

    if (!get_frames(charge, address, count, frames))
        return CHARGE_UNKNOWN;
    for (size_t i = 0; i < count;) {
        size_t run = 1;
        while (i + run < count && frames[i + run] == frames[i] + run)
            run++;
        if (!get_cgroups(charge, frames[i], run, cgroups))
            return CHARGE_UNKNOWN;
        for (size_t k = 0; k < run; k++) {
            /* 0: uncharged, or not told for this page of a larger folio. */
            if (cgroups[k] != charge->own && cgroups[k] != 0)
                return CHARGE_FOREIGN;
            if (cgroups[k] != charge->own)
                owner = CHARGE_UNKNOWN;
        }
        i += run;
    }
    return owner;
}

enum charge_owner charge_owner(struct charge *charge, const void *address,
                               size_t length)
{
    size_t pages = (length + PAGE - 1) / PAGE;
    enum charge_owner owner = CHARGE_OURS;

    if (!charge)
        return CHARGE_UNKNOWN;
    if (clock_now_ms() - charge->learnt_ms > REFRESH_MS)
        learn_own(charge);
    if (!charge->known)
        return CHARGE_UNKNOWN;
    for (size_t done = 0; done < pages && owner == CHARGE_OURS; done += CHUNK) {
        size_t count = pages - done < CHUNK ? pages - done : CHUNK;
        owner = chunk_owner(charge, (const char *)address + done * PAGE, count);
    }
    return owner;
}
