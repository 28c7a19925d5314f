#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: minio.sh [WORK]
# A never-evicting cache beside the kernel's page cache, with the same memory:
# a cgroup that holds 35 % and then 65 % of the dataset, with the server and the
# reader in it, a source that gives 100 MiB/s, 4 epochs, each in a random order
# of its own.
#
# The page cache side is the pass-through server: the kernel keeps the mount's
# pages between opens and evicts them as it likes; the source is read past its
# own page cache, so no page is kept twice and each miss is counted.
. "$(dirname "$0")/bench_lib.sh"

FILES=${FILES:-20000}
EPOCHS=4
THREADS=4
RATE=100M
# What coordlfs needs in the group beside pinned pages: 64 MiB of item buffers,
# request slots, three processes, the index and its caches, 2 KB of kernel
# memory per file, and the reader itself.
OVERHEAD=$((160 << 20))

start_bench "$@"
make_files "$FILES" 1000
[ "$data_bytes" -ge $((1 << 30)) ] || fail "dataset below 1 GiB: raise FILES"
need_memory $((data_bytes + (1 << 30)))
mount=$scratch/mount
stats=/run/coordlfs-bench-$$.stats
on_exit rm -f "$stats"

epoch() { # SEED
    in_cgroup "$tools/readbench" files -t $THREADS -s "$1" -l "$list" "$mount"
}

passthrough_bytes() {
    local bytes
    read -r bytes _ < "$stats"
    echo $((10#$bytes))
}

coordlfs_bytes() {
    status_field "$mount" source.read_bytes
}

# epochs SYSTEM: appends to the samples SYSTEM.PERCENT.bytes and .seconds.
epochs() {
    local before after line number
    before=$("$1_bytes")
    for ((number = 1; number <= EPOCHS; number++)); do
        line=$(epoch "$number")
        after=$("$1_bytes")
        [ "$(field "$line" bytes)" = "$data_bytes" ] ||
            fail "an epoch read $(field "$line" bytes) bytes"
        sample "$1.$percent.bytes" $((after - before))
        sample "$1.$percent.seconds" "$(field "$line" seconds)"
        before=$after
    done
}

run_passthrough() {
    create_cgroup "passthrough-$percent" "$limit"
    drop_caches
    within=(in_cgroup)
    mount_passthrough "$mount" "$data" --direct --rate $RATE --stats "$stats"
    epochs passthrough
    unmount_passthrough "$mount"
    remove_cgroup "$cgroup"
}

# Also sets dram and pinned.
run_coordlfs() {
    create_cgroup "coordlfs-$percent" "$limit"
    drop_caches
    within=(in_cgroup)
    dram=$(((limit - OVERHEAD) * 9 / 10))
    mount_coordlfs "$mount" "$data" --dram $dram --source-bandwidth $RATE
    epochs coordlfs
    pinned=$(status_field "$mount" tiers.dram.item_bytes)
    unmount_coordlfs "$mount"
    remove_cgroup "$cgroup"
}

# print_row LABEL SCALE DIGITS VALUES...
print_row() {
    local label=$1 scale=$2 digits=$3 value
    shift 3
    printf '%-44s' "$label"
    for value; do
        printf '%9s' "$(calc "$value / $scale" "$digits")"
    done
    echo
}

values() {
    tr '\n' ' ' < "$scratch/sample.$1"
}

# least CACHE: bytes per epoch that a cache of that size cannot avoid.
least() {
    local number rest=$((data_bytes > $1 ? data_bytes - $1 : 0))
    echo "$data_bytes"
    for ((number = 2; number <= EPOCHS; number++)); do
        echo "$rest"
    done
}

# shellcheck disable=SC2046
report() {
    echo
    echo "memory group of $(megabytes "$limit") MB, $percent % of the dataset:"
    echo "  page cache: all of it, less the pass-through server and the reader"
    echo "  coordlfs: --dram $(megabytes "$dram") MB, which is 90 % of what" \
        "$(megabytes $OVERHEAD) MB for buffers,"
    echo "    processes, index and reader leave; pinned $(megabytes \
        "$pinned") MB of items ($(calc "100 * $pinned / $data_bytes" 1) %)"
    printf '%-44s' ''
    printf '  epoch %d' $(seq $EPOCHS)
    echo
    print_row "source MB, coordlfs" 1e6 0 $(values "coordlfs.$percent.bytes")
    print_row "source MB, page cache" 1e6 0 \
        $(values "passthrough.$percent.bytes")
    print_row "minimum: dataset - what coordlfs pinned" 1e6 0 \
        $(least "$pinned")
    print_row "minimum: dataset - the whole group" 1e6 0 $(least "$limit")
    print_row "seconds, coordlfs" 1 1 $(values "coordlfs.$percent.seconds")
    print_row "seconds, page cache" 1 1 $(values "passthrough.$percent.seconds")
}

heading "MinIO against the page cache: $FILES files," \
    "$(megabytes "$data_bytes") MB, source limited to ${RATE%M} MiB/s," \
    "$THREADS threads"
for percent in 35 65; do
    limit=$((data_bytes * percent / 100 / 4096 * 4096))
    run_coordlfs
    run_passthrough
    report
done
