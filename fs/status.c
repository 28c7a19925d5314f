/* SPDX-License-Identifier: Apache-2.0 */
/* The account and the counters as one JSON document; its names are fixed, since
 * dashboards and scripts rely on them. */
#include "fs/status.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>

#include "fs/control.h"
#include "fs/process.h"
#include "util/clock.h"

#define NUMBER(value) json_integer((json_int_t)atomic_load(&(value)))

static json_t *text(const char *bytes)
{
    AUTO_FREE char *printable = control_printable(bytes);

    return json_string(printable ? printable : "?");
}

static json_t *pair(uint64_t reads, uint64_t bytes)
{
    return json_pack("{s:I, s:I}", "reads", (json_int_t)reads, "bytes",
                     (json_int_t)bytes);
}

/* Why the DRAM tier takes nothing more; NULL while it does. */
static const char *dram_limit(struct shared *shared)
{
    if (shared->capacity_bytes == 0)
        return "--dram is 0";
    if (atomic_load(&shared->pinner_failed))
        return "the pinner crashed again and again";
    if (atomic_load(&shared->map_exhausted))
        return "vm.max_map_count or memory is used up";
    if (atomic_load(&shared->dram_refused))
        return "capacity";
    return NULL;
}

/* A field of the account; without a pinner nothing is held. */
static json_t *pinned(struct shared *shared, const _Atomic uint64_t *field)
{
    return json_integer(
        shared_is_closed(shared) ? 0 : (json_int_t)atomic_load(field));
}

static json_t *dram(struct shared *shared)
{
    const char *reason = dram_limit(shared);

    return json_pack("{s:I, s:o, s:o, s:o, s:b, s:s?}", "capacity_bytes",
                     (json_int_t)shared->capacity_bytes, "used_bytes",
                     pinned(shared, &shared->dram.used_bytes), "item_bytes",
                     pinned(shared, &shared->dram.item_bytes), "items",
                     pinned(shared, &shared->dram.items), "full",
                     reason != NULL, "limit_reason", reason);
}

static const char *nvme_limit(struct shared *shared)
{
    if (shared->nvme_capacity_bytes == 0)
        return shared->nvme_why_none[0] ? shared->nvme_why_none : "--nvme is 0";
    if (atomic_load(&shared->nvme_failing))
        return "the disk fails";
    switch (atomic_load(&shared->nvme_limit)) {
    case NVME_LIMIT_CAPACITY:
        return "capacity";
    case NVME_LIMIT_FREE_SPACE:
        return "the disk must keep --free-space free";
    case NVME_LIMIT_DISK:
        return "the disk does not take writes";
    case NVME_LIMIT_LOST:
        return "the cache directory is gone, or on another disk";
    default:
        return NULL;
    }
}

static json_t *nvme(struct shared *shared)
{
    const char *reason = nvme_limit(shared);
    struct stat st = {0};

    fstat(PROCESS_FD_CACHE, &st);
    return json_pack("{s:I, s:o, s:o, s:o, s:b, s:s?, s:I, s:o}",
                     "capacity_bytes", (json_int_t)shared->nvme_capacity_bytes,
                     "used_bytes", NUMBER(shared->nvme.used_bytes),
                     "item_bytes", NUMBER(shared->nvme.item_bytes), "items",
                     NUMBER(shared->nvme.items), "full", reason != NULL,
                     "limit_reason", reason, "device", (json_int_t)st.st_dev,
                     "disk_bytes", NUMBER(shared->nvme_disk_bytes));
}

/* Items in any tier; those in both count once. */
static json_t *cached(struct shared *shared)
{
    uint64_t items = atomic_load(&shared->nvme.items);
    uint64_t copies = atomic_load(&shared->dram.copies);
    uint64_t pinned_items = atomic_load(&shared->dram.items);

    if (!shared_is_closed(shared))
        items += pinned_items > copies ? pinned_items - copies : 0;
    return json_integer((json_int_t)items);
}

static json_t *served(struct shared *shared)
{
    struct metrics *metrics = &shared->metrics;

    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "buffer",
                     pair(atomic_load(&metrics->served_buffer_reads),
                          atomic_load(&metrics->served_buffer_bytes)),
                     "dram",
                     pair(atomic_load(&metrics->served_dram_reads),
                          atomic_load(&metrics->served_dram_bytes)),
                     "nvme",
                     pair(atomic_load(&metrics->served_nvme_reads),
                          atomic_load(&metrics->served_nvme_bytes)),
                     "peer", pair(0, 0), "source",
                     pair(atomic_load(&metrics->served_source_reads),
                          atomic_load(&metrics->served_source_bytes)));
}

static uint64_t resident_bytes(pid_t pid)
{
    char path[64];
    unsigned long pages = 0;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static json_t *daemon_part(struct shared *shared)
{
    pid_t worker = atomic_load(&shared->worker_pid);
    uint64_t up_ns = clock_now_ns() - shared->started_ns;
    uint64_t restarts = atomic_load(&shared->metrics.worker_restarts) +
                        atomic_load(&shared->metrics.pinner_restarts);

    return json_pack("{s:i, s:o, s:o, s:I, s:I, s:I}", "pid", (int)worker,
                     "supervisor_pid", NUMBER(shared->supervisor_pid),
                     "pinner_pid", NUMBER(shared->pinner_pid), "restarts",
                     (json_int_t)restarts, "rss_bytes",
                     (json_int_t)resident_bytes(worker), "uptime_seconds",
                     (json_int_t)(up_ns / 1000000000u));
}

/* What a user should know that is not as it should be. */
static json_t *degraded(struct shared *shared)
{
    json_t *list = json_array();

    if (atomic_load(&shared->map_exhausted))
        json_array_append_new(
            list, json_string("no further page can be pinned: raise "
                              "vm.max_map_count, or give more memory"));
    if (atomic_load(&shared->pinner_failed))
        json_array_append_new(
            list, json_string("the pinner crashed again and again: nothing is "
                              "pinned any more; see the log"));
    if (atomic_load(&shared->index_degraded))
        json_array_append_new(
            list, json_string("the cache directory cannot be written: the "
                              "index is kept in memory"));
    uint32_t limit = atomic_load(&shared->nvme_limit);
    if (atomic_load(&shared->nvme_failing) || limit == NVME_LIMIT_DISK ||
        limit == NVME_LIMIT_LOST)
        json_array_append_new(
            list, json_sprintf("NVMe tier: %s", nvme_limit(shared)));
    if (atomic_load(&shared->orphaned))
        json_array_append_new(
            list, json_string("the mount point was unmounted; copies of the "
                              "mount live on in other mount namespaces"));
    return list;
}

static bool is_degraded(struct shared *shared)
{
    uint32_t limit = atomic_load(&shared->nvme_limit);

    return atomic_load(&shared->map_exhausted) || shared_is_closed(shared) ||
           atomic_load(&shared->index_degraded) ||
           atomic_load(&shared->nvme_failing) || limit == NVME_LIMIT_DISK ||
           limit == NVME_LIMIT_LOST;
}

const char *status_state(struct shared *shared)
{
    switch (atomic_load(&shared->state)) {
    case SHARED_STARTING:
        return "starting";
    case SHARED_STOPPING:
        return "stopping";
    default:
        return is_degraded(shared) ? "degraded" : "ready";
    }
}

char *status_json(struct shared *shared)
{
    struct metrics *metrics = &shared->metrics;
    json_t *document = json_pack(
        "{s:s, s:o, s:o, s:s, s:{s:o, s:o}, s:{s:o, s:o}, s:o, s:{s:o, s:o, "
        "s:o},"
        " s:{s:o}, s:o, s:o, s:o, s:o}",
        "version", COORDLFS_VERSION, "dataset", text(shared->config.dataset),
        "mountpoint", text(shared->config.mountpoint), "state",
        status_state(shared), "items", "known", NUMBER(metrics->known_items),
        "cached", cached(shared), "tiers", "dram", dram(shared), "nvme",
        nvme(shared), "served", served(shared), "source", "read_bytes",
        NUMBER(metrics->source_read_bytes), "read_items",
        NUMBER(metrics->source_read_items), "errors",
        NUMBER(metrics->source_errors), "integrity", "corrupt_items",
        NUMBER(metrics->corrupt_items), "admissions_skipped",
        NUMBER(metrics->admissions_skipped), "pins_lost",
        NUMBER(metrics->pins_lost), "daemon", daemon_part(shared), "degraded",
        degraded(shared));
    if (!document)
        return NULL;
    char *text_form = json_dumps(document, JSON_INDENT(2));
    json_decref(document);
    return text_form;
}
