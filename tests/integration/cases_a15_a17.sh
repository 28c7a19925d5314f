#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Directory entries that just do not fit into a reply, for names of every
# length, and paths longer than PATH_MAX, which are reached step by step.
# (A15, A17)
. "$(dirname "$0")/lib.sh"
require find ls

# ---- A15 ----

cat >"$T/entries.py" <<'PYTHON'
"""entries.py make FOLDER LENGTHS | compare FOLDER TREE BUFFER_BYTES...

A folder of 7, 61 and 400 names for each length; each listed with getdents64
and buffers of such sizes: the same names in both trees, nothing twice.
"""
import ctypes
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.getdents64.restype = ctypes.c_ssize_t
ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_+"


def make(top, lengths):
    for length in lengths:
        for count in (7, 61, 400):
            if length == 1 and count > len(ALPHABET):
                continue
            folder = b"%s/%03d-%d" % (top, length, count)
            os.mkdir(folder)
            for i in range(count):
                end = ALPHABET[i % 64:i % 64 + 1]
                if length > 1:
                    end += ALPHABET[i // 64:i // 64 + 1]
                name = b"n" * (length - len(end)) + end
                os.close(os.open(folder + b"/" + name, os.O_CREAT, 0o644))


def listing(folder, size):
    """Names, inode numbers and types."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    buffer = ctypes.create_string_buffer(size)
    found = []
    while True:
        n = libc.getdents64(fd, buffer, size)
        if n < 0:
            sys.exit(f"{folder!r}: {os.strerror(ctypes.get_errno())}")
        if n == 0:
            break
        data, at = buffer.raw[:n], 0
        while at < n:
            inode = int.from_bytes(data[at:at + 8], sys.byteorder)
            length = int.from_bytes(data[at + 16:at + 18], sys.byteorder)
            name = data[at + 19:at + length].split(b"\0", 1)[0]
            found.append((name, inode, data[at + 18]))
            at += length
    os.close(fd)
    return found


def compare(source, tree, sizes):
    failures = []
    for folder in sorted(os.listdir(source)):
        want = {(n, t) for n, _, t in listing(source + b"/" + folder, 1 << 20)}
        for size in sizes:
            found = listing(tree + b"/" + folder, size)
            names = {(n, t) for n, _, t in found}
            if names != want or len(found) != len(names):
                failures.append(f"{folder}, {size}: {len(found)} entries, "
                                f"{len(names)} names, expected {len(want)}")
    if failures:
        sys.exit("\n".join(failures[:20]))


mode, top, *rest = map(os.fsencode, sys.argv[1:])
if mode == b"make":
    make(top, map(int, rest))
else:
    compare(top, rest[0], list(map(int, rest[1:])))
PYTHON

# 24 bytes and the name, to a multiple of 8, make an entry, and 128 more one
# with attributes.
lengths=(1 7 8 9 40 63 64 129 250 254 255)
[ "$LONG" = 0 ] || mapfile -t lengths < <(seq 255)
mkdir "$S/entries"
python3 "$T/entries.py" make "$S/entries" "${lengths[@]}"
listed() { python3 "$T/entries.py" compare "$S/entries" "$M/entries" "$@"; }
by_find() { (cd "$1/entries" && find . -printf '%p %y %s %m %n %T@\n' | sort); }
by_ls() { (cd "$1/entries" && ls -lAR --time-style=+%s.%N); }

for index in cold warm; do
    # Each first in a mount whose kernel knows nothing yet.
    for first in "listed 512 1048576" "listed 1048576 512 4096 4040" by_ls by_find; do
        # With a warm index the way of the first question matters less.
        [[ $LONG$index$first != 0warml* ]] || continue
        say "entries, $index index: $first"
        [ $index = warm ] || C=$(mktemp -d "$T/cache.XXX")
        start_mount --dram 8M --nvme 0
        if [[ $first = by_* ]]; then
            cmp <($first "$S") <($first "$M") || fail "$first"
        else
            $first
        fi
        listed 512 32768 1048576
        if [ "$first" = by_find ]; then
            for again in by_ls by_find; do
                cmp <($again "$S") <($again "$M") || fail "$again, once more"
            done
        fi
        stop_mount
    done
done
# A directory's position can be taken up again.
start_mount --dram 8M --nvme 0
python3 - "$M/entries/040-400" <<'PYTHON'
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
libc.opendir.argtypes, libc.readdir.argtypes = [ctypes.c_char_p], [ctypes.c_void_p]
libc.telldir.restype, libc.telldir.argtypes = ctypes.c_long, [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
folder = libc.opendir(os.fsencode(sys.argv[1]))
def name():
    entry = libc.readdir(folder)
    return entry and ctypes.string_at(entry + 19)
places = []
while True:
    place, entry = libc.telldir(folder), name()
    if not entry:
        break
    places.append((place, entry))
assert len(places) == 402, len(places)
for place, entry in places[::-7] + places[::13]:
    libc.seekdir(folder, place)
    assert name() == entry
PYTHON
stop_mount
rm -rf "$S/entries"

# ---- A17 ----

C=$T/cache-deep
mkdir "$C"
cat >"$T/deep.py" <<'PYTHON'
"""deep.py make TOP | compare SOURCE TREE | remove TOP: 40 folders with names of
200 bytes in one another, with files at levels 10, 20, 30 and 40."""
import os, sys

def steps(top):
    os.chdir(top)
    for level in range(1, 41):
        yield level, (b"%02d" % level) + b"\xe9" * 197 + b"d"

def walk(top):
    found = []
    for level, name in steps(top):
        os.chdir(name)
        st = os.stat(b".")
        entries = sorted(os.listdir(b"."))
        found.append((level, entries, st.st_mode, st.st_mtime_ns, st.st_nlink))
        for entry in entries:
            s = os.lstat(entry)
            found.append((entry, s.st_mode, s.st_size, s.st_mtime_ns))
            if entry == b"link":
                found.append(os.readlink(entry))
                entry = b"file"
            if entry == b"file":
                with open(entry, "rb") as f:
                    found.append(f.read())
    return found

mode, top = sys.argv[1:3]
if mode == "make":
    for level, name in steps(top):
        os.mkdir(name)
        os.chdir(name)
        if level % 10 == 0:
            with open(b"file", "wb") as f:
                f.write(os.urandom(level * 5000))
            os.symlink(b"file", b"link")
elif mode == "compare":
    want, got = walk(top), walk(sys.argv[3])
    assert want == got, "the trees differ"
else:
    depth = 0
    for level, name in steps(top):
        os.chdir(name)
        depth += 1
    for level in range(depth, 0, -1):
        for entry in os.listdir(b"."):
            os.rmdir(entry) if entry[:2].isdigit() else os.unlink(entry)
        os.chdir(b"..")
PYTHON
python3 "$T/deep.py" make "$S"
on_exit "python3 '$T/deep.py' remove '$S'; rm -rf '$S'/*"
public=$M
for place in "$public" "$S"; do
    M=$place
    # In place the source is seen through another mount of it.
    if [ "$M" = "$S" ]; then
        mkdir "$T/plain"
        mount --bind "$S" "$T/plain"
        on_exit "umount -l '$T/plain'"
    fi
    compare() {
        python3 "$T/deep.py" compare "$([ "$M" = "$S" ] && echo "$T/plain" || echo "$S")" \
            "$M" || fail "the deep tree, $1"
    }
    start_mount --dram 64M --nvme 64M
    say "a path longer than PATH_MAX, at $M"
    compare "read"
    coordlfs warm "$M" >/dev/null
    assert_eq "$(js items.cached)" 4 "items cached"
    drop_caches
    before=$(js source.read_bytes)
    compare "from the cache"
    assert_eq "$(js source.read_bytes)" "$before" "bytes read from the source"
    pid=$(js daemon.pid)
    for command in verify refresh list "warm --check" "info"; do
        # shellcheck disable=SC2086
        assert_exit 0 "" "$PROGRAM" $command "$M"
    done
    coordlfs list --json "$M" | python3 -c 'import json, sys
paths = [json.loads(line)["path"] for line in sys.stdin]
assert max(map(len, paths)) > 8000, paths' || fail "list"
    assert_eq "$(js daemon.pid)" "$pid" "process of the worker"
    kill -9 "$pid"
    compare "after a kill"
    # Who stands there is named, though there is no path to tell by.
    python3 -c 'import os, sys, time
os.chdir(sys.argv[1])
for level in range(40):
    os.chdir([n for n in os.listdir(b".") if n[:2].isdigit()][0])
time.sleep(1000)' "$M" &
    holder=$!
    on_exit "kill $holder"
    wait_for 10 "[ \"\$(readlink /proc/$holder/cwd || echo long)\" = long ]"
    assert_exit 4 "process $holder .*working directory" "$PROGRAM" umount "$M"
    kill $holder
    wait $holder 2>/dev/null || true
    stop_mount
    start_mount --dram 64M --nvme 64M
    compare "mounted again"
    stop_mount
done
