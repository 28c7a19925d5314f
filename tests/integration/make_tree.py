#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a tree of everything that a file system can get wrong.

    make_tree.py FOLDER [ENTRIES [SPARSE_BYTES]]

ENTRIES (default 100,000) in one directory; a sparse file of SPARSE_BYTES
(default 5 GiB). Needs root, for owners and device nodes. Paths are bytes.
"""
import os
import random
import socket
import stat
import sys

KIB, MIB = 1 << 10, 1 << 20
EDGES = (4 * KIB, 128 * KIB, MIB, 4 * MIB)


def write(path, data, mode=0o644):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(fd, "wb") as f:
        f.write(data)


def sizes(top, rng):
    os.mkdir(top)
    wanted = {0, 1, 2, 511, 513, 5 * MIB, 9 * MIB + 1}
    for edge in EDGES:
        wanted.update((edge - 1, edge, edge + 1))
    for size in sorted(wanted):
        write(top + b"/%d" % size, rng.randbytes(size))


def sparse(path, size, rng):
    with open(path, "wb") as f:
        for offset in (0, 4 * MIB - 100, size // 2 + 777, size - 1000):
            f.seek(offset)
            f.write(rng.randbytes(1000))
        f.truncate(size)
    with open(path + b"-all-hole", "wb") as f:
        f.truncate(3 * MIB + 5)


def links(top):
    os.mkdir(top)
    write(top + b"/target", b"the target\n")
    os.symlink(b"target", top + b"/relative")
    os.symlink(b"../sizes/1", top + b"/upwards")
    os.symlink(b"/etc/passwd", top + b"/absolute")
    os.symlink(b"nothing/here", top + b"/dangling")
    os.symlink(b"loop", top + b"/loop")
    os.symlink(b"..", top + b"/folder")
    os.symlink(b"x" * 4095, top + b"/longest")
    os.symlink(b"y" * 255 + b"/" + b"\xff\xfe", top + b"/bytes")
    os.mkdir(top + b"/hard")
    os.link(top + b"/target", top + b"/hard/second")
    os.link(top + b"/target", top + b"/hard/third")
    os.link(top + b"/relative", top + b"/hard/symlink",
            follow_symlinks=False)


def special(top):
    """FIFO, socket and device nodes: files that must not be opened."""
    os.mkdir(top)
    os.mkfifo(top + b"/fifo", 0o640)
    here = os.getcwd()
    os.chdir(top)
    socket.socket(socket.AF_UNIX).bind("socket")
    os.chdir(here)
    os.mknod(top + b"/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(top + b"/block", stat.S_IFBLK | 0o600, os.makedev(259, 300))


def names(top):
    os.mkdir(top)
    for name in (b"n" * 255, b"\xc3\xa9" * 127, b"caf\xe9", b"\xff\xfe\x80",
                 b"two\nlines", b" blank ", b"a\\040b", b"-", b"--help",
                 b"50%s", b"it's", b"...", b"*", b"\x01\x7f", b"a,b", b"\\",
                 b"%", b"%2F", b",", b"\n", b" ", b"\t", b'"', b"$(id)`;|&",
                 b"#", b"a=b:c", b"~"):
        write(top + b"/" + name, b"content of " + name)
    for name in (b"in a, folder\n50%s\\", b"--", b"~"):
        os.makedirs(top + b"/folders/" + name)
        write(top + b"/folders/" + name + b"/" + name, b"inside " + name)
    os.mkdir(top + b"/" + b"\xe9" * 255)
    write(top + b"/" + b"\xe9" * 255 + b"/" + b"z" * 255, b"deep name")


def modes(top):
    os.mkdir(top)
    for mode in (0o000, 0o400, 0o444, 0o600, 0o755, 0o777, 0o4755, 0o2755):
        path = top + b"/file-%04o" % mode
        write(path, b"mode")
        os.chown(path, mode, mode + 1)
        os.chmod(path, mode)
    for mode in (0o000, 0o500, 0o600, 0o604, 0o700, 0o711, 0o1777, 0o2775):
        path = top + b"/folder-%04o" % mode
        os.mkdir(path)
        write(path + b"/file", b"inside")
        os.chown(path, 0 if mode & 0o707 in (0o600, 0o604) else 65534, 1000)
        os.chmod(path, mode)
    write(top + b"/huge-owner", b"id")
    os.chown(top + b"/huge-owner", 4000000000, 3999999999)
    times = {b"old": -123456789, b"ancient": 1, b"future": 4102444800}
    for name, seconds in times.items():
        write(top + b"/" + name, name)
        os.utime(top + b"/" + name,
                 ns=(0, seconds * 10**9 + 123456789))


def depth(top, levels, rng):
    path = top
    for level in range(levels):
        path += b"/d%d" % level if level else b""
        os.mkdir(path)
    write(path + b"/bottom", rng.randbytes(10000))


def entries(top, count):
    os.mkdir(top)
    for i in range(count):
        fd = os.open(top + b"/entry-%06d" % i, os.O_WRONLY | os.O_CREAT, 0o644)
        if i % 1000 == 0:
            os.write(fd, b"%d" % i)
        os.close(fd)


def main():
    top = os.fsencode(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    hole = int(sys.argv[3]) if len(sys.argv) > 3 else 5 << 30
    rng = random.Random(5)
    os.umask(0o022)
    sizes(top + b"/sizes", rng)
    sparse(top + b"/sparse", hole, rng)
    links(top + b"/links")
    special(top + b"/special")
    names(top + b"/names")
    modes(top + b"/modes")
    os.mkdir(top + b"/empty-folder")
    depth(top + b"/depth", 200, rng)
    entries(top + b"/entries", count)


main()
