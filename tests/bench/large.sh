#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: large.sh [WORK]
# A file of 1 GiB that is all in DRAM, beside the same file warm on the native
# file system and on tmpfs with pages of 4 KiB (which is how the kernel keeps the
# pages of every FUSE file): from start to end, and 4 KiB at random offsets.
. "$(dirname "$0")/bench_lib.sh"

SIZE=$((1 << 30))
PASSES=${PASSES:-4}
RANDOM_READS=${RANDOM_READS:-400000}

start_bench "$@"
need_memory $((SIZE * 4))
data=$work/large
mkdir -p "$data"
"$tools/mkfiles" one "$data/large.bin" $SIZE > /dev/null

declare -A at=([native]=$data/large.bin [tmpfs]=$scratch/tmpfs/large.bin
    [coordlfs]=$scratch/coordlfs/large.bin)
make_mountpoint "$scratch/tmpfs"
mount -t tmpfs -o "size=$((SIZE * 5 / 4)),huge=never" coordlfs-bench \
    "$scratch/tmpfs"
cp "$data/large.bin" "$scratch/tmpfs"
mount_coordlfs "$scratch/coordlfs" "$data" --dram $((SIZE * 5 / 4)) \
    --item-bytes 4M
"$COORDLFS" warm "$scratch/coordlfs" > /dev/null
wait_cached "$scratch/coordlfs" $((SIZE >> 22))

read_large() { # SYSTEM MODE SEED
    if [ "$2" = seq ]; then
        "$tools/readbench" seq -r "$PASSES" "${at[$1]}"
    else
        "$tools/readbench" rand -s "$3" -n "$RANDOM_READS" "${at[$1]}"
    fi
}

same "$(read_large native seq 1)" "$(read_large coordlfs seq 1)"
reads_before=$(daemon_reads "$scratch/coordlfs")
for ((round = 1; round <= PAIRS; round++)); do
    for mode in seq rand; do
        lines=()
        for system in $(rotate "$round" native tmpfs coordlfs); do
            line=$(read_large "$system" $mode "$round")
            lines+=("$line")
            sample "$system.$mode" "$(field "$line" bytes_per_s)"
        done
        same "${lines[@]}"
    done
done
reads_after=$(daemon_reads "$scratch/coordlfs")

heading "Large file: $(megabytes $SIZE) MB in DRAM, 1 thread;" \
    "medians of $PAIRS rounds"
row='%-18s %-9s %8s %8s  %s\n'
# shellcheck disable=SC2059
{
    printf "$row" access system GB/s native target
    for mode in seq rand; do
        access='sequential 1 MiB'
        [ $mode = seq ] || access='random 4 KiB'
        for system in native tmpfs coordlfs; do
            share=$(ratio $system.$mode native.$mode)
            target=
            [ $system != coordlfs ] || target=$(verdict "$share" min 0.90)
            printf "$row" "$access" $system \
                "$(calc "$(median $system.$mode) / 1e9" 2)" \
                "$(calc "$share" 2)" "$target"
        done
    done
}
echo "READ requests that reached the daemon meanwhile:" \
    "$((reads_after - reads_before)) (target 0)"
unmount_coordlfs "$scratch/coordlfs"
