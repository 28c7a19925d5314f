#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a dataset in each format that formats_read.py reads, from a seed.

    formats_make.py FOLDER SEED
"""
import io
import json
import os
import sqlite3
import sys
import tarfile

import h5py
import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import zarr
from PIL import Image
from tfrecord import TFRecordWriter

FOLDER = sys.argv[1]
RNG = np.random.default_rng(int(sys.argv[2]))


def path(*parts):
    return os.path.join(FOLDER, *parts)


def jpeg(side):
    """A smooth picture with noise, as a photograph compresses."""
    small = RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    picture = np.asarray(Image.fromarray(small).resize((side, side)))
    noise = RNG.integers(0, 40, picture.shape)
    out = io.BytesIO()
    Image.fromarray(np.clip(picture + noise, 0, 255).astype(np.uint8)).save(
        out, "JPEG", quality=90)
    return out.getvalue()


def make_sqlite():
    for name, mode in (("delete.db", "DELETE"), ("wal.db", "WAL")):
        base = sqlite3.connect(path(name))
        base.execute(f"PRAGMA journal_mode={mode}")
        base.execute("CREATE TABLE samples"
                     " (id INTEGER PRIMARY KEY, label INTEGER, data BLOB)")
        base.execute("CREATE INDEX by_label ON samples (label)")
        base.executemany("INSERT INTO samples (label, data) VALUES (?, ?)",
                         ((int(RNG.integers(50)), RNG.bytes(int(size)))
                          for size in RNG.integers(100, 5000, 1000)))
        base.commit()
        base.close()


def make_lmdb():
    # The directory too would get the mode, which is that of the files.
    os.mkdir(path("lmdb"))
    with lmdb.open(path("lmdb"), map_size=64 << 20, mode=0o644) as env:
        with env.begin(write=True) as txn:
            for i in range(1000):
                txn.put(b"%06d" % i, RNG.bytes(int(RNG.integers(100, 6000))))


def make_hdf5():
    with h5py.File(path("data.h5"), "w") as f:
        f["contiguous"] = RNG.random((1000, 300))
        f.create_dataset("chunked", data=RNG.integers(0, 99, (200, 64, 64)),
                         chunks=(16, 32, 64), compression="gzip", shuffle=True)
        f.create_dataset("text", data=[f"name {i}" for i in range(500)],
                         dtype=h5py.string_dtype())
        f["contiguous"].attrs["labels"] = RNG.integers(0, 10, 1000)


def make_numpy():
    np.save(path("features.npy"), RNG.random((3000, 250), dtype=np.float32))
    RNG.integers(0, 1 << 16, (50, 200, 200), dtype=np.uint16).tofile(
        path("raw.bin"))
    np.savez(path("labels.npz"), a=RNG.integers(0, 9, 9999), b=RNG.random(77))


def make_webdataset():
    for shard in range(3):
        with tarfile.open(path(f"shard-{shard:06d}.tar"), "w") as tar:
            for i in range(60):
                for end, data in (
                        ("jpg", jpeg(96)),
                        ("cls", b"%d" % RNG.integers(1000)),
                        ("json", json.dumps({"shard": shard}).encode()),
                        ("bin", RNG.bytes(int(RNG.integers(1, 30000))))):
                    info = tarfile.TarInfo(f"{shard}/{i:04d}.{end}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


def make_tfrecord():
    writer = TFRecordWriter(path("train.tfrecord"))
    for i in range(300):
        writer.write({"image": (RNG.bytes(int(RNG.integers(1, 20000))), "byte"),
                      "label": (int(RNG.integers(1000)), "int"),
                      "box": ([float(x) for x in RNG.random(4)], "float")})
    writer.close()


def make_arrow():
    count = 6000
    table = pa.table({
        "id": np.arange(count),
        "score": RNG.random(count),
        "word": [f"w{i}" for i in RNG.integers(0, 500, count)],
        "token": [RNG.integers(0, 9, n) for n in RNG.integers(0, 30, count)],
        "bytes": [RNG.bytes(300) for _ in range(count)],
    })
    pq.write_table(table, path("table.parquet"), row_group_size=1000)
    with pa.OSFile(path("table.arrow"), "wb") as sink:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=900)


def make_zarr():
    data = RNG.integers(0, 200, (96, 128, 128), dtype=np.int32)
    with zarr.ZipStore(path("zarr.zip"), mode="w") as store:
        for where in (zarr.DirectoryStore(path("zarr")), store):
            group = zarr.group(where)
            group.create_dataset("volume", data=data, chunks=(24, 64, 64))
            group.create_dataset("noise", data=RNG.random(200000),
                                 chunks=(150000,), compressor=None)


def make_torch():
    for label in range(4):
        os.makedirs(path("images", f"class{label}"))
        for i in range(30):
            with open(path("images", f"class{label}", f"{i}.jpg"), "wb") as f:
                f.write(jpeg(128))
    torch.save({"weight": torch.from_numpy(RNG.random((900, 300))),
                "bias": torch.from_numpy(RNG.random(300, dtype=np.float32)),
                "step": 12}, path("model.pt"))


if __name__ == "__main__":
    for make in (make_sqlite, make_lmdb, make_hdf5, make_numpy,
                 make_webdataset, make_tfrecord, make_arrow, make_zarr,
                 make_torch):
        make()
