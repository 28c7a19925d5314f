#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes source files under a mount and judges what readers get.

    change_check.py SOURCE MOUNT uncached|cached SEED SLOW

Every version of a file has bytes of its own: a word repeated over its length.
A reader opens anew, reads all and stats: an error, or all bytes of one
version with that version's size. Where the mount caches nothing, the new
version must be there within 5 s; a cached file may keep the old one.
"""
import errno
import os
import random
import sys
import time

SIZES = (1000, 4096, 300000, 6 << 20)
CHANGES = ("rewrite", "grow", "shrink", "replace", "empty")
STATES = ("unknown", "known", "read", "half")
ALLOWED = (errno.ESTALE, errno.EIO)


def content(version, size):
    word = b"<version %06d>\n" % version
    return (word * (size // len(word) + 1))[:size]


def change(path, how, size):
    """Brings the next version, number 2, to path; returns its bytes."""
    new = {"rewrite": size, "grow": size * 2 + 10, "shrink": size // 3,
           "replace": size, "empty": 0}[how]
    data = content(2, new)
    if how == "replace":
        with open(path + ".tmp", "wb") as f:
            f.write(data)
        os.rename(path + ".tmp", path)
        return data
    fd = os.open(path, os.O_WRONLY | (0 if how == "grow" else os.O_TRUNC))
    with os.fdopen(fd, "wb") as f:
        f.write(data)
    return data


def read_whole(path, direct):
    """What a fresh reader gets: bytes, or None after an allowed error, or
    while the attributes changed under it."""
    flags = os.O_RDONLY
    try:
        fd = os.open(path, flags)
        try:
            before = os.fstat(fd)
            if direct:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            parts = []
            while chunk := os.read(fd, 1 << 17):
                parts.append(chunk)
            after = os.fstat(fd)
        finally:
            os.close(fd)
    except OSError as e:
        if e.errno not in ALLOWED:
            sys.exit(f"{path}: {e}, expected ESTALE or EIO")
        return None
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns,
                                                after.st_size):
        return None
    got = b"".join(parts)
    if len(got) != after.st_size:
        sys.exit(f"{path}: {len(got)} bytes, stat says {after.st_size}")
    return got


def prepare(path, state):
    if state == "known":
        os.stat(path)
    elif state == "read":
        with open(path, "rb") as f:
            f.read()
    elif state == "half":
        with open(path, "rb", 0) as f:
            f.read(os.path.getsize(path) // 2)


def watch(path, old, new, truncated, must_come, slow):
    begin = time.monotonic()
    seen = {"error": 0, "old": 0, "new": 0}
    while time.monotonic() - begin < (5 * slow if must_come else 0.5):
        # Drop cached pages, so that the daemon is asked.
        got = read_whole(path, must_come)
        if got is None:
            seen["error"] += 1
        elif got == new:
            seen["new"] += 1
            return seen
        elif got == old:
            seen["old"] += 1
        elif got == b"" and truncated:
            # A version that the source had for a moment.
            seen["between"] = seen.get("between", 0) + 1
        else:
            place = next((i for i, (a, b) in enumerate(zip(got, new))
                          if a != b), min(len(got), len(new)))
            sys.exit(f"{path}: a mix: {len(got)} bytes, from {place} on "
                     f"{got[place:place + 32]!r}")
        time.sleep(0.02)
    if must_come:
        sys.exit(f"{path}: not the new bytes within 5 s, but {seen}")
    return seen


def main():
    source, mount, mode = sys.argv[1:4]
    rng = random.Random(int(sys.argv[4]))
    slow = int(sys.argv[5])
    cases = [(s, size, how) for s in STATES for size in SIZES
             for how in CHANGES]
    rng.shuffle(cases)
    for state, size, how in cases:
        name = f"{mode}-{state}-{size}-{how}"
        with open(f"{source}/{name}", "wb") as f:
            f.write(content(1, size))
    os.listdir(mount)
    total = {"error": 0, "old": 0, "new": 0}
    for state, size, how in cases:
        name = f"{mode}-{state}-{size}-{how}"
        path = f"{mount}/{name}"
        prepare(path, state)
        if mode == "cached" and state != "unknown":
            time.sleep(0.05)    # so that some are pinned by now
        new = change(f"{source}/{name}", how, size)
        for what, count in watch(path, content(1, size), new, how in ("rewrite", "shrink"),
                                 mode == "uncached", slow).items():
            total[what] = total.get(what, 0) + count
    print(f"    {mode}: {len(cases)} changes, readers got {total}")


main()
