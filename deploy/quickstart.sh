#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 to a table that shows what coordlfs does: installs the
# packages, builds and installs coordlfs, mounts a dataset in place with a
# cache of 65 % of it, and trains three epochs on it with deploy/train.py,
# which knows nothing of coordlfs. Run it as often as you like.
#
# usage: deploy/quickstart.sh [--under DIR] [DATASET]
#   DATASET      your own images, one folder per class; without it, a sample
#                of 2,100 photographs is made
#   --under DIR  keep program, sample and cache below DIR, not in /usr/local
#                and /var/lib/coordlfs
set -u

source_dir=$(cd "$(dirname "$0")/.." && pwd)
build_dir=$source_dir/build/quickstart
prefix=/usr/local
state_dir=/var/lib/coordlfs
dataset=
epochs=3
percent=65
# Kernel memory for a pinned file, which the budget of --dram counts too.
file_overhead=2048
mounted=

fail()
{
    echo "quickstart: $*" >&2
    exit 1
}

step()
{
    printf '\n== %s\n' "$*"
}

# Leaves nothing mounted and no cache behind, however the script ends.
clean_up()
{
    status=$?
    trap - EXIT
    if [ -n "$mounted" ]; then
        "$coordlfs" umount "$dataset" ||
            "$coordlfs" umount --force "$dataset"
    fi
    rm -rf "$cache_dir"
    exit $status
}

parse_arguments()
{
    while [ $# -gt 0 ]; do
        case $1 in
        --under)
            [ $# -gt 1 ] || fail "--under needs a folder"
            mkdir -p "$2" || exit 1
            state_dir=$(realpath "$2")
            prefix=$state_dir
            build_dir=$state_dir/build
            shift
            ;;
        -*)
            sed -n '/^# usage/,/^set/{/^#/s/^# \?//p}' "$0"
            [ "$1" = --help ] && exit 0
            exit 2
            ;;
        *)
            [ -z "$dataset" ] || fail "one DATASET at a time"
            dataset=$(realpath -e "$1") || exit 1
            ;;
        esac
        shift
    done
    coordlfs=$prefix/bin/coordlfs
    cache_dir=$state_dir/quickstart-cache
}

# need_space FOLDER MIB WHAT
need_space()
{
    local free
    free=$(($(df --output=avail -k "$1" | tail -n 1) / 1024))
    [ "$free" -ge "$2" ] ||
        fail "$3 needs $2 MiB in $1, where only $free MiB are free"
}

check_machine()
{
    [ "$(id -u)" = 0 ] ||
        fail "coordlfs mounts file systems and locks memory: run as root"
    [ -c /dev/fuse ] || modprobe fuse 2>/dev/null
    [ -c /dev/fuse ] ||
        fail "/dev/fuse is missing: load the module fuse, or give the" \
            "container the device (--device /dev/fuse --privileged)"
    mkdir -p "$state_dir" "$build_dir" || exit 1
    dpkg-query -W -f '${Status}' python3-torch 2>/dev/null |
        grep -q 'ok installed' || need_space /usr 2500 "the packages"
    need_space "$build_dir" 200 "the build"
    need_space /dev/shm 256 "PyTorch's DataLoader"
    [ -n "$dataset" ] || need_space "$state_dir" 500 "the sample dataset"
}

check_dataset()
{
    [ -d "$dataset" ] || fail "$dataset is not a folder"
    [ -n "$(find -L "$dataset" -mindepth 2 -type f \( -iname '*.jpg' -o \
        -iname '*.jpeg' -o -iname '*.png' \) -print -quit)" ] ||
        fail "$dataset has no pictures in class folders (CLASS/NAME.jpg)"
    case $(findmnt -rn -M "$dataset" -o FSTYPE) in
    *coordlfs*) fail "$dataset is already mounted: coordlfs umount $dataset" ;;
    esac
}

build()
{
    local log=$build_dir/build.log
    {
        cmake -S "$source_dir" -B "$build_dir" -DTESTS=OFF \
            -DCMAKE_INSTALL_PREFIX="$prefix" &&
            cmake --build "$build_dir" -j "$(nproc)" &&
            cmake --install "$build_dir"
    } >"$log" 2>&1 || {
        grep -m 5 -A 3 -E 'error: |CMake Error' "$log" >&2
        fail "the build failed; all of it is in $log"
    }
    echo "$("$coordlfs" version) is in $prefix/bin"
}

prepare_sample()
{
    local sample=$state_dir/sample
    # An earlier run may have been killed before it could unmount.
    case $(findmnt -rn -M "$sample" -o FSTYPE 2>/dev/null) in
    *coordlfs*) "$coordlfs" umount --force "$sample" ;;
    esac
    "$source_dir/deploy/sample_dataset.sh" "$sample" || exit 1
    dataset=$sample
}

# Sets files, dataset_bytes and dram_bytes: 65 % of the pages that the files
# take, or half of the free memory where that is less.
measure_dataset()
{
    local pages memory
    read -r files dataset_bytes pages < <(find "$dataset" -type f \
        -printf '%s\n' | awk '{ bytes += $1; pages += int(($1 + 4095) / 4096) }
            END { printf "%d %.0f %.0f\n", NR, bytes, pages }')
    dram_bytes=$(((pages * 4096 + files * file_overhead) * percent / 100))
    memory=$(awk '/^MemAvailable/ { printf "%.0f", $2 * 512 }' /proc/meminfo)
    if [ "$dram_bytes" -gt "$memory" ]; then
        dram_bytes=$memory
        echo "65 % of it are more than half of the free memory: less is cached"
    fi
    echo "$dataset: $files files, $(mb "$dataset_bytes") MB;" \
        "cache: $(mb "$dram_bytes") MB of memory"
}

mb()
{
    awk -v bytes="$1" 'BEGIN { printf "%.1f", bytes / 1e6 }'
}

# Prints source.read_bytes, items.cached and tiers.dram.item_bytes.
read_status()
{
    "$coordlfs" status --json "$dataset" | /usr/bin/python3 -c '
import json, sys
status = json.load(sys.stdin)
print(status["source"]["read_bytes"], status["items"]["cached"],
      status["tiers"]["dram"]["item_bytes"])'
}

# Waits until a second has passed without a change: items are pinned a little
# after they were read. Sets source_bytes and item_bytes.
settle()
{
    local now before='' same=0 i
    for ((i = 0; i < 240 && same < 4; i++)); do
        now=$(read_status) && [ -n "$now" ] ||
            fail "coordlfs status gave no numbers"
        if [ "$now" = "$before" ]; then same=$((same + 1)); else same=0; fi
        before=$now
        sleep 0.25
    done
    read -r source_bytes _ item_bytes <<<"$now"
}

# Pinned files survive this; all other cached file data is gone afterwards.
drop_page_cache()
{
    sync
    if ! echo 3 2>/dev/null >/proc/sys/vm/drop_caches; then
        echo "   (the page cache cannot be dropped here: fewer reads remain)"
    fi
}

# train EPOCH: adds a row to the table.
train()
{
    local line before minimum
    before=$source_bytes
    minimum=$((dataset_bytes - item_bytes))
    drop_page_cache
    line=$(/usr/bin/python3 "$source_dir/deploy/train.py" "$dataset" \
        --epochs 1 --seed "$1") || fail "the training failed"
    settle
    read -r _ _ _ seconds _ _ _ rate _ <<<"$line"
    echo "epoch $1: $seconds s"
    table+=$(printf '%5s  %7s  %8s  %15s  %15s' "$1" "$seconds" "$rate" \
        "$(mb $((source_bytes - before)))" "$(mb $minimum)")$'\n'
}

run_epochs()
{
    local epoch
    table=
    for ((epoch = 0; epoch < epochs; epoch++)); do
        train $epoch
    done
    printf '\nepoch  seconds  images/s  MB from source  least possible\n%s' \
        "$table"
    echo "(least possible: all of it at first, then what the cache has no" \
        "room for)"
}

main()
{
    parse_arguments "$@"
    check_machine
    [ -z "$dataset" ] || check_dataset
    trap clean_up EXIT
    trap 'exit 130' INT TERM HUP
    step "Packages"
    "$source_dir/deploy/packages.sh" build run || exit 1
    step "Build"
    build
    step "Dataset"
    [ -n "$dataset" ] || prepare_sample
    measure_dataset
    step "Mount: coordlfs mount --dram $dram_bytes $dataset"
    rm -rf "$cache_dir"
    "$coordlfs" mount --dram "$dram_bytes" --cache-dir "$cache_dir" \
        "$dataset" || exit 1
    mounted=yes
    settle
    step "Training; the kernel's page cache is dropped before each epoch"
    run_epochs
    step "Unmount: coordlfs umount $dataset"
    "$coordlfs" umount "$dataset" || exit 1
    mounted=
    cat <<END

Go on with your own data and training script:
    $coordlfs mount DATASET          (then train as always)
    $coordlfs status DATASET
    $coordlfs umount DATASET
END
}

main "$@"
