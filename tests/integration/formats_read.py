#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what formats_make.py wrote with the libraries that a training script
reads it with, and prints a checksum of all decoded values for each format.

    formats_read.py [--midway COMMAND] FOLDER...

--midway: the command is run once in the middle of each format, when the file is
open and a part of it was read.
"""
import hashlib
import os
import sqlite3
import struct

import crc32c
import h5py
import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import webdataset
import zarr
from tfrecord.reader import tfrecord_loader
from torch.utils.data import DataLoader

import formats_sum
from formats_torch import read_loader, read_saved


def read_sqlite(folder, total, midway):
    # A log (WAL) cannot be read without a file of shared memory beside it.
    for name, option in (("delete.db", "mode=ro"), ("wal.db", "immutable=1")):
        base = sqlite3.connect(f"file:{folder}/{name}?{option}", uri=True)
        rows = base.execute("SELECT * FROM samples ORDER BY label, id")
        total.add(rows.fetchmany(400))
        midway()
        total.add(rows.fetchall())
        total.add(base.execute("PRAGMA integrity_check").fetchall())
        total.add(base.execute("SELECT label, count(*), sum(length(data))"
                               " FROM samples GROUP BY label").fetchall())
        base.close()


def read_lmdb(folder, total, midway):
    for lock in (True, False):
        with lmdb.open(folder + "/lmdb", readonly=True, lock=lock) as env:
            with env.begin(buffers=True) as txn:
                for number, (key, value) in enumerate(txn.cursor()):
                    total.add(key, value)
                    if number == 400:
                        midway()
                for i in np.random.default_rng(1).integers(0, 1000, 300):
                    total.add(txn.get(b"%06d" % i))


def read_hdf5(folder, total, midway):
    with h5py.File(folder + "/data.h5", "r") as f:
        total.add(f["chunked"][10:50, ::3, 5:60])
        midway()
        total.add(f["chunked"][:], f["contiguous"][:], f["text"][:],
                  f["contiguous"].attrs["labels"])
        total.add(f["contiguous"][sorted({1, 500, 999}), 7:9])


def read_numpy(folder, total, midway):
    features = np.load(folder + "/features.npy", mmap_mode="r")
    raw = np.memmap(folder + "/raw.bin", np.uint16, "r", shape=(50, 200, 200))
    total.add(features[::-7, 3:50])
    midway()
    total.add(raw[::3], raw, features)
    total.add(features[np.random.default_rng(2).permutation(3000)[:500]])
    with np.load(folder + "/labels.npz") as labels:
        total.add(labels["a"], labels["b"])


def read_webdataset(folder, total, midway):
    shards = folder + "/shard-{000000..000002}.tar"
    data = webdataset.WebDataset(shards, shardshuffle=False)
    data = data.decode("rgb8")
    for number, sample in enumerate(data):
        if number == 80:
            midway()
        del sample["__url__"]
        total.add(sample)
    # Each worker has shards of its own; the order among them is by chance.
    loader = webdataset.WebDataset(shards, shardshuffle=False)
    loader = DataLoader(loader, batch_size=None, num_workers=2)
    total.add(sorted((s["__key__"], hashlib.sha1(s["bin"]).digest())
                     for s in loader))


def read_tfrecord(folder, total, midway):
    path = folder + "/train.tfrecord"
    kinds = {"image": "byte", "label": "int", "box": "float"}
    for number, sample in enumerate(tfrecord_loader(path, None, kinds)):
        if number == 100:
            midway()
        total.add(sample)

    # That reader takes the checksums as they are.
    def check(file, length):
        data, (want,) = file.read(length), struct.unpack("<I", file.read(4))
        have = crc32c.crc32c(data)
        have = ((have >> 15 | have << 17) + 0xa282ead8) & 0xffffffff
        assert have == want, "a TFRecord's checksum is wrong"
        return data

    with open(path, "rb") as file:
        while file.tell() < os.path.getsize(path):
            (length,) = struct.unpack("<Q", check(file, 8))
            total.add(check(file, length))


def read_parquet(folder, total, midway):
    path = folder + "/table.parquet"
    file = pq.ParquetFile(path, memory_map=True)
    total.add(file.read_row_group(2).to_pydict())
    midway()
    table = file.read()
    table.validate(full=True)
    total.add(table.to_pydict())
    found = pyarrow.dataset.dataset(path).to_table(
        columns=["id", "bytes"], filter=pyarrow.dataset.field("score") > 0.5)
    total.add(found.to_pydict())


def read_arrow(folder, total, midway):
    with pa.memory_map(folder + "/table.arrow") as source:
        reader = pa.ipc.open_file(source)
        total.add(reader.get_batch(3).to_pydict())
        midway()
        table = reader.read_all()
        table.validate(full=True)
        total.add(table.to_pydict())


def read_zarr(folder, total, midway):
    for store in (zarr.DirectoryStore(folder + "/zarr"),
                  zarr.ZipStore(folder + "/zarr.zip", mode="r")):
        group = zarr.open_group(store, "r")
        total.add(group["volume"][20:60, 5:70, ::2])
        midway()
        total.add(group["volume"][:], group["noise"][:])
        total.add(group.tree().__str__())


if __name__ == "__main__":
    formats_sum.run((read_sqlite, read_lmdb, read_hdf5, read_numpy,
                     read_webdataset, read_tfrecord, read_parquet, read_arrow,
                     read_zarr,
                     read_saved, read_loader), __doc__)
