#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Steady epochs read exactly "dataset - cache" from the source, evenly spread,
# when the page cache is dropped before each; and at most that in a memory
# cgroup smaller than the dataset, without dropping.
. "$(dirname "$0")/lib.sh"
require
tool make_many
files=2500
[ "$SLOW" = 1 ] || files=1500
[ "$LONG" = 0 ] || files=20000
"$REPLY" "$S" "$files" 40000 180000 500
dataset=$(tree_bytes "$S")

epoch() { python3 "$HERE/epoch.py" "$PROGRAM" "$M" "$S" "$@"; }

# Epochs until one admits nothing more, at most four.
fill() {
    local seen=-1 now round
    for round in 1 2 3 4; do
        epoch $((SEED + round)) any
        settle
        now=$(js items.cached)
        [ "$now" != "$seen" ] || return 0
        seen=$now
    done
}

# steady SHARE DRAM NVME: percent of the dataset, and the tiers' bytes.
steady() {
    local share=$1 dram=$2 nvme=$3 round
    say "cache of $share %: $((dram >> 20)) MiB DRAM, $((nvme >> 20)) MiB NVMe"
    C=$T/cache-$share-$dram
    mkdir "$C"
    start_mount --dram "$dram" --nvme "$nvme"
    fill
    for round in 1 2; do
        drop_caches
        epoch $((SEED + 10 + round)) exact
    done
    # What was reserved is used: a pin costs whole pages and some kernel memory,
    # an item on NVMe whole blocks, and the ends of segments stay empty.
    [ "$share" = 100 ] || assert_ge "$(js tiers.dram.used_bytes)" \
        $((dram * 97 / 100)) "used bytes of $dram"
    [ "$share" = 100 ] || assert_ge "$(js tiers.nvme.used_bytes)" \
        $((nvme * 97 / 100)) "used bytes of $nvme"
    [ "$share" != 100 ] ||
        assert_eq $(($(js tiers.dram.item_bytes) + $(js tiers.nvme.item_bytes))) \
            "$dataset" "cached bytes"
    assert_eq "$(js pins_lost)" 0 "lost pins"
    stop_mount
}

part() { echo $((dataset * $1 / 100)); }
steady 35 "$(part 35)" 0
steady 35 0 "$(part 35)"
steady 65 "$(part 30)" "$(part 35)"
steady 100 0 "$(part 115)"
steady 100 "$(part 50)" "$(part 65)"
if [ "$LONG" = 1 ]; then
    steady 65 0 "$(part 65)"
    steady 65 "$(part 65)" 0
    steady 100 "$(part 120)" 0
fi

if [ "$SLOW" != 1 ]; then
    say "the part in a cgroup is left out: sanitizers take its memory"
    exit 0
fi
# Room for the cache, the daemon's own 168 MiB and the reader, not for the
# dataset.
for share in $([ "$LONG" = 0 ] && echo 20 || echo 35 65); do
    limit=$((dataset * share / 100 + (200 << 20)))
    assert_le "$limit" "$((dataset - 1))" "the limit, in bytes"
    say "cache of $share % in a cgroup of $((limit >> 20)) MiB"
    cgroup_new "epochs$share" "$limit"
    MOUNT_CGROUP=$REPLY
    C=$T/cache-group-$share
    mkdir "$C"
    start_mount --dram $((dataset * share / 100))
    for round in 1 2 3 4; do
        rule=atmost
        [ $round -gt 2 ] || rule=any
        in_cgroup "$MOUNT_CGROUP" python3 "$HERE/epoch.py" "$PROGRAM" "$M" \
            "$S" $((SEED + 20 + round)) $rule
        settle
    done
    assert_eq "$(js daemon.restarts)" 0 "restarts (killed for memory?)"
    stop_mount
done
