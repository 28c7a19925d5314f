#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cache directories on awkward disks: a device of 4096-byte sectors (A19), file
# systems without fallocate, and devices smaller than a segment (A20).
. "$(dirname "$0")/lib.sh"
require losetup mkfs.ext4 mkfs.ext2
tool make_many
"$REPLY" "$S" 60 60000 160000 20
for size in 1 511 512 513 4095 4096 4097 131072 131073 4194304 4194305; do
    head -c "$size" /dev/urandom >"$S/of_$size"
done
dataset=$(tree_bytes "$S")

disks=0
# disk SIZE SECTOR MKFS...: a file system at $C, in a file.
disk() {
    local loop
    disks=$((disks + 1))
    truncate -s "$1" "$T/disk$disks"
    loop=$(losetup --sector-size "$2" --show -f "$T/disk$disks") ||
        skip "no loop device of $2-byte sectors"
    on_exit "losetup -d $loop"
    shift 2
    "$@" "$loop" >/dev/null 2>&1 || fail "$* failed"
    C=$T/at-disk$disks
    mkdir "$C"
    mount "$loop" "$C"
    on_exit "umount '$C'"
}

# Read twice, mounted anew, read again: the source is read once.
use() {
    local i before
    within 5000 "mount" start_mount --dram 0 "$@"
    diff -r "$S" "$M" || fail "first epoch"
    settle
    assert_eq "$(js tiers.nvme.item_bytes)" "$dataset" "bytes on NVMe"
    for i in 2 3; do
        before=$(js source.read_bytes)
        drop_caches
        diff -r "$S" "$M" || fail "epoch $i"
        assert_eq "$(js source.read_bytes)" "$before" "source bytes of epoch $i"
        [ $i = 3 ] || { stop_mount && start_mount --dram 0 "$@"; }
    done
    assert_eq "$(js integrity.corrupt_items)" 0 "corrupt items"
    stop_mount
    ! grep -i 'invalid argument' "$T/log" || fail "EINVAL in the log"
}

say "4096-byte sectors"
disk 600M 4096 mkfs.ext4 -q
use --nvme 200M

say "ext2: no fallocate"
disk 500M 512 mkfs.ext2 -q
use --nvme auto
use --nvme 200M
assert_le "$(du -sk "$C" | cut -f1)" $((dataset / 1024 * 2 + 8192)) \
    "KiB on the disk, no zeros"

say "a small device"
disk 64M 512 mkfs.ext4 -q
start_mount --dram 0 --nvme 40M
diff -r "$S" "$M" || fail "a small device"
settle
assert_ge "$(js tiers.nvme.item_bytes)" $((dataset * 9 / 10)) "bytes cached"
stop_mount
say "smaller than the budget lets it be: the reserve stays free"
rm -r "${C:?}"/*
start_mount --dram 0 --nvme 40M --free-space 80%
diff -r "$S" "$M" || fail "a full device"
settle
assert_ge "$(js tiers.nvme.item_bytes)" $((1 << 20)) "bytes cached"
assert_eq "$(js tiers.nvme.limit_reason)" \
    "the disk must keep --free-space free" "limit_reason"
size=$(df --output=size -B1 "$C" | tail -1)
assert_ge "$(df --output=avail -B1 "$C" | tail -1)" $((size * 3 / 4)) "left free"
stop_mount
assert_exit 1 "more than the whole disk" "$PROGRAM" mount "$S" "$M" \
    --cache-dir "$C" --nvme 100M
assert_exit 2 "next to nothing" "$PROGRAM" mount "$S" "$M" --cache-dir "$C" \
    --nvme 100K

say "tmpfs: no O_DIRECT on older kernels"
mkdir "$T/tmpfs"
mount -t tmpfs -o size=100M tmpfs "$T/tmpfs"
on_exit "umount '$T/tmpfs'"
C=$T/tmpfs/cache
use --nvme 60M
