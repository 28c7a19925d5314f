#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: first_epoch.sh [WORK]
# The epoch in which nothing is cached yet: 4 threads read 10,000 files once,
# in random order, everything cold, each time with a new mount and an empty
# cache directory. First with a source that gives 100 MiB/s, into DRAM and into
# both tiers, then with what the disk gives, beside a pass-through server and the
# native file system.
. "$(dirname "$0")/bench_lib.sh"

FILES=${FILES:-10000}
THREADS=4
RATE_MIB=100

start_bench "$@"
make_files "$FILES" 1000
need_memory $((data_bytes * 3))
mount=$scratch/mount
dram=$((data_bytes * 5 / 4))

read_cold() { # SEED DIRECTORY
    drop_caches
    "$tools/readbench" files -t $THREADS -s "$1" -l "$list" "$2"
}

native_epoch() {
    line=$(read_cold "$1" "$data")
    cpu=$(field "$line" cpu_s)
}

passthrough_epoch() {
    local before
    mount_passthrough "$mount" "$data"
    before=$(cpu_seconds "$passthrough_pid")
    line=$(read_cold "$1" "$mount")
    cpu=$(calc "$(field "$line" cpu_s) + $(cpu_seconds "$passthrough_pid") \
        - $before")
    unmount_passthrough "$mount"
}

# Also sets source_bytes and cached.
coordlfs_epoch() { # SEED [OPTIONS]
    local seed=$1 before
    shift
    mount_coordlfs "$mount" "$data" --dram $dram "$@"
    before=$(cpu_seconds "${coordlfs_pids[@]}")
    line=$(read_cold "$seed" "$mount")
    # Pins follow the reads; their cost belongs to this epoch.
    wait_settled "$mount"
    cpu=$(calc "$(field "$line" cpu_s) \
        + $(cpu_seconds "${coordlfs_pids[@]}") - $before")
    source_bytes=$(status_field "$mount" source.read_bytes)
    cached=$(status_field "$mount" items.cached)
    [ "$(status_field "$mount" daemon.restarts)" = 0 ] ||
        fail "a process of the daemon was restarted"
    unmount_coordlfs "$mount"
}

for ((round = 1; round <= PAIRS; round++)); do
    coordlfs_epoch "$round" --source-bandwidth ${RATE_MIB}M
    sample limited "$(field "$line" seconds)"
    sample limited.source "$source_bytes"
    sample limited.cached "$cached"
    coordlfs_epoch "$round" --source-bandwidth ${RATE_MIB}M \
        --dram $((data_bytes * 45 / 100)) --nvme $((data_bytes * 70 / 100))
    sample both "$(field "$line" seconds)"
    sample both.cached "$cached"
done
for ((round = 1; round <= PAIRS; round++)); do
    lines=()
    for system in $(rotate "$round" native passthrough coordlfs); do
        "${system}_epoch" "$round"
        lines+=("$line")
        sample "$system.seconds" "$(field "$line" seconds)"
        sample "$system.cpu" "$(calc "$cpu * 1000 / $FILES" 4)"
    done
    same "${lines[@]}"
done

heading "First epoch: $FILES files, $(megabytes "$data_bytes") MB, cold," \
    "$THREADS threads, random order; medians of $PAIRS rounds"
least=$(calc "$data_bytes / ($RATE_MIB * 1048576)")
seconds=$(median limited)
share=$(calc "$seconds / $least")
echo "source limited to $RATE_MIB MiB/s:"
echo "  seconds            $(calc "$seconds" 2)"
echo "  bytes / rate       $(calc "$least" 2)"
echo "  ratio              $(calc "$share" 2)  $(verdict "$share" max 1.15)"
echo "  source / dataset   $(calc \
    "$(median limited.source) / $data_bytes" 4)"
echo "  items cached       $(calc "$(median limited.cached)" 0) of $FILES"
share=$(calc "$(median both) / $least")
echo "the same, into DRAM (45 %) and NVMe (the rest):"
echo "  seconds            $(calc "$(median both)" 2)"
echo "  ratio              $(calc "$share" 2)  $(verdict "$share" max 1.10)"
echo "  items cached       $(calc "$(median both.cached)" 0) of $FILES"
echo "source unlimited:"
row='  %-12s %8s %8s %12s %8s %14s  %s\n'
# shellcheck disable=SC2059
{
    printf "$row" system seconds files/s passthrough native \
        "CPU s/1k files" target
    for system in native passthrough coordlfs; do
        seconds=$(median $system.seconds)
        share=$(ratio $system.seconds passthrough.seconds)
        target=
        [ $system != coordlfs ] || target=$(verdict "$share" max 1.4)
        printf "$row" $system "$(calc "$seconds" 2)" \
            "$(calc "$FILES / $seconds" 0)" "$(calc "$share" 2)" \
            "$(calc "$(ratio $system.seconds native.seconds)" 2)" \
            "$(median $system.cpu)" "$target"
    done
}
echo "  (times as a multiple of the pass-through server's and of native's;"
echo "  CPU: user and system time of reader and server; of coordlfs, of"
echo "  supervisor, worker and pinner until all pins had settled)"
