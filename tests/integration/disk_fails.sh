#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The disk of the cache directory is full, its folder is removed, or it is
# unmounted under the daemon: readers see all of the dataset as before, also new
# names and after the worker was killed, and the next mount works. A full disk
# that has room again is used again.
. "$(dirname "$0")/lib.sh"
require losetup mkfs.ext4
tool make_many
make_many=$REPLY
"$make_many" "$S/a" 400 3000 60000 100
"$make_many" "$S/b" 400 3000 60000 20
"$make_many" "$S/c" 300 3000 60000 20

kill_worker() {
    local before
    before=$(js daemon.pid)
    kill -9 "$before"
    wait_for 10 '[ "$(js daemon.pid)" != '"$before ]"
}
same() { diff -r "$S/$1" "$M/$1" || fail "$1: $2"; }
no_flood() {
    local lines
    lines=$(wc -l <"$T/log")
    assert_le "$lines" 49 "lines in the log"
    : >"$T/log"
}

truncate -s 48M "$T/disk"
loop=$(losetup --show -f "$T/disk") || skip "no loop device"
on_exit "losetup -d $loop"
mkfs.ext4 -q "$loop" || fail "mkfs"
C=$T/at-disk
mkdir "$C"
mount "$loop" "$C"
on_exit "umount -l '$C' 2>/dev/null"

say "a full disk"
start_mount --dram 30M --nvme 10M
same a "before"
cat /dev/zero >"$C/filler" 2>/dev/null || true
for i in 1 2 3 4 5; do head -c 4096 /dev/zero >"$C/filler$i" 2>/dev/null || true; done
same b "with a full disk"
same a "with a full disk"
"$make_many" "$S/new" 200 100 3000 10
wait_for 70 "ls '$M/new' >/dev/null 2>&1"
kill_worker
same c "after a kill"
same b "after a kill"
drop_caches
same a "after a kill"
wait_for 10 '[ "$(js state)" = degraded ]'
js degraded | grep -q "cache directory cannot be written" ||
    fail "degraded for another reason: $(js degraded)"
rm "$C"/filler*
wait_for 30 '[ "$(js state)" = ready ]'
same c "with room again"
stop_mount
no_flood
start_mount --dram 30M --nvme 10M
for folder in a b c new; do same $folder "the next mount"; done
stop_mount

say "the cache directory is removed"
start_mount --dram 30M --nvme 10M
same a "before"
rm -rf "${C:?}"/*
for folder in a b c; do same $folder "without a folder"; done
kill_worker
drop_caches
for folder in a b c new; do same $folder "without a folder, after a kill"; done
coordlfs umount "$M"
no_flood
start_mount --dram 30M --nvme 10M
for folder in a b c new; do same $folder "made anew"; done
stop_mount

say "the disk is unmounted under the daemon"
start_mount --dram 30M --nvme 10M
same a "before"
umount -l "$C"
for folder in a b c; do same $folder "unmounted"; done
wait_for 20 '[ "$(js tiers.nvme.limit_reason)" != null ]'
kill_worker
drop_caches
for folder in a b c new; do same $folder "unmounted, after a kill"; done
stop_mount
no_flood
