#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is on NVMe is there after an unmount, after a kill of everything, and in
# a copy of the cache folder that was taken at random moments of writing; what
# was pinned is pinned again. Budgets shrink and grow, two datasets share a
# cache directory, damage is found, never shown.
. "$(dirname "$0")/lib.sh"
require
tool make_many
"$REPLY" "$S" 1200 20000 120000 200
head -c 9000001 /dev/urandom >"$S/large"
dataset=$(tree_bytes "$S")
half=$((dataset / 2))
rest=$((dataset * 60 / 100)) # what DRAM of half the size has no room for

same() { diff -r "$S" "$M" || fail "$1"; }
on_nvme() { js tiers.nvme.item_bytes; }
source_bytes() { js source.read_bytes; }
segments() { echo "$C"/*/segments/*; }

say "umount and mount"
start_mount --dram "$half" --nvme "$rest"
coordlfs warm "$M" >/dev/null
nvme=$(on_nvme) dram=$(js tiers.dram.item_bytes)
assert_eq $((nvme + dram)) "$dataset" "cached bytes"
stop_mount
start_mount --dram "$half" --nvme "$rest"
assert_eq "$(on_nvme)" "$nvme" "bytes on NVMe after a remount"
same "after a remount"
settle
assert_eq "$(source_bytes)" $((dataset - nvme)) "source bytes of the first epoch"
dram=$(js tiers.dram.item_bytes)
stop_mount

say "without a reader: what was pinned comes back by itself"
start_mount --dram "$half" --nvme "$rest"
wait_for 10 '[ "$(js tiers.dram.item_bytes)" -ge '"$dram ]"
settle
assert_eq "$(source_bytes)" "$dram" "source bytes of taking again"
same "taken again"
assert_eq "$(source_bytes)" "$dram" "source bytes after that"

say "everything killed"
read -r -a pids <<<"$(our_pids)"
kill -9 "${pids[@]}"
wait_for 5 '[ -z "$(our_pids)" ]'
start_mount --dram "$half" --nvme "$rest"
assert_eq "$(on_nvme)" "$nvme" "bytes on NVMe after a kill"
same "after a kill"
settle
assert_eq "$(source_bytes)" $((dataset - nvme)) "source bytes after a kill"
stop_mount

say "more memory: copies of what is on the disk, nothing twice"
start_mount --dram $((2 * dataset)) --nvme "$rest"
wait_for 30 '[ "$(js tiers.dram.item_bytes)" = '"$dataset ]"
assert_eq "$(js items.cached)" "$(js items.known)" "cached items"
assert_le "$(source_bytes)" $((dataset - nvme)) "source bytes"
drop_caches
before=$(js served.nvme.reads)
same "copies"
assert_eq "$(js served.nvme.reads)" "$before" "reads of the disk"
stop_mount

say "a smaller budget, a larger one, none"
start_mount --dram 0 --nvme $((half / 2))
assert_le "$(js tiers.nvme.disk_bytes)" $((half / 2)) "disk bytes"
assert_ge "$(on_nvme)" $((half / 4)) "bytes kept"
kept=$(on_nvme)
same "smaller"
assert_eq "$(js integrity.corrupt_items)" 0 "corrupt items"
stop_mount
start_mount --dram 0 --nvme "$((dataset * 2))"
assert_ge "$(on_nvme)" "$kept" "bytes kept"
same "larger"
settle
assert_eq "$(on_nvme)" "$dataset" "bytes on NVMe"
drop_caches
before=$(source_bytes)
same "all of it"
assert_eq "$(source_bytes)" "$before" "source bytes, all cached"
stop_mount

say "damage"
python3 - "$SEED" $(segments) <<'PYTHON'
import os, random, sys
random.seed(int(sys.argv[1]))
for path in random.sample(sys.argv[2:], 3):
    with open(path, "r+b") as f:
        for _ in range(20):
            f.seek(random.randrange(os.path.getsize(path) // 2))
            f.write(os.urandom(64))
PYTHON
start_mount --dram 0 --nvme "$((dataset * 2))"
same "damaged"
assert_ge "$(js integrity.corrupt_items)" 3 "damaged items found"
settle
assert_eq "$(on_nvme)" "$dataset" "bytes on NVMe after the damage"
drop_caches
before=$(js integrity.corrupt_items)
same "mended"
assert_eq "$(js integrity.corrupt_items)" "$before" "damaged items left"
stop_mount
rm "$(segments | cut -d' ' -f1)"
start_mount --dram 0 --nvme "$((dataset * 2))"
same "a segment lost"
assert_eq "$(js integrity.corrupt_items)" 0 "corrupt items"
stop_mount

say "items of another length"
for bytes in 1M 64M 2M 4M; do
    start_mount --dram "$half" --nvme "$dataset" --item-bytes "$bytes"
    same "--item-bytes $bytes"
    settle
    drop_caches
    same "--item-bytes $bytes, cached"
    assert_eq "$(js integrity.corrupt_items)" 0 "corrupt items"
    assert_eq "$(js items.cached)" "$(js items.known)" "cached items"
    nvme=$(on_nvme)
    stop_mount
done
start_mount --dram 0 --nvme "$((dataset * 2))"
assert_ge "$(on_nvme)" "$nvme" "bytes on NVMe, items as before"
same "--item-bytes as before"
stop_mount

say "none: the disk is given back"
start_mount --dram 0 --nvme 0
same "none"
assert_eq "$(js tiers.nvme.disk_bytes)" 0 "disk bytes"
[ ! -e "$C"/*/segments/00000000 ] || fail "segments are left"
stop_mount

say "copies of the cache folder, taken while it is written"
start_mount --dram 0 --nvme "$((dataset * 2))" --source-bandwidth 40M
coordlfs warm "$M" >/dev/null &
warm=$!
for i in 1 2 3; do
    rnd 400
    sleep 0.$((REPLY + 300))
    mkdir "$T/copy$i"
    cp -a "$C"/* "$T/copy$i/" 2>/dev/null || true
done
wait $warm
stop_mount
own=$C
for i in 1 2 3; do
    C=$T/copy$i
    start_mount --dram 0 --nvme "$((dataset * 2))"
    say "copy $i: $(on_nvme) bytes"
    same "copy $i"
    same "copy $i again"
    stop_mount
    rm -r "$C"
done
C=$own

say "two datasets in one cache directory, one dataset in two"
mkdir "$T/src2" "$T/mnt2" "$T/mnt3" "$T/cache2"
cp -r "$S/large" "$T/src2/"
start_mount --dram 0 --nvme "$half"
coordlfs mount "$T/src2" "$T/mnt2" --cache-dir "$C" --dram 0 --nvme 20M
coordlfs mount "$S" "$T/mnt3" --cache-dir "$T/cache2" --dram 0 --nvme 20M
mkdir "$T/mnt4"
assert_exit 4 "mounted at $M" "$PROGRAM" mount "$S" "$T/mnt4" --cache-dir "$C"
same "beside others"
diff -r "$T/src2" "$T/mnt2" || fail "the second dataset"
diff -r "$S" "$T/mnt3" || fail "the same dataset, another cache"
coordlfs umount "$T/mnt2"
coordlfs umount "$T/mnt3"
stop_mount
