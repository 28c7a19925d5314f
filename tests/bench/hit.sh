#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: hit.sh [WORK]
# Random whole-file reads of 10,000 files that are all in DRAM: what a hit
# costs beside a warm native directory, beside tmpfs with pages of 4 KiB (which is
# how the kernel keeps the pages of every FUSE file; ext4 and xfs use larger
# ones), and beside bindfs: as it comes, and told to keep what it can (threads,
# pages, names and attributes).
. "$(dirname "$0")/bench_lib.sh"

FILES=${FILES:-10000}
# Passes over the files in one run: some tenths of a second at least.
PASSES=${PASSES:-5}

start_bench "$@"
need bindfs bindfs
make_files "$FILES" 1000
# Four page caches hold the files: of the source and of each mount.
need_memory $((data_bytes * 5))

systems=(native tmpfs coordlfs bindfs bindfs-keep)
declare -A at=([native]=$data [tmpfs]=$scratch/tmpfs/data [coordlfs]=$scratch/coordlfs
    [bindfs]=$scratch/bindfs [bindfs-keep]=$scratch/bindfs-keep)
make_mountpoint "$scratch/tmpfs"
mount -t tmpfs -o "size=$((data_bytes * 5 / 4)),huge=never" coordlfs-bench \
    "$scratch/tmpfs"
cp -r "$data" "${at[tmpfs]}"
mount_coordlfs "${at[coordlfs]}" "$data" --dram $((data_bytes * 5 / 4))
"$COORDLFS" warm "${at[coordlfs]}" > /dev/null
wait_cached "${at[coordlfs]}" "$FILES"
mount_bindfs "${at[bindfs]}" "$data" -o ro
mount_bindfs "${at[bindfs-keep]}" "$data" --multithreaded \
    -o ro,kernel_cache,attr_timeout=86400,entry_timeout=86400

read_all() { # SYSTEM THREADS SEED PASSES
    "$tools/readbench" files -t "$2" -s "$3" -r "$4" -l "$list" "${at[$1]}"
}

for system in "${systems[@]}"; do
    lines+=("$(read_all "$system" 2 0 1)")
done
same "${lines[@]}"
reads_before=$(daemon_reads "${at[coordlfs]}")

for ((round = 1; round <= PAIRS; round++)); do
    for threads in 1 2; do
        lines=()
        for system in $(rotate "$round" "${systems[@]}"); do
            line=$(read_all "$system" "$threads" "$round" "$PASSES")
            lines+=("$line")
            sample "$system.$threads" "$(field "$line" files_per_s)"
        done
        same "${lines[@]}"
    done
done
reads_after=$(daemon_reads "${at[coordlfs]}")

heading "Hit: open, fstat, read, close of $FILES files," \
    "$(megabytes "$data_bytes") MB, in random order; medians of $PAIRS rounds"
row='%-8s %-12s %10s %8s %8s  %s\n'
# shellcheck disable=SC2059
{
    printf "$row" threads system files/s GB/s native target
    for threads in 1 2; do
        for system in "${systems[@]}"; do
            speed=$(median "$system.$threads")
            share=$(ratio "$system.$threads" "native.$threads")
            target=
            [ "$system" != coordlfs ] || target=$(verdict "$share" min 0.90)
            printf "$row" $threads "$system" "$(calc "$speed" 0)" \
                "$(calc "$speed * $data_bytes / $FILES / 1e9" 2)" \
                "$(calc "$share" 2)" "$target"
        done
    done
}
echo "READ requests that reached the daemon meanwhile:" \
    "$((reads_after - reads_before)) (target 0)"
unmount_coordlfs "${at[coordlfs]}"
