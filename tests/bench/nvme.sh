#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: nvme.sh [WORK]
# What an item costs that lies in the NVMe tier, with an empty page cache:
# - random whole-file reads of 10,000 files, beside a FUSE server that answers
#   with zeros and reads nothing, and beside O_DIRECT reads of the same files;
# - a file of 1 GiB from start to end in reads of 1 MiB, beside O_DIRECT reads
#   of it with 4 in flight.
# Dataset and cache directory lie on one disk, which both sides read.
. "$(dirname "$0")/bench_lib.sh"

FILES=${FILES:-10000}
SIZE=${SIZE:-$((1 << 30))}

start_bench "$@"
make_files "$FILES" 1000
mkdir -p "$work/large"
"$tools/mkfiles" one "$work/large/large.bin" "$SIZE" > /dev/null

drop_pages() {
    sync
    echo 1 > /proc/sys/vm/drop_caches
}

# ---- whole files ----

declare -A at=([direct]=$data [memory]=$scratch/memory [nvme]=$scratch/nvme)
mount_coordlfs "${at[nvme]}" "$data" --dram 0 --nvme $((data_bytes * 5 / 4))
"$COORDLFS" warm "${at[nvme]}" > /dev/null
wait_cached "${at[nvme]}" "$FILES"
mount_passthrough "${at[memory]}" "$data" --memory

read_all() { # SYSTEM THREADS SEED
    local direct=()
    [ "$1" != direct ] || direct=(-d)
    "$tools/readbench" files "${direct[@]}" -t "$2" -s "$3" -l "$list" \
        "${at[$1]}"
}

same "$(read_all direct 4 1)" "$(read_all nvme 4 1)"
read_all memory 4 1 > /dev/null
source_before=$(status_field "${at[nvme]}" source.read_bytes)
for ((round = 1; round <= PAIRS; round++)); do
    for threads in 1 4; do
        for system in $(rotate "$round" direct memory nvme); do
            drop_pages
            line=$(read_all "$system" "$threads" "$round")
            sample "$system.$threads" "$(field "$line" files_per_s)"
        done
    done
done
source_after=$(status_field "${at[nvme]}" source.read_bytes)

heading "NVMe hit: open, fstat, read, close of $FILES files," \
    "$(megabytes "$data_bytes") MB, in random order; medians of $PAIRS rounds"
row='%-8s %-34s %9s %9s  %s\n'
us() { calc "1e6 / $(median "$1.$2")" 1; }
# shellcheck disable=SC2059
{
    printf "$row" threads system files/s us/file ''
    for threads in 1 4; do
        for system in memory direct nvme; do
            declare -A name=([memory]='FUSE server that reads nothing'
                [direct]='O_DIRECT, native' [nvme]='coordlfs, NVMe tier')
            printf "$row" $threads "${name[$system]}" \
                "$(calc "$(median $system.$threads)" 0)" \
                "$(us $system $threads)" ''
        done
    done
    sum=$(calc "$(us memory 1) + $(us direct 1)" 1)
    share=$(calc "$(us nvme 1) / $sum" 2)
    echo "1 thread: time per file / (server + O_DIRECT, $sum us):" \
        "$share $(verdict "$share" max 1.15)"
    limit=$(printf '%s\n' "$(median memory.4)" "$(median direct.4)" |
        sort -g | head -1)
    share=$(calc "$(median nvme.4) / $limit" 2)
    echo "4 threads: files/s / the smaller of the two: $share" \
        "$(verdict "$share" min 0.80)"
}
echo "bytes that were read from the source meanwhile:" \
    "$((source_after - source_before)) (target 0)"
unmount_passthrough "${at[memory]}"
unmount_coordlfs "${at[nvme]}"

# ---- a large file ----

mount_coordlfs "$scratch/large" "$work/large" --dram 0 \
    --nvme $((SIZE * 5 / 4))
"$COORDLFS" warm "$scratch/large" > /dev/null
wait_cached "$scratch/large" $((SIZE >> 22))
for ((round = 1; round <= PAIRS; round++)); do
    for system in $(rotate "$round" direct nvme); do
        drop_pages
        if [ "$system" = direct ]; then
            line=$("$tools/readbench" seq -d -t 4 "$work/large/large.bin")
        else
            line=$("$tools/readbench" seq "$scratch/large/large.bin")
        fi
        sample "large.$system" "$(field "$line" bytes_per_s)"
    done
done
heading "Large file: $(megabytes "$SIZE") MB in the NVMe tier, from start to" \
    "end; medians of $PAIRS rounds"
share=$(ratio large.nvme large.direct)
printf '%-42s %6s GB/s\n' 'O_DIRECT, native, 4 reads of 1 MiB' \
    "$(calc "$(median large.direct) / 1e9" 2)" \
    'coordlfs, NVMe tier, reads of 1 MiB' \
    "$(calc "$(median large.nvme) / 1e9" 2)"
echo "share: $(calc "$share" 2) $(verdict "$share" min 0.75)"
unmount_coordlfs "$scratch/large"
