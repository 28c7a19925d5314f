#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: run_all.sh [WORK [DATASET]]
# Runs every benchmark, as root, and says at the end which ones failed or could
# not run. WORK keeps the datasets (about 5 GB) for the next run; DATASET is what
# pytorch.sh reads.
here=$(dirname "$0")
work=${1:-/var/tmp/coordlfs-bench}
failed=() skipped=()

echo "kernel $(uname -r), $(nproc) CPUs," \
    "$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo) MiB," \
    "$(findmnt -no FSTYPE -T "$(dirname "$work")")"
for bench in hit large first_epoch nvme pytorch minio; do
    arguments=("$work")
    [ $bench != pytorch ] ||
        arguments=("${2:-/var/lib/coordlfs/sample}" "$work")
    "$here/$bench.sh" "${arguments[@]}"
    case $? in
    0) ;;
    77) skipped+=("$bench") ;;
    130 | 143) exit 1 ;;
    *) failed+=("$bench") ;;
    esac
done
echo
[ ${#skipped[@]} = 0 ] || echo "skipped: ${skipped[*]}"
[ ${#failed[@]} = 0 ] || {
    echo "failed: ${failed[*]}"
    exit 1
}
