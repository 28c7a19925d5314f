#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes a tree under a mount, and judges what a reader of the mount sees.

    consistency.py make TREE SEED      the tree before
    consistency.py use MOUNT           reads until SIGTERM; fails at a mixture
    consistency.py change TREE SEED    the tree after
    consistency.py compare TREE MOUNT  stat, listing and bytes are equal

Each file's bytes follow from its name and a generation, which stands in each
block of 16 bytes: so a mixture, a hole or a foreign block is seen at once.
"""
import errno
import mmap
import os
import random
import shutil
import signal
import struct
import sys
import threading

SIZES = {"small": 3000, "page": 4096, "middle": 150_000, "large": 5_500_000}
KINDS = ["rewritten", "grown", "shrunk", "replaced", "removed", "touched"]
USES = ["unread", "read", "mapped", "half", "busy"]


def content(name, generation, size, at=0):
    stamp = struct.pack("<QII", hash_name(name), generation, 0x434f4f52)
    return (stamp * (size // 16 + 2))[at % 16:at % 16 + size]


def hash_name(name):
    value = 1469598103934665603
    for byte in os.path.basename(name).encode():
        value = (value ^ byte) * 1099511628211 % (1 << 64)
    return value


def generation_of(name, data, at=0):
    """The generation that all of the bytes are of, or None."""
    if not data:
        return 0
    for generation in (1, 2):
        if data == content(name, generation, len(data), at):
            return generation
    return None


def runs_of(name, data, at):
    """How many blocks of each generation in turn, for the report: [(1, 255),
    (0, 1)], where 0 is neither."""
    data = data[-at % 16:]
    whole = {g: content(name, g, len(data)) for g in (1, 2)}
    runs = []
    for block in range(0, len(data), 16):
        of = next((g for g in whole if data[block:block + 16] ==
                   whole[g][block:block + 16]), 0)
        if runs and runs[-1][0] == of:
            runs[-1][1] += 1
        else:
            runs.append([of, 1])
    return [tuple(run) for run in runs]


def write(path, generation, size):
    with open(path, "wb") as f:
        f.write(content(path, generation, size))


def files():
    for use in USES:
        for kind in KINDS:
            for size, count in SIZES.items():
                if size == "large" and use in ("unread", "mapped"):
                    continue
                yield use, kind, f"{kind}.{size}", count


def make(tree):
    for use, _, name, size in files():
        os.makedirs(os.path.join(tree, use), exist_ok=True)
        write(os.path.join(tree, use, name), 1, size)
    for folder in ("old/deep", "gone", "steady"):
        os.makedirs(os.path.join(tree, folder))
        write(os.path.join(tree, folder, "f"), 1, 5000)
    write(os.path.join(tree, "becomes_folder"), 1, 5000)
    os.mkdir(os.path.join(tree, "becomes_file"))
    os.symlink("steady/f", os.path.join(tree, "link"))
    os.link(os.path.join(tree, "steady/f"), os.path.join(tree, "hard"))


def change_file(path, kind, size):
    if kind == "rewritten":
        with open(path, "r+b") as f:
            f.write(content(path, 2, size))
    elif kind == "grown":
        write(path, 2, size * 2 + 5)
    elif kind == "shrunk":
        write(path, 2, size // 3)
    elif kind == "replaced":
        write(path + ".new", 2, size)
        with open(path + ".new", "r+b") as f:
            f.write(content(path, 2, size))
        os.rename(path + ".new", path)
    elif kind == "removed":
        os.unlink(path)
    else:
        os.utime(path)


def change(tree):
    work = list(files())
    random.Random(int(sys.argv[3])).shuffle(work)
    for use, kind, name, size in work:
        change_file(os.path.join(tree, use, name), kind, size)
    os.rename(os.path.join(tree, "old"), os.path.join(tree, "new"))
    shutil.rmtree(os.path.join(tree, "gone"))
    for name in ("created", "steady/created", "new/deep/created"):
        write(os.path.join(tree, name), 2, 7000)
    os.unlink(os.path.join(tree, "becomes_folder"))
    os.mkdir(os.path.join(tree, "becomes_folder"))
    write(os.path.join(tree, "becomes_folder/f"), 2, 100)
    os.rmdir(os.path.join(tree, "becomes_file"))
    write(os.path.join(tree, "becomes_file"), 2, 100)
    os.unlink(os.path.join(tree, "link"))
    os.symlink("created", os.path.join(tree, "link"))


# ---- the reader ----

ENDED = (errno.ENOENT, errno.ESTALE, errno.EIO, errno.ENOTDIR)


class Reader:
    def __init__(self, mount):
        self.mount = mount
        self.wrong = []
        self.stop = threading.Event()
        self.kept = []

    def judge(self, path, data, whole, at=0):
        generation = generation_of(path, data, at)
        if generation is None:
            self.wrong.append(f"{path}: a mixture of {runs_of(path, data, at)} "
                              f"in {len(data)} bytes at {at}")
        elif whole and generation == 1:
            name, size = os.path.basename(path).split(".")
            if len(data) != SIZES[size]:
                self.wrong.append(f"{path}: {len(data)} bytes of version 1")

    def read_all(self, path):
        at = 0
        try:
            with open(path, "rb", buffering=0) as f:
                while chunk := f.read(70_000):
                    self.judge_pages(path, chunk, at)
                    at += len(chunk)
        except OSError as error:
            if error.errno not in ENDED:
                self.wrong.append(f"{path}: {error}")

    def judge_pages(self, path, chunk, at):
        """A read() is one step for each page of the file, not for more; and
        what two of them had of one page may differ."""
        end = at + len(chunk)
        start = at
        while start < end:
            stop = min(start // 4096 * 4096 + 4096, end)
            self.judge(path, chunk[start - at:stop - at], False, start)
            start = stop

    def hold(self):
        for use, _, name, size in files():
            path = os.path.join(self.mount, use, name)
            if use == "read":
                self.read_all(path)
            elif use == "mapped":
                f = open(path, "rb")
                m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
                self.judge(path, m[:], True)
                self.kept.append((f, m))
            elif use == "half":
                f = open(path, "rb", buffering=0)
                f.read(size // 2 // 16 * 16)
                self.kept.append(f)
        for name in ("created", "steady/created", "new"):
            try:
                os.stat(os.path.join(self.mount, name))
            except FileNotFoundError:
                pass
        for folder, _, _ in os.walk(self.mount):
            os.listdir(folder)

    def run(self):
        work = [os.path.join(self.mount, use, name)
                for use, _, name, _ in files() if use == "busy"]
        while not self.stop.is_set():
            for path in work:
                self.read_all(path)


def use(mount):
    reader = Reader(mount)
    reader.hold()
    signal.signal(signal.SIGTERM, lambda *_: reader.stop.set())
    threads = [threading.Thread(target=reader.run) for _ in range(2)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    while not reader.stop.wait(0.2):
        pass
    for thread in threads:
        thread.join()
    if reader.wrong:
        sys.exit("\n".join(reader.wrong[:20]))


# ---- comparing ----

def attributes(path):
    st = os.lstat(path)
    return st.st_mode, st.st_size, st.st_mtime_ns, st.st_nlink


def snapshot(tree):
    found = {}
    for folder, folders, names in os.walk(tree):
        for name in folders + names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, tree)] = attributes(path)
    return found


def compare(tree, mount):
    want, have = snapshot(tree), snapshot(mount)
    for path in sorted(set(want) | set(have)):
        source, there = os.path.join(tree, path), os.path.join(mount, path)
        # The kernel takes new attributes over one by one, and stat() does not
        # wait for it: it may have had the new time with the old size.
        if path in want and path in have and want[path] != have[path]:
            have[path] = attributes(there)
        if want.get(path) != have.get(path):
            sys.exit(f"{path}: the source has {want.get(path)}, "
                     f"the mount {have.get(path)}")
        if os.path.islink(source):
            if os.readlink(source) != os.readlink(there):
                sys.exit(f"{path}: another target")
        elif os.path.isfile(source):
            with open(source, "rb") as a, open(there, "rb") as b:
                if a.read() != b.read():
                    sys.exit(f"{path}: other bytes")


COMMANDS = {"make": make, "use": use, "change": change, "compare": compare}
COMMANDS[sys.argv[1]](*sys.argv[2:{"compare": 4}.get(sys.argv[1], 3)])
