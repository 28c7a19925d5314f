/* SPDX-License-Identifier: Apache-2.0 */
/* The write-ahead log is kept short, since it is read on the way back from
 * every crash of the worker while readers wait. */
#include "cache/store.h"

#include <errno.h>
#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

enum {
    BLOCK_CACHE_BYTES = 32 << 20, /* bounds the worker's memory */
    WRITE_BUFFER_BYTES = 1 << 20, /* so that a reopen replays little */
    WAL_BYTES = 2 << 20,
    OPEN_FILES = 128, /* table files; the rest is opened when needed */
    LEAST_ROOM = 1 << 20,
    FAMILIES = STORE_FAMILIES + 1,
};

/* RocksDB's own family is first, and empty. */
static const char *const names[FAMILIES] = {"default", "nodes",    "listings",
                                            "items",   "segments", "meta"};

struct store {
    _Atomic unsigned uses;
    rocksdb_t *db;
    rocksdb_env_t *env; /* of memory, or NULL */
    rocksdb_options_t *options;
    rocksdb_readoptions_t *read_options;
    rocksdb_readoptions_t *scan_options;
    rocksdb_writeoptions_t *write_options;
    rocksdb_writeoptions_t *sync_options;
    rocksdb_block_based_table_options_t *table_options;
    rocksdb_cache_t *cache;
    rocksdb_column_family_handle_t *family[FAMILIES];
};

static int take_error(char *error, char *text)
{
    if (!error)
        return 0;
    snprintf(text, STORE_ERROR_BYTES, "%s", error);
    rocksdb_free(error);
    return -EIO;
}

static rocksdb_column_family_handle_t *family_of(struct store *store,
                                                 enum store_family family)
{
    return store->family[family + 1];
}

/* ---- opening ---- */

static void set_options(struct store *store)
{
    rocksdb_options_t *options = store->options;

    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_create_missing_column_families(options, 1);
    rocksdb_options_set_write_buffer_size(options, WRITE_BUFFER_BYTES);
    rocksdb_options_set_max_total_wal_size(options, WAL_BYTES);
    rocksdb_options_set_max_open_files(options, OPEN_FILES);
    rocksdb_options_set_max_background_jobs(options, 2);
    rocksdb_options_set_skip_stats_update_on_db_open(options, 1);
    rocksdb_options_set_skip_checking_sst_file_sizes_on_db_open(options, 1);
    /* As good as nothing: writing its log to a full disk ends the process by an
     * assertion in Debian's build. What fails is told by the calls. */
    rocksdb_options_set_keep_log_file_num(options, 1);
    rocksdb_options_set_info_log_level(options, 6);
    rocksdb_options_set_compression(options, rocksdb_lz4_compression);
    store->table_options = rocksdb_block_based_options_create();
    store->cache = rocksdb_cache_create_lru(BLOCK_CACHE_BYTES);
    rocksdb_block_based_options_set_block_cache(store->table_options,
                                                store->cache);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(
        store->table_options, 1);
    rocksdb_block_based_options_set_filter_policy(
        store->table_options, rocksdb_filterpolicy_create_bloom(10));
    rocksdb_options_set_block_based_table_factory(options,
                                                  store->table_options);
}

static void close_store(struct store *store)
{
    if (store->db) {
        for (int i = 0; i < FAMILIES; i++)
            rocksdb_column_family_handle_destroy(store->family[i]);
        rocksdb_close(store->db);
    }
    rocksdb_writeoptions_destroy(store->sync_options);
    rocksdb_writeoptions_destroy(store->write_options);
    rocksdb_readoptions_destroy(store->scan_options);
    rocksdb_readoptions_destroy(store->read_options);
    rocksdb_block_based_options_destroy(store->table_options);
    rocksdb_cache_destroy(store->cache);
    rocksdb_options_destroy(store->options);
    if (store->env)
        rocksdb_env_destroy(store->env);
    free(store);
}

/* Not for a full disk, a lock that is held or a limit that is reached. */
static bool is_damage(const char *error)
{
    static const char *const damages[] = {"Corruption", "Invalid argument",
                                          "No such file", "Not implemented",
                                          "does not exist"};

    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++)
        if (strstr(error, damages[i]))
            return true;
    return false;
}

uint64_t store_room(const char *folder)
{
    struct statvfs disk;

    if (statvfs(folder, &disk) != 0 || disk.f_blocks == 0)
        return UINT64_MAX; /* it is made now */
    return disk.f_bfree * disk.f_frsize;
}

/* RocksDB writes a log when it opens, see above. */
static int check_room(const char *folder, char error[STORE_ERROR_BYTES])
{
    if (store_room(folder) >= LEAST_ROOM)
        return 0;
    snprintf(error, STORE_ERROR_BYTES, "%s", strerror(ENOSPC));
    return -EIO;
}

int store_open(enum store_kind kind, const char *folder, struct store **store,
               char error[STORE_ERROR_BYTES])
{
    struct store *made = calloc(1, sizeof(*made));
    const rocksdb_options_t *options[FAMILIES];
    char *text = NULL;
    if (!made)
        return -ENOMEM;
    if (kind == STORE_DISK && check_room(folder, error) != 0) {
        free(made);
        return -EIO;
    }

    atomic_store(&made->uses, 1);
    made->options = rocksdb_options_create();
    made->read_options = rocksdb_readoptions_create();
    made->scan_options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_fill_cache(made->scan_options, 0);
    made->write_options = rocksdb_writeoptions_create();
    made->sync_options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(made->sync_options, kind != STORE_MEMORY);
    set_options(made);
    if (kind == STORE_MEMORY) {
        made->env = rocksdb_create_mem_env();
        rocksdb_options_set_env(made->options, made->env);
        rocksdb_writeoptions_disable_WAL(made->write_options, 1);
        rocksdb_writeoptions_disable_WAL(made->sync_options, 1);
    }
    for (int i = 0; i < FAMILIES; i++)
        options[i] = made->options;
    made->db =
        kind == STORE_READ_ONLY
            ? rocksdb_open_for_read_only_column_families(
                  made->options, folder, FAMILIES, names, options, made->family,
                  0, &text)
            : rocksdb_open_column_families(made->options, folder, FAMILIES,
                                           names, options, made->family, &text);
    int err = take_error(text, error);
    if (err != 0) {
        close_store(made);
        return is_damage(error) ? -EBADMSG : err;
    }
    *store = made;
    return 0;
}

void store_ref(struct store *store)
{
    atomic_fetch_add(&store->uses, 1);
}

bool store_unref(struct store *store)
{
    if (atomic_fetch_sub(&store->uses, 1) != 1)
        return false;
    close_store(store);
    return true;
}

bool store_is_last(struct store *store)
{
    return atomic_load(&store->uses) == 1;
}

void store_destroy(const char *folder)
{
    rocksdb_options_t *options = rocksdb_options_create();
    char *error = NULL;

    rocksdb_destroy_db(options, folder, &error);
    rocksdb_free(error);
    rocksdb_options_destroy(options);
}

uint64_t store_bytes(struct store *store)
{
    static const char *const properties[] = {"rocksdb.total-sst-files-size",
                                             "rocksdb.cur-size-all-mem-tables"};
    uint64_t sum = 0;

    for (int i = 0; i < FAMILIES; i++)
        for (int k = 0; k < 2; k++) {
            uint64_t bytes;
            if (rocksdb_property_int_cf(store->db, store->family[i],
                                        properties[k], &bytes) == 0)
                sum += bytes;
        }
    return sum;
}

/* ---- reading ---- */

int store_get(struct store *store, enum store_family family, const void *key,
              size_t key_bytes, struct store_value *value,
              char error[STORE_ERROR_BYTES])
{
    char *text = NULL;
    rocksdb_pinnableslice_t *slice =
        rocksdb_get_pinned_cf(store->db, store->read_options,
                              family_of(store, family), key, key_bytes, &text);

    if (text)
        return take_error(text, error);
    if (!slice)
        return -ENOENT;
    value->slice = slice;
    value->bytes = rocksdb_pinnableslice_value(slice, &value->length);
    return 0;
}

void store_value_free(struct store_value *value)
{
    rocksdb_pinnableslice_destroy(value->slice);
}

struct store_iterator *store_iterate(struct store *store,
                                     enum store_family family, const void *from,
                                     size_t from_bytes, bool scan)
{
    rocksdb_iterator_t *iterator = rocksdb_create_iterator_cf(
        store->db, scan ? store->scan_options : store->read_options,
        family_of(store, family));

    rocksdb_iter_seek(iterator, from, from_bytes);
    return (struct store_iterator *)iterator;
}

static rocksdb_iterator_t *rocks(struct store_iterator *iterator)
{
    return (rocksdb_iterator_t *)iterator;
}

bool store_valid(struct store_iterator *iterator)
{
    return rocksdb_iter_valid(rocks(iterator));
}

void store_next(struct store_iterator *iterator)
{
    rocksdb_iter_next(rocks(iterator));
}

const char *store_key(struct store_iterator *iterator, size_t *bytes)
{
    return rocksdb_iter_key(rocks(iterator), bytes);
}

const char *store_item(struct store_iterator *iterator, size_t *bytes)
{
    return rocksdb_iter_value(rocks(iterator), bytes);
}

int store_end(struct store_iterator *iterator, char error[STORE_ERROR_BYTES])
{
    char *text = NULL;

    rocksdb_iter_get_error(rocks(iterator), &text);
    rocksdb_iter_destroy(rocks(iterator));
    return take_error(text, error);
}

/* ---- writing ---- */

enum op_kind { OP_PUT, OP_DROP, OP_DROP_RANGE };

/* Followed by the key and by the value, or the end of the range. */
struct op {
    uint32_t kind;
    uint32_t family;
    uint32_t key_bytes;
    uint32_t bytes;
};

static void add(struct store_ops *ops, const struct op *op, const void *key,
                const void *value)
{
    size_t length = sizeof(*op) + op->key_bytes + op->bytes;

    if (ops->used + length > ops->room) {
        size_t room = (ops->room + length) * 2;
        char *bytes = realloc(ops->bytes, room);
        if (!bytes) {
            ops->failed = true;
            return;
        }
        ops->bytes = bytes;
        ops->room = room;
    }
    char *at = ops->bytes + ops->used;
    memcpy(at, op, sizeof(*op));
    memcpy(at + sizeof(*op), key, op->key_bytes);
    if (op->bytes > 0)
        memcpy(at + sizeof(*op) + op->key_bytes, value, op->bytes);
    ops->used += length;
}

void store_put(struct store_ops *ops, enum store_family family, const void *key,
               size_t key_bytes, const void *value, size_t bytes)
{
    struct op op = {OP_PUT, family, (uint32_t)key_bytes, (uint32_t)bytes};

    add(ops, &op, key, value);
}

void store_drop(struct store_ops *ops, enum store_family family,
                const void *key, size_t key_bytes)
{
    struct op op = {OP_DROP, family, (uint32_t)key_bytes, 0};

    add(ops, &op, key, NULL);
}

void store_drop_range(struct store_ops *ops, enum store_family family,
                      const void *from, const void *to, size_t key_bytes)
{
    struct op op = {OP_DROP_RANGE, family, (uint32_t)key_bytes,
                    (uint32_t)key_bytes};

    add(ops, &op, from, to);
}

void store_ops_free(struct store_ops *ops)
{
    free(ops->bytes);
    *ops = (struct store_ops){0};
}

int store_write(struct store *store, const struct store_ops *ops,
                bool keep_dropped, char error[STORE_ERROR_BYTES])
{
    rocksdb_writebatch_t *batch;
    struct op op;
    char *text = NULL;
    if (ops->failed)
        return -ENOMEM;

    batch = rocksdb_writebatch_create();
    for (size_t at = 0; at < ops->used;
         at += sizeof(op) + op.key_bytes + op.bytes) {
        memcpy(&op, ops->bytes + at, sizeof(op));
        rocksdb_column_family_handle_t *family =
            family_of(store, (enum store_family)op.family);
        const char *key = ops->bytes + at + sizeof(op);
        const char *value = key + op.key_bytes;
        if (op.kind == OP_PUT || (op.kind == OP_DROP && keep_dropped))
            rocksdb_writebatch_put_cf(batch, family, key, op.key_bytes, value,
                                      op.bytes);
        else if (op.kind == OP_DROP)
            rocksdb_writebatch_delete_cf(batch, family, key, op.key_bytes);
        else
            rocksdb_writebatch_delete_range_cf(batch, family, key, op.key_bytes,
                                               value, op.bytes);
    }
    rocksdb_write(store->db,
                  ops->sync ? store->sync_options : store->write_options, batch,
                  &text);
    rocksdb_writebatch_destroy(batch);
    return take_error(text, error);
}
