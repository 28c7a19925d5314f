#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Pinned pages are charged to the daemon's memory cgroup, not to the job's: for
# a reader that reads, and for one that maps the files and holds them for a
# while.
. "$(dirname "$0")/lib.sh"
require
tool make_many
"$REPLY" "$S" 600 40000 180000 100
bytes=$(tree_bytes "$S")
cgroup_new daemon
daemon=$REPLY
cgroup_new reader
reader=$REPLY

cat >"$T/reader.py" <<'PYTHON'
import mmap, os, sys
how, top = sys.argv[1:3]
maps = []
for folder, _, names in os.walk(top):
    for name in names:
        with open(os.path.join(folder, name), "rb") as f:
            if how == "read":
                f.read()
            else:
                m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
                sum(m[i] for i in range(0, len(m), 4096))
                maps.append(m)
print("done", flush=True)
if how == "map":
    sys.stdin.readline()
PYTHON

pinned() { cgroup_stat "$1" unevictable; }

# The daemon's group has the pinned bytes; what its processes lock of their own
# memory was there before.
judge() {
    local ours theirs
    ours=$(($(pinned "$daemon") - own))
    theirs=$(pinned "$reader")
    say "$1: charged to the daemon $ours, to the reader $theirs, of $bytes"
    assert_ge $ours $((bytes * 95 / 100)) "charged to the daemon"
    assert_le "$theirs" $((bytes * 2 / 100)) "charged to the reader"
}

all_cached() { [ "$(js tiers.dram.item_bytes)" = "$bytes" ]; }

MOUNT_CGROUP=$daemon
start_mount --dram 256M
own=$(pinned "$daemon")
in_cgroup "$reader" python3 "$T/reader.py" read "$M"
wait_for 30 all_cached
judge "by read"
stop_mount

C=$T/cache2
mkdir "$C"
start_mount --dram 256M
own=$(pinned "$daemon")
mkfifo "$T/go"
in_cgroup "$reader" python3 "$T/reader.py" map "$M" <"$T/go" >"$T/reader.out" &
job=$!
exec 9>"$T/go"
wait_for 60 "grep -q done '$T/reader.out'"
sleep 2
theirs=$(pinned "$reader")
assert_le "$theirs" $((bytes * 2 / 100)) "charged to a reader that maps"
say "while mapped: $(js items.cached) of 600 items are cached"
echo >&9
exec 9>&-
wait $job
# What was in use is tried again, at the latest after a minute.
wait_for 150 all_cached
judge "by map"
stop_mount
