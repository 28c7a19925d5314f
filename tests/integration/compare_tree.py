#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a tree with the one that it should equal.

    compare_tree.py [--save FILE] [--same FILE] [--no-bytes] EXPECTED TREE

Type, mode, owner, nlink, size, blocks, rdev, mtime and ctime in nanoseconds,
targets of symbolic links, names (each exactly once), bytes; and in TREE the
inode number of stat equals that of readdir. --save writes the inode numbers of
TREE to FILE, --same compares them with such a FILE. A file over 64 MiB is
compared where it has data, and in samples of its holes. Paths are bytes.
"""
import argparse
import os
import random
import stat
import sys

FIELDS = ("st_mode", "st_uid", "st_gid", "st_nlink", "st_size", "st_blocks",
          "st_rdev", "st_mtime_ns", "st_ctime_ns")
CHUNK = 1 << 20
WHOLE = 64 << 20


class Comparison:
    def __init__(self, expected, tree, with_bytes):
        self.expected, self.tree = expected, tree
        self.with_bytes = with_bytes
        self.inodes = {}
        self.differences = 0
        self.rng = random.Random(1)

    def differ(self, path, what):
        self.differences += 1
        if self.differences <= 30:
            print(f"{path!r}: {what}", file=sys.stderr)

    def run(self):
        self.attributes(b".")
        pending = [b"."]
        while pending:
            folder = pending.pop()
            for name in self.names(folder):
                path = name if folder == b"." else folder + b"/" + name
                if self.attributes(path):
                    pending.append(path)

    def names(self, folder):
        """The names that both have; complains about the others."""
        want = os.listdir(os.path.join(self.expected, folder))
        seen = {}
        try:
            with os.scandir(os.path.join(self.tree, folder)) as found:
                for entry in found:
                    if entry.name in seen:
                        self.differ(folder, f"twice: {entry.name!r}")
                    seen[entry.name] = entry.inode()
        except OSError as e:
            self.differ(folder, f"cannot be listed: {e}")
        for name in sorted(set(want) ^ seen.keys()):
            self.differ(folder, f"{'more' if name in seen else 'less'}: "
                                f"{name!r}")
        both = sorted(set(want) & seen.keys())
        prefix = b"" if folder == b"." else folder + b"/"
        self.inodes.update((prefix + name, seen[name]) for name in both)
        return both

    def attributes(self, path):
        """Compares one object; true for a directory."""
        want = os.lstat(os.path.join(self.expected, path))
        try:
            got = os.lstat(os.path.join(self.tree, path))
        except OSError as e:
            self.differ(path, f"stat: {e}")
            return False
        for field in FIELDS:
            a, b = getattr(want, field), getattr(got, field)
            if a != b:
                self.differ(path, f"{field}: {b}, expected {a}")
        listed = self.inodes.setdefault(path, got.st_ino)
        if listed != got.st_ino:
            self.differ(path, f"inode {got.st_ino} in stat, {listed} in "
                              f"readdir")
        if stat.S_ISLNK(want.st_mode) and stat.S_ISLNK(got.st_mode):
            a, b = (os.readlink(os.path.join(top, path))
                    for top in (self.expected, self.tree))
            if a != b:
                self.differ(path, f"link to {b!r}, expected {a!r}")
        if stat.S_ISREG(want.st_mode) and self.with_bytes:
            try:
                self.content(path, want.st_size)
            except OSError as e:
                self.differ(path, f"read: {e}")
        return stat.S_ISDIR(want.st_mode) and stat.S_ISDIR(got.st_mode)

    def content(self, path, size):
        with open(os.path.join(self.expected, path), "rb", 0) as a, \
                open(os.path.join(self.tree, path), "rb", 0) as b:
            if size <= WHOLE:
                parts = [(0, size)]
            else:
                parts = self.parts(a.fileno(), size)
            for begin, end in parts:
                for offset in range(begin, end, CHUNK):
                    length = min(CHUNK, end - offset)
                    want = os.pread(a.fileno(), length, offset)
                    if os.pread(b.fileno(), length, offset) != want:
                        self.differ(path, f"bytes from {offset} on")
                        return
            if os.pread(b.fileno(), 1, size):
                self.differ(path, "bytes after the end")

    def parts(self, fd, size):
        """Where the file has data, with a margin, and 20 other places."""
        offset = 0
        while True:
            try:
                begin = os.lseek(fd, offset, os.SEEK_DATA)
            except OSError:
                break
            offset = os.lseek(fd, begin, os.SEEK_HOLE)
            yield max(0, begin - 5000), min(size, offset + 5000)
        for _ in range(20):
            begin = self.rng.randrange(size)
            yield begin, min(size, begin + CHUNK)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--save")
    parser.add_argument("--same")
    parser.add_argument("--no-bytes", action="store_true")
    parser.add_argument("expected", type=os.fsencode)
    parser.add_argument("tree", type=os.fsencode)
    options = parser.parse_args()
    comparison = Comparison(options.expected, options.tree,
                            not options.no_bytes)
    comparison.run()
    if options.save:
        with open(options.save, "wb") as f:
            for path, inode in comparison.inodes.items():
                f.write(b"%d %s\0" % (inode, path))
    if options.same:
        with open(options.same, "rb") as f:
            for record in f.read().split(b"\0")[:-1]:
                inode, _, path = record.partition(b" ")
                if comparison.inodes.get(path) != int(inode):
                    comparison.differ(path, "another inode number than before")
    count = len(comparison.inodes)
    if comparison.differences:
        sys.exit(f"{comparison.differences} differences in {count} objects")
    print(f"    {count} objects are equal")


main()
