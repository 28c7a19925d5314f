#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads every file of a mount once, in random order, and judges what that
read from the source.

    epoch.py PROGRAM MOUNT SOURCE SEED any|exact|atmost

exact: dataset - cache within 1 % plus one item, and no tenth of the epoch has
more than 1.5 times its share. atmost: not more than that.
"""
import json
import os
import random
import subprocess
import sys
import time

ITEM = 4 << 20


def status(program, mount):
    return json.loads(subprocess.run([program, "status", mount, "--json"],
                                     stdout=subprocess.PIPE,
                                     check=True).stdout)


def settled_source(program, mount):
    """Bytes read from the source, once they stand still."""
    seen = -1
    while True:
        now = status(program, mount)["source"]["read_bytes"]
        if now == seen:
            return now
        seen = now
        time.sleep(0.2)


def file_list(source):
    found = []
    for folder, _, names in os.walk(source):
        for name in names:
            path = os.path.join(folder, name)
            found.append((os.path.relpath(path, source),
                          os.path.getsize(path)))
    return sorted(found)


def main():
    program, mount, source, seed, rule = sys.argv[1:6]
    files = file_list(source)
    dataset = sum(size for _, size in files)
    one_item = min(ITEM, max(size for _, size in files))
    random.Random(seed).shuffle(files)
    tiers = status(program, mount)["tiers"]
    cached = sum(tier["item_bytes"] for tier in tiers.values())
    marks = [settled_source(program, mount)]
    begin = time.monotonic()
    for tenth in range(10):
        part = files[len(files) * tenth // 10:len(files) * (tenth + 1) // 10]
        for path, size in part:
            with open(os.path.join(mount, path), "rb", buffering=0) as f:
                got = 0
                while chunk := f.read(1 << 20):
                    got += len(chunk)
            if got != size:
                sys.exit(f"{path}: {got} of {size} bytes")
        marks.append(status(program, mount)["source"]["read_bytes"])
    seconds = time.monotonic() - begin
    marks[-1] = settled_source(program, mount)
    read = marks[-1] - marks[0]
    expected = dataset - cached
    print(f"    epoch {rule}: {seconds:.1f} s, source {read}, dataset - cache "
          f"{expected}, dataset {dataset}")
    slack = expected // 100 + one_item
    if rule != "any" and read > expected + slack:
        sys.exit("more than dataset - cache was read from the source")
    if rule != "exact":
        return
    if read < expected - slack:
        sys.exit("less than dataset - cache was read from the source")
    tenths = [b - a for a, b in zip(marks, marks[1:])]
    if read > dataset // 20 and max(tenths) > 1.5 * read / 10:
        sys.exit(f"the misses are not spread evenly: {tenths}")


main()
