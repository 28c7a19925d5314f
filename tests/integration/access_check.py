#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads one file in every way and compares with another that it should equal;
or tries every kind of write.

    access_check.py read EXPECTED_FILE FILE SEED
    access_check.py write FOLDER      (with file, folder, link in it)
"""
import errno
import mmap
import os
import random
import socket
import sys
import threading

ITEM = 4 << 20
PAGE = 4096


def check(same, what):
    if not same:
        sys.exit(f"{what}: not what the source gives")


def by_map(fd, want):
    for what, access in (("shared map", mmap.ACCESS_READ),
                         ("private map", mmap.ACCESS_COPY)):
        with mmap.mmap(fd, 0, access=access) as view:
            check(view[:] == want, what)
            if access == mmap.ACCESS_COPY:
                view[5:10] = b"local"
                check(view[:5] + view[10:] == want[:5] + want[10:], what)
    check(os.pread(fd, 100, 0) == want[:100], "read after a private change")


def by_sendfile(fd, want):
    ours, theirs = socket.socketpair()
    received = []

    def receive():
        while chunk := theirs.recv(1 << 18):
            received.append(chunk)

    reader = threading.Thread(target=receive)
    reader.start()
    offset = 0
    while n := os.sendfile(ours.fileno(), fd, offset, 1 << 20):
        offset += n
    ours.close()
    reader.join()
    check(b"".join(received) == want, "sendfile")


def by_direct(path, want, rng):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    room = mmap.mmap(-1, 6 << 20)   # page-aligned
    offset = 0
    while n := os.preadv(fd, [memoryview(room)[:1 << 20]], offset):
        check(room[:n] == want[offset:offset + n], "O_DIRECT")
        offset += n
    check(offset == len(want), "O_DIRECT to the end")
    for _ in range(20):
        begin = rng.randrange(len(want)) // PAGE * PAGE
        length = rng.randrange(1, len(room) // PAGE) * PAGE
        n = os.preadv(fd, [memoryview(room)[:length]], begin)
        check(n > 0 and room[:n] == want[begin:begin + n], "O_DIRECT inside")
    os.close(fd)


def by_pread(fd, want, rng):
    size = len(want)
    places = [(rng.randrange(size), rng.randrange(1, 300000))
              for _ in range(200)]
    for border in range(ITEM, size, ITEM):
        places += [(border - k, 2 * k + 1) for k in (1, 7, 4095, 4097, 600000)]
    places += [(size - 1, 10), (size, 10), (size + 12345, 10)]
    for offset, length in places:
        check(os.pread(fd, length, offset) == want[offset:offset + length],
              f"pread of {length} at {offset}")
    check(b"".join(iter(lambda: os.read(fd, 12345), b"")) == want, "read")


def read(expected, path, seed):
    rng = random.Random(seed)
    with open(expected, "rb") as f:
        want = f.read()
    for order in (by_direct, by_pread, by_map, by_sendfile, by_direct):
        if order is by_direct:
            order(path, want, rng)
            continue
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if order is by_pread:
            order(fd, want, rng)
        else:
            order(fd, want)
        os.close(fd)


def write(top):
    file, folder, link = (f"{top}/{n}" for n in ("file", "folder", "link"))
    new = f"{top}/new"
    kinds = {
        "open for writing": lambda: os.open(file, os.O_WRONLY),
        "open for both": lambda: os.open(file, os.O_RDWR),
        "open to append": lambda: os.open(file, os.O_WRONLY | os.O_APPEND),
        "open to truncate": lambda: os.open(file, os.O_WRONLY | os.O_TRUNC),
        "create": lambda: os.open(new, os.O_CREAT | os.O_WRONLY, 0o600),
        "create to read": lambda: os.open(new, os.O_CREAT | os.O_RDONLY),
        "unlink": lambda: os.unlink(file),
        "unlink a link": lambda: os.unlink(link),
        "mkdir": lambda: os.mkdir(new),
        "rmdir": lambda: os.rmdir(folder),
        "rename": lambda: os.rename(file, new),
        "rename a folder": lambda: os.rename(folder, new),
        "chmod": lambda: os.chmod(file, 0o777),
        "chown": lambda: os.chown(file, 1, 1),
        "chown a link": lambda: os.lchown(link, 1, 1),
        "truncate": lambda: os.truncate(file, 0),
        "setxattr": lambda: os.setxattr(file, "user.x", b"1"),
        "removexattr": lambda: os.removexattr(file, "user.x"),
        "link": lambda: os.link(file, new),
        "symlink": lambda: os.symlink("file", new),
        "mknod": lambda: os.mknod(new, 0o100600),
        "mkfifo": lambda: os.mkfifo(new),
        "utime": lambda: os.utime(file, (1, 1)),
        "utime of a folder": lambda: os.utime(folder),
    }
    for what, call in kinds.items():
        try:
            call()
        except OSError as e:
            if e.errno != errno.EROFS:
                sys.exit(f"{what}: {e}, expected EROFS")
        else:
            sys.exit(f"{what} succeeded")
    print(f"    {len(kinds)} kinds of writes are refused")


if sys.argv[1] == "read":
    read(sys.argv[2], sys.argv[3], int(sys.argv[4]))
else:
    write(sys.argv[2])
