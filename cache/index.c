/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the index. Keys are big endian, so that a directory's entries and
 * a file's extents lie side by side in order. */
#include "cache/index.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "cache/index_parts.h"
#include "cache/record.h"
#include "util/log.h"

/* ---- reading ---- */

/* A record, from the store that has the last word; found is freed by
 * value_free.
 */
struct value {
    struct view *view;
    struct store_value found;
};

/* What a disk that takes no writes cannot give back either is made again from
 * the source; numbers are not. */
static bool can_be_missed(const struct view *view, enum store_family family)
{
    return view->over && family != STORE_META;
}

static int find_value(const struct view *view, enum store_family family,
                      const void *key, size_t key_bytes,
                      struct store_value *found)
{
    char error[STORE_ERROR_BYTES];
    int err = -ENOENT;

    if (view->over)
        err = store_get(view->over, family, key, key_bytes, found, error);
    if (err == 0 && found->length == 0) {
        store_value_free(found); /* dropped */
        return -ENOENT;
    }
    if (err == -ENOENT && view->disk) {
        err = store_get(view->disk, family, key, key_bytes, found, error);
        if (err == -EIO && can_be_missed(view, family))
            err = -ENOENT;
    }
    return index_report("get", err, error);
}

static int get_value(struct index *index, enum store_family family,
                     const void *key, size_t key_bytes, struct value *value)
{
    value->view = index_view_get(index);
    int err = find_value(value->view, family, key, key_bytes, &value->found);
    if (err != 0)
        index_view_put(index, value->view);
    return err;
}

static void value_free(struct index *index, struct value *value)
{
    store_value_free(&value->found);
    index_view_put(index, value->view);
}

static int unreadable(const char *what, int err)
{
    if (err != 0)
        log_error("index: unreadable value in %s", what);
    return err;
}

int index_get_node(struct index *index, uint64_t id, struct node *node)
{
    uint64_t key = htobe64(id);
    struct value value;
    int err = get_value(index, STORE_NODES, &key, sizeof(key), &value);
    if (err != 0)
        return err;

    node->id = id;
    err = unreadable("nodes",
                     node_unpack(value.found.bytes, value.found.length, node));
    value_free(index, &value);
    return err;
}

int index_get_item_sums(struct index *index, uint64_t id, uint32_t extent,
                        struct item *item, struct item_sums *sums)
{
    struct item_key key = {htobe64(id), htobe32(extent)};
    struct value value;
    int err = get_value(index, STORE_ITEMS, &key, sizeof(key), &value);
    if (err != 0)
        return err;

    item->id = id;
    item->extent = extent;
    err =
        unreadable("items", record_unpack_item(value.found.bytes,
                                               value.found.length, item, sums));
    value_free(index, &value);
    return err;
}

int index_get_item(struct index *index, uint64_t id, uint32_t extent,
                   struct item *item)
{
    return index_get_item_sums(index, id, extent, item, NULL);
}

int index_get_number(struct index *index, const char *name, uint64_t *number)
{
    struct value value;
    int err = get_value(index, STORE_META, name, strlen(name), &value);
    if (err != 0)
        return err;

    err = unreadable("meta", record_unpack_number(value.found.bytes,
                                                  value.found.length, number));
    value_free(index, &value);
    return err;
}

int index_get_listing(struct index *index, uint64_t directory,
                      struct listing_head *head)
{
    struct pair_key key = {htobe64(directory), HEAD_ORDINAL};
    struct value value;
    int err = get_value(index, STORE_LISTINGS, &key, sizeof(key), &value);
    if (err != 0)
        return err;

    err = unreadable("listings", record_unpack_head(value.found.bytes,
                                                    value.found.length, head));
    value_free(index, &value);
    return err;
}

/* Called for each record from a key on, until it returns false. */
typedef bool (*record_cb)(const char *key, size_t key_bytes, const char *value,
                          size_t bytes, void *data);

static int compare_keys(struct store_iterator *a, struct store_iterator *b)
{
    size_t a_bytes, b_bytes;
    const char *x = store_key(a, &a_bytes), *y = store_key(b, &b_bytes);
    int order = memcmp(x, y, a_bytes < b_bytes ? a_bytes : b_bytes);

    return order != 0 ? order : a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

/* Of two walks side by side the one whose record is next; the record below an
 * equal key is passed over. NULL: both have ended. */
static struct store_iterator *next_of(struct store_iterator *over,
                                      struct store_iterator *under)
{
    bool has_over = over && store_valid(over);
    bool has_under = under && store_valid(under);

    if (!has_over || !has_under)
        return has_over ? over : has_under ? under : NULL;
    int order = compare_keys(over, under);
    if (order == 0)
        store_next(under);
    return order <= 0 ? over : under;
}

static int walk_view(const struct view *view, enum store_family family,
                     const void *from, size_t from_bytes, record_cb visit,
                     void *data)
{
    char error[STORE_ERROR_BYTES];
    bool scan = family != STORE_LISTINGS;
    struct store_iterator *over =
        view->over ? store_iterate(view->over, family, from, from_bytes, scan)
                   : NULL;
    struct store_iterator *under =
        view->disk ? store_iterate(view->disk, family, from, from_bytes, scan)
                   : NULL;
    struct store_iterator *next;
    bool more = true;
    int err = 0;

    while (more && (next = next_of(over, under))) {
        size_t key_bytes, bytes;
        const char *key = store_key(next, &key_bytes);
        const char *value = store_item(next, &bytes);
        if (bytes > 0) /* else dropped */
            more = visit(key, key_bytes, value, bytes, data);
        store_next(next);
    }
    if (under)
        err = store_end(under, error);
    if (over && store_end(over, error) != 0)
        err = -EIO;
    return index_report("walk", err, error);
}

static int each_record(struct index *index, enum store_family family,
                       const void *from, size_t from_bytes, record_cb visit,
                       void *data)
{
    struct view *view = index_view_get(index);
    int err = walk_view(view, family, from, from_bytes, visit, data);

    index_view_put(index, view);
    return err;
}

/* A walk: one of the callbacks, for one directory or node (id; 0: all). */
struct index_walk {
    index_entry_cb entry;
    index_item_cb item;
    index_node_cb node;
    index_segment_cb segment;
    void *data;
    uint64_t id;
    uint64_t end; /* of a listing: what lies beyond is of an older one */
    int err;
};

static bool visit_entry(const char *raw, size_t key_bytes, const char *value,
                        size_t bytes, void *data)
{
    struct index_walk *walk = data;
    struct pair_key key;
    struct listing_entry entry;

    if (key_bytes != sizeof(key))
        return false;
    memcpy(&key, raw, sizeof(key));
    if (be64toh(key.first) != walk->id || be64toh(key.second) >= walk->end)
        return false;
    walk->err =
        unreadable("listings", record_unpack_entry(value, bytes, &entry));
    return walk->err == 0 &&
           walk->entry(be64toh(key.second), &entry, walk->data);
}

/* The entries of an older listing stay on a disk that takes no writes: the head
 * says which are of this one. */
static uint64_t listing_end(const struct view *view, uint64_t directory)
{
    struct pair_key key = {htobe64(directory), HEAD_ORDINAL};
    struct listing_head head = {.count = 0};
    struct store_value found;

    if (find_value(view, STORE_LISTINGS, &key, sizeof(key), &found) != 0)
        return 0;
    int err = record_unpack_head(found.bytes, found.length, &head);
    store_value_free(&found);
    return err == 0 ? head.count : 0;
}

int index_each_entry(struct index *index, uint64_t directory, uint64_t ordinal,
                     index_entry_cb visit, void *data)
{
    struct pair_key key = {htobe64(directory), htobe64(ordinal)};
    struct index_walk walk = {
        .entry = visit, .data = data, .id = directory, .end = HEAD_ORDINAL};
    struct view *view = index_view_get(index);

    if (view->over)
        walk.end = listing_end(view, directory);
    int err =
        walk_view(view, STORE_LISTINGS, &key, sizeof(key), visit_entry, &walk);
    index_view_put(index, view);
    return walk.err ? walk.err : err;
}

/* One that is unreadable is loaded again when it is read. */
static bool visit_item(const char *raw, size_t key_bytes, const char *value,
                       size_t bytes, void *data)
{
    struct index_walk *walk = data;
    struct item_key key;
    struct item item;

    if (key_bytes != sizeof(key))
        return true;
    memcpy(&key, raw, sizeof(key));
    item.id = be64toh(key.id);
    item.extent = be32toh(key.extent);
    if (walk->id != 0 && item.id != walk->id)
        return false;
    return record_unpack_item(value, bytes, &item, NULL) != 0 ||
           walk->item(&item, walk->data);
}

int index_each_item(struct index *index, uint64_t id, index_item_cb visit,
                    void *data)
{
    struct item_key key = {htobe64(id), 0};
    struct index_walk walk = {.item = visit, .data = data, .id = id};

    return each_record(index, STORE_ITEMS, &key, sizeof(key), visit_item,
                       &walk);
}

static bool visit_node(const char *raw, size_t key_bytes, const char *value,
                       size_t bytes, void *data)
{
    struct index_walk *walk = data;
    struct node node;
    uint64_t key;

    if (key_bytes != sizeof(key))
        return true;
    memcpy(&key, raw, sizeof(key));
    node.id = be64toh(key);
    return node_unpack(value, bytes, &node) != 0 ||
           walk->node(&node, walk->data);
}

int index_each_node(struct index *index, index_node_cb visit, void *data)
{
    struct index_walk walk = {.node = visit, .data = data};

    return each_record(index, STORE_NODES, "", 0, visit_node, &walk);
}

static bool visit_segment(const char *raw, size_t key_bytes, const char *value,
                          size_t bytes, void *data)
{
    struct index_walk *walk = data;
    struct segment segment;
    uint32_t key;

    if (key_bytes != sizeof(key))
        return true;
    memcpy(&key, raw, sizeof(key));
    segment.number = be32toh(key);
    return record_unpack_segment(value, bytes, &segment) != 0 ||
           walk->segment(&segment, walk->data);
}

int index_each_segment(struct index *index, index_segment_cb visit, void *data)
{
    struct index_walk walk = {.segment = visit, .data = data};

    return each_record(index, STORE_SEGMENTS, "", 0, visit_segment, &walk);
}

/* ---- writing ---- */

struct index_batch *index_batch_create(void)
{
    return calloc(1, sizeof(struct index_batch));
}

void index_batch_destroy(struct index_batch *batch)
{
    if (!batch)
        return;
    store_ops_free(&batch->ops);
    free(batch);
}

/* ---- changes ---- */

void index_batch_node(struct index_batch *batch, const struct node *node)
{
    uint64_t key = htobe64(node->id);
    char value[NODE_PACKED_BYTES];

    store_put(&batch->ops, STORE_NODES, &key, sizeof(key), value,
              node_pack(node, value));
}

void index_batch_item(struct index_batch *batch, const struct item *item,
                      const struct item_sums *sums)
{
    struct item_key key = {htobe64(item->id), htobe32(item->extent)};
    char value[RECORD_BYTES];

    store_put(&batch->ops, STORE_ITEMS, &key, sizeof(key), value,
              record_pack_item(item, sums, value));
}

void index_batch_drop_item(struct index_batch *batch, uint64_t id,
                           uint32_t extent)
{
    struct item_key key = {htobe64(id), htobe32(extent)};

    store_drop(&batch->ops, STORE_ITEMS, &key, sizeof(key));
}

void index_batch_number(struct index_batch *batch, const char *name,
                        uint64_t number)
{
    char value[RECORD_BYTES];

    store_put(&batch->ops, STORE_META, name, strlen(name), value,
              record_pack_number(number, value));
}

void index_batch_segment(struct index_batch *batch,
                         const struct segment *segment)
{
    uint32_t key = htobe32(segment->number);
    char value[RECORD_BYTES];

    store_put(&batch->ops, STORE_SEGMENTS, &key, sizeof(key), value,
              record_pack_segment(segment, value));
}

void index_batch_drop_segment(struct index_batch *batch, uint32_t number)
{
    uint32_t key = htobe32(number);

    store_drop(&batch->ops, STORE_SEGMENTS, &key, sizeof(key));
}

void index_batch_entry(struct index_batch *batch, uint64_t directory,
                       uint64_t ordinal, const struct listing_entry *entry)
{
    struct pair_key key = {htobe64(directory), htobe64(ordinal)};
    char value[RECORD_BYTES];

    store_put(&batch->ops, STORE_LISTINGS, &key, sizeof(key), value,
              record_pack_entry(entry, value));
}

void index_batch_head(struct index_batch *batch, uint64_t directory,
                      const struct listing_head *head)
{
    struct pair_key key = {htobe64(directory), HEAD_ORDINAL};
    char value[RECORD_BYTES];

    store_put(&batch->ops, STORE_LISTINGS, &key, sizeof(key), value,
              record_pack_head(head, value));
}

int index_put_node(struct index *index, const struct node *node)
{
    struct index_batch *batch = index_batch_create();
    if (!batch)
        return -ENOMEM;
    index_batch_node(batch, node);
    return index_batch_commit(index, batch);
}

int index_put_number(struct index *index, const char *name, uint64_t number)
{
    struct index_batch *batch = index_batch_create();
    if (!batch)
        return -ENOMEM;
    index_batch_number(batch, name, number);
    batch->ops.sync = true;
    return index_batch_commit(index, batch);
}

struct item_total {
    uint64_t item_bytes;
    uint64_t count;
};

static bool add_items(const struct node *node, void *data)
{
    struct item_total *total = data;

    if (S_ISREG(node->mode))
        total->count += item_count(node->size, total->item_bytes);
    return true;
}

/* From the first key to the last, which no item or segment has. */
static void drop_items(struct index_batch *batch)
{
    struct item_key first = {0, 0}, last = {UINT64_MAX, UINT32_MAX};
    uint32_t segment = 0, last_segment = UINT32_MAX;

    store_drop_range(&batch->ops, STORE_ITEMS, &first, &last, sizeof(first));
    store_drop_range(&batch->ops, STORE_SEGMENTS, &segment, &last_segment,
                     sizeof(segment));
}

int index_set_item_bytes(struct index *index, uint64_t item_bytes,
                         bool *dropped)
{
    struct item_total total = {.item_bytes = item_bytes};
    uint64_t before = 0;
    int err = index_get_number(index, "item_bytes", &before);

    *dropped = err == 0 && before != item_bytes;
    if (err == 0 && !*dropped)
        return 0;
    if (err == 0 || err == -ENOENT)
        err = index_each_node(index, add_items, &total);
    if (err != 0)
        return err;
    struct index_batch *batch = index_batch_create();
    if (!batch)
        return -ENOMEM;
    drop_items(batch);
    index_batch_number(batch, "item_bytes", item_bytes);
    index_batch_number(batch, "known_items", total.count);
    batch->ops.sync = true;
    return index_batch_commit(index, batch);
}

int index_drop_listing(struct index *index, uint64_t directory)
{
    struct pair_key first = {htobe64(directory), 0};
    struct pair_key head = {htobe64(directory), HEAD_ORDINAL};
    struct index_batch *batch = index_batch_create();
    if (!batch)
        return -ENOMEM;
    store_drop(&batch->ops, STORE_LISTINGS, &head, sizeof(head));
    store_drop_range(&batch->ops, STORE_LISTINGS, &first, &head, sizeof(head));
    return index_batch_commit(index, batch);
}
