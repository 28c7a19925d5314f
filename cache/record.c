/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/record.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { VALUE_VERSION = 1 };

struct packed_time {
    int64_t seconds;
    uint32_t nanoseconds;
} __attribute__((packed));

struct packed_item {
    uint8_t version;
    uint8_t places;
    uint32_t length;
    uint32_t segment;
    uint64_t segment_offset;
    uint64_t serial;
    uint64_t file_version;
    uint64_t checksum;
    uint64_t sums[];
} __attribute__((packed));

struct packed_segment {
    uint8_t version;
    uint64_t bytes;
    uint64_t used_bytes;
    uint64_t item_bytes;
    uint64_t items;
} __attribute__((packed));

struct packed_head {
    uint8_t version;
    uint64_t serial;
    uint64_t count;
    struct packed_time mtime;
    struct packed_time ctime;
    uint64_t source_ino;
} __attribute__((packed));

struct packed_entry {
    uint8_t version;
    uint8_t type;
    uint64_t id;
    char name[];
} __attribute__((packed));

struct packed_number {
    uint8_t version;
    uint64_t number;
} __attribute__((packed));

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN,
               "values are little endian and written as they lie in memory");
_Static_assert(sizeof(struct packed_item) <= 64 &&
                   sizeof(struct packed_head) <= 64 &&
                   sizeof(struct packed_entry) + NODE_NAME_BYTES <=
                       RECORD_BYTES,
               "every value fits");

static bool is_readable(const char *value, size_t bytes, size_t least)
{
    return bytes >= least && (uint8_t)value[0] == VALUE_VERSION;
}

static struct packed_time pack_time(struct timespec time)
{
    return (struct packed_time){time.tv_sec, (uint32_t)time.tv_nsec};
}

static struct timespec unpack_time(struct packed_time time)
{
    return (struct timespec){time.seconds, time.nanoseconds};
}

size_t record_pack_item(const struct item *item, const struct item_sums *sums,
                        char *value)
{
    size_t tail = sums ? sums->count * sizeof(sums->sum[0]) : 0;
    struct packed_item packed = {
        .version = VALUE_VERSION,
        .places = (uint8_t)item->places,
        .length = item->length,
        .segment = item->segment,
        .segment_offset = item->segment_offset,
        .serial = item->serial,
        .file_version = item->version,
        .checksum = item->checksum,
    };

    memcpy(value, &packed, sizeof(packed));
    if (tail > 0)
        memcpy(value + sizeof(packed), sums->sum, tail);
    return sizeof(packed) + tail;
}

int record_unpack_item(const char *value, size_t bytes, struct item *item,
                       struct item_sums *sums)
{
    const struct packed_item *packed = (const void *)value;
    if (!is_readable(value, bytes, sizeof(*packed)) ||
        (bytes - sizeof(*packed)) % sizeof(packed->sums[0]) != 0)
        return -EIO;

    item->places = packed->places;
    item->length = packed->length;
    item->segment = packed->segment;
    item->segment_offset = packed->segment_offset;
    item->serial = packed->serial;
    item->version = packed->file_version;
    item->checksum = packed->checksum;
    if (!sums)
        return 0;
    size_t count = (bytes - sizeof(*packed)) / sizeof(sums->sum[0]);
    sums->count = count <= ITEM_CHUNKS ? (uint32_t)count : 0;
    memcpy(sums->sum, value + sizeof(*packed),
           sums->count * sizeof(sums->sum[0]));
    return 0;
}

size_t record_pack_segment(const struct segment *segment, char *value)
{
    struct packed_segment packed = {
        .version = VALUE_VERSION,
        .bytes = segment->bytes,
        .used_bytes = segment->used_bytes,
        .item_bytes = segment->item_bytes,
        .items = segment->items,
    };

    memcpy(value, &packed, sizeof(packed));
    return sizeof(packed);
}

int record_unpack_segment(const char *value, size_t bytes,
                          struct segment *segment)
{
    const struct packed_segment *packed = (const void *)value;
    if (!is_readable(value, bytes, sizeof(*packed)))
        return -EIO;

    segment->bytes = packed->bytes;
    segment->used_bytes = packed->used_bytes;
    segment->item_bytes = packed->item_bytes;
    segment->items = packed->items;
    return 0;
}

size_t record_pack_head(const struct listing_head *head, char *value)
{
    struct packed_head packed = {
        .version = VALUE_VERSION,
        .serial = head->serial,
        .count = head->count,
        .mtime = pack_time(head->mtime),
        .ctime = pack_time(head->ctime),
        .source_ino = head->source_ino,
    };

    memcpy(value, &packed, sizeof(packed));
    return sizeof(packed);
}

int record_unpack_head(const char *value, size_t bytes,
                       struct listing_head *head)
{
    const struct packed_head *packed = (const void *)value;
    if (!is_readable(value, bytes, sizeof(*packed)))
        return -EIO;

    *head = (struct listing_head){
        .serial = packed->serial,
        .count = packed->count,
        .mtime = unpack_time(packed->mtime),
        .ctime = unpack_time(packed->ctime),
        .source_ino = packed->source_ino,
    };
    return 0;
}

size_t record_pack_entry(const struct listing_entry *entry, char *value)
{
    struct packed_entry packed = {
        .version = VALUE_VERSION,
        .type = (uint8_t)entry->type,
        .id = entry->id,
    };
    size_t name_bytes = strlen(entry->name);

    memcpy(value, &packed, sizeof(packed));
    memcpy(value + sizeof(packed), entry->name, name_bytes);
    return sizeof(packed) + name_bytes;
}

int record_unpack_entry(const char *value, size_t bytes,
                        struct listing_entry *entry)
{
    const struct packed_entry *packed = (const void *)value;
    if (!is_readable(value, bytes, sizeof(*packed)) ||
        bytes - sizeof(*packed) >= NODE_NAME_BYTES)
        return -EIO;

    size_t name_bytes = bytes - sizeof(*packed);
    entry->id = packed->id;
    entry->type = packed->type;
    memcpy(entry->name, packed->name, name_bytes);
    entry->name[name_bytes] = '\0';
    return 0;
}

size_t record_pack_number(uint64_t number, char *value)
{
    struct packed_number packed = {VALUE_VERSION, number};

    memcpy(value, &packed, sizeof(packed));
    return sizeof(packed);
}

int record_unpack_number(const char *value, size_t bytes, uint64_t *number)
{
    const struct packed_number *packed = (const void *)value;
    if (!is_readable(value, bytes, sizeof(*packed)))
        return -EIO;

    *number = packed->number;
    return 0;
}
