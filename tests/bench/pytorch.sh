#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: pytorch.sh [DATASET [WORK]]
# Images per second of an unmodified PyTorch loader (ImageFolder, DataLoader
# with 2 workers) on a mount whose files are all in DRAM, beside the warm native
# directory. DATASET: JPEGs in class folders; the quickstart makes the default.
. "$(dirname "$0")/bench_lib.sh"

data=${1:-/var/lib/coordlfs/sample}
start_bench "${2:-}"
"$python" -c 'import torch, torchvision' 2> /dev/null ||
    skip "needs python3-torch and python3-torchvision"
[ -d "$data" ] ||
    skip "no dataset at $data; give one, or run deploy/quickstart.sh"
data=$(realpath "$data")
case $(findmnt -no FSTYPE -T "$data") in
fuse.coordlfs) fail "$data is a coordlfs mount; unmount it first" ;;
esac

files=$(find "$data" -type f | wc -l)
data_bytes=$(find "$data" -type f -printf '%s\n' |
    awk '{ sum += $1 } END { printf "%.0f", sum }')
need_memory $((data_bytes * 3 + (2 << 30)))
mount=$scratch/coordlfs
mount_coordlfs "$mount" "$data" --dram $((data_bytes * 5 / 4 + (64 << 20)))
"$COORDLFS" warm "$mount" > /dev/null
wait_settled "$mount"
cached=$(status_field "$mount" items.cached)

declare -A at=([native]=$data [coordlfs]=$mount)
same "$("$tools/readbench" files -t 2 -l "$data" "$data")" \
    "$("$tools/readbench" files -t 2 -l "$data" "$mount")"
reads_before=$(daemon_reads "$mount")
for ((round = 1; round <= PAIRS; round++)); do
    lines=()
    for system in $(rotate "$round" native coordlfs); do
        line=$("$python" "$(dirname "$0")/epoch.py" --seed "$round" \
            "${at[$system]}")
        lines+=("$line")
        sample "$system" "$(field "$line" images_per_s)"
        sample "$system.walk" "$(field "$line" walk_s)"
    done
    same "${lines[@]}"
done
reads_after=$(daemon_reads "$mount")

heading "PyTorch: ImageFolder + DataLoader(num_workers=2), $files files," \
    "$(megabytes "$data_bytes") MB, $cached items in DRAM;" \
    "medians of $PAIRS rounds"
row='%-9s %10s %8s %8s  %s\n'
# shellcheck disable=SC2059
{
    printf "$row" system images/s native walk_s target
    for system in native coordlfs; do
        share=$(ratio $system native)
        target=
        [ $system != coordlfs ] || target=$(verdict "$share" min 0.97)
        printf "$row" $system "$(calc "$(median $system)" 1)" \
            "$(calc "$share" 2)" "$(calc "$(median $system.walk)" 3)" "$target"
    done
}
echo "READ requests that reached the daemon meanwhile:" \
    "$((reads_after - reads_before)) (target 0)"
unmount_coordlfs "$mount"
