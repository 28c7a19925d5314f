# SPDX-License-Identifier: Apache-2.0
# What the benchmark scripts share; sourced by them.
#
# Speeds of one machine vary from minute to minute, so nothing is compared with
# a stored number: the things compared are run in turn, in an order that
# changes, and what counts is the median of the ratios of each round. A missed
# target is printed, not an error; an error (exit 1) is a command that failed
# or bytes that differ; exit 77 is a machine that lacks something.
#
# COORDLFS   the program to measure (coordlfs)
# BUILD_DIR  where the tools are, in tests/ (build)
# PAIRS      rounds (7)
# shellcheck shell=bash

set -Eeuo pipefail
export LC_ALL=C

COORDLFS=${COORDLFS:-coordlfs}
tools=${BUILD_DIR:-build}/tests
PAIRS=${PAIRS:-7}
# Debian's, which sees Debian's torch.
python=/usr/bin/python3
bench=$(basename "$0" .sh)

exit_commands=()

# on_exit COMMAND...: run at the end, the last one first.
on_exit() {
    exit_commands+=("$(printf '%q ' "$@")")
}

run_exit_commands() {
    local status=$? i
    trap - EXIT ERR
    trap '' INT TERM
    set +e
    for ((i = ${#exit_commands[@]} - 1; i >= 0; i--)); do
        eval "${exit_commands[i]}"
    done
    exit "$status"
}

fail() {
    echo "$bench: $*" >&2
    exit 1
}

skip() {
    echo "$bench: skipped: $*" >&2
    exit 77
}

need() {
    command -v "$1" > /dev/null || skip "needs $1${2:+ (package $2)}"
}

# start_bench [WORK]: sets work, a folder for datasets, which stay there for the
# next run, and scratch, which does not outlive this one.
start_bench() {
    trap run_exit_commands EXIT
    trap 'echo "$bench: line $LINENO: failed: $BASH_COMMAND" >&2' ERR
    trap 'exit 130' INT
    trap 'exit 143' TERM
    work=${1:-/var/tmp/coordlfs-bench}
    [ "$(id -u)" = 0 ] || fail "must run as root: it mounts and drops caches"
    need "$python" python3
    command -v "$COORDLFS" > /dev/null ||
        fail "no program $COORDLFS: install it, or set COORDLFS"
    [ -x "$tools/readbench" ] ||
        fail "no $tools/readbench: build first, or set BUILD_DIR"
    mkdir -p "$work"
    work=$(realpath "$work")
    scratch=$(mktemp -d "$work/run.XXXXXX")
    on_exit rm -rf --one-file-system "$scratch"
}

# need_memory BYTES: available, or the page cache of one side pushes out the
# other's.
need_memory() {
    local free
    free=$(awk '/^MemAvailable:/ { printf "%.0f\n", $2 * 1024 }' /proc/meminfo)
    [ "$free" -ge "$1" ] ||
        skip "needs $(megabytes "$1") MB of memory, has $(megabytes "$free")"
}

# ---- datasets ----

# make_files COUNT PER_CLASS: sets data, list and data_bytes.
make_files() {
    local line
    data=$work/files-$1-$2
    # shellcheck disable=SC2034
    list=$data.list
    line=$("$tools/mkfiles" files "$data" "$1" 40000 180000 "$2")
    # shellcheck disable=SC2034
    data_bytes=$(field "$line" bytes)
}

# ---- mounts ----

is_mounted() {
    awk -v path="$1" '$5 == path { found = 1 } END { exit !found }' \
        /proc/self/mountinfo
}

# unmount PATH: also what a failed run left.
unmount() {
    is_mounted "$1" || return 0
    umount "$1" 2> /dev/null || umount -l "$1"
}

make_mountpoint() {
    mkdir -p "$1"
    on_exit unmount "$1"
}

# gone PID: ended, reaped or not.
gone() {
    local state
    state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2> /dev/null) || return 0
    [ "$state" = Z ]
}

wait_gone() {
    local pid i
    for pid; do
        for ((i = 0; i < 100; i++)); do
            ! gone "$pid" || continue 2
            sleep 0.1
        done
        fail "process $pid still runs 10 s after the unmount"
    done
}

# mount_coordlfs MOUNTPOINT DATASET [OPTIONS]: with a new, empty cache
# directory; sets coordlfs_pids. The words of the array `within` stand before
# the command.
within=()
mount_coordlfs() {
    local mountpoint=$1 dataset=$2 cache field pid
    shift 2
    cache=$(mktemp -d "$scratch/cache.XXXXXX")
    make_mountpoint "$mountpoint"
    "${within[@]}" "$COORDLFS" mount --cache-dir "$cache" "$@" \
        "$dataset" "$mountpoint" || fail "mount of $dataset failed"
    is_mounted "$mountpoint" || fail "nothing is mounted on $mountpoint"
    coordlfs_pids=()
    for field in supervisor_pid pid pinner_pid; do
        pid=$(status_field "$mountpoint" "daemon.$field")
        coordlfs_pids+=("$pid")
    done
}

unmount_coordlfs() {
    "$COORDLFS" umount "$1" || fail "umount of $1 failed"
    wait_gone "${coordlfs_pids[@]}"
}

# mount_passthrough MOUNTPOINT SOURCE [OPTIONS]: sets passthrough_pid.
mount_passthrough() {
    local mountpoint=$1 source=$2
    shift 2
    make_mountpoint "$mountpoint"
    passthrough_pid=$("${within[@]}" "$tools/passthrough" "$@" \
        "$source" "$mountpoint")
    # As coordlfs sets it.
    echo 256 > "/sys/class/bdi/0:$(stat -c %d "$mountpoint")/read_ahead_kb"
}

unmount_passthrough() {
    umount "$1"
    wait_gone "$passthrough_pid"
}

# mount_bindfs MOUNTPOINT SOURCE [OPTIONS]
mount_bindfs() {
    local mountpoint=$1 source=$2
    shift 2
    make_mountpoint "$mountpoint"
    bindfs "$@" "$source" "$mountpoint"
}

# ---- what coordlfs says ----

# status_field MOUNTPOINT FIELD: such as tiers.dram.item_bytes.
status_field() {
    "$COORDLFS" status --json "$1" | "$python" -c '
import functools, json, sys
print(functools.reduce(lambda value, key: value[key], sys.argv[1].split("."),
                       json.load(sys.stdin)))' "$2"
}

# daemon_reads MOUNTPOINT: READ requests that the daemon has answered.
daemon_reads() {
    "$COORDLFS" status --json "$1" | "$python" -c '
import json, sys
print(sum(t["reads"] for t in json.load(sys.stdin)["served"].values()))'
}

# wait_cached MOUNTPOINT COUNT [SECONDS]: until so many items are cached.
wait_cached() {
    local cached end=$((SECONDS + ${3:-120}))
    while cached=$(status_field "$1" items.cached); [ "$cached" -lt "$2" ]; do
        [ "$SECONDS" -lt "$end" ] ||
            fail "only $cached of $2 items are cached on $1"
        sleep 0.2
    done
}

# What still moves while something is being loaded or pinned.
progress() {
    "$COORDLFS" status --json "$1" | "$python" -c '
import json, sys
s = json.load(sys.stdin)
print(s["items"]["cached"], s["tiers"]["dram"]["used_bytes"],
      s["source"]["read_bytes"])'
}

# wait_settled MOUNTPOINT [SECONDS]: until nothing has moved for 2 s.
wait_settled() {
    local before='' now still=0 end=$((SECONDS + ${2:-120}))
    while [ "$still" -lt 4 ]; do
        [ "$SECONDS" -lt "$end" ] || fail "$1 does not come to rest: $now"
        sleep 0.5
        now=$(progress "$1")
        if [ "$now" = "$before" ]; then
            still=$((still + 1))
        else
            still=0
        fi
        before=$now
    done
}

# cpu_seconds PID...: user and system time that they have used so far.
cpu_seconds() {
    local pid
    for pid; do
        sed 's/.*) //' "/proc/$pid/stat"
    done | awk -v tick="$(getconf CLK_TCK)" \
        '{ sum += $12 + $13 } END { printf "%.2f\n", sum / tick }'
}

# ---- reading ----

drop_caches() {
    sync
    echo 3 > /proc/sys/vm/drop_caches
}

# field LINE KEY: of a line of key=value.
field() {
    local word
    for word in $1; do
        if [ "${word%%=*}" = "$2" ]; then
            echo "${word#*=}"
            return
        fi
    done
    fail "no $2 in: $1"
}

# same LINE LINE...: every run read the same bytes.
same() {
    local line first
    first=$(field "$1" checksum)
    for line; do
        [ "$(field "$line" checksum)" = "$first" ] ||
            fail "different bytes: $1 | $line"
    done
}

# ---- samples: one file per name, one value per line ----

sample() {
    echo "$2" >> "$scratch/sample.$1"
}

calc() {
    awk "BEGIN { printf \"%.${2:-3}f\", $1 }"
}

median_of() {
    sort -g | awk '
        { value[NR] = $1 }
        END {
            if (!NR) exit 1
            printf "%.12g\n",
                (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2
        }'
}

median() {
    median_of < "$scratch/sample.$1"
}

# ratio A B: the median of A/B, round by round.
ratio() {
    paste "$scratch/sample.$1" "$scratch/sample.$2" |
        awk '{ printf "%.6f\n", $1 / $2 }' | median_of
}

# rotate N WORDS...: the words, starting with another one in each round.
rotate() {
    local by=$(($1 % ($# - 1)))
    shift
    echo "${@:by+1}" "${@:1:by}"
}

# ---- tables ----

megabytes() {
    calc "$1 / 1e6" "${2:-0}"
}

# verdict VALUE min|max TARGET: one cell that says whether it is met.
verdict() {
    awk -v value="$1" -v kind="$2" -v target="$3" 'BEGIN {
        met = kind == "min" ? value >= target : value <= target
        printf "%s %.2f: %s", kind == "min" ? "at least" : "at most", target,
            met ? "met" : "MISSED"
    }'
}

heading() {
    local text="$*"
    echo
    echo "$text"
    printf '%*s\n' "${#text}" '' | tr ' ' -
}

# ---- memory cgroups, v1 and v2 ----

remove_cgroup() {
    local i
    for ((i = 0; i < 50; i++)); do
        [ -d "$1" ] || return 0
        ! rmdir "$1" 2> /dev/null || return 0
        sleep 0.1
    done
    echo "$bench: $1 cannot be removed: it still has processes" >&2
}

# create_cgroup NAME BYTES: sets cgroup; run things in it with
# within=(in_cgroup).
create_cgroup() {
    local top limit
    if [ -d /sys/fs/cgroup/memory ]; then
        top=/sys/fs/cgroup/memory
        limit=memory.limit_in_bytes
    elif [ -f /sys/fs/cgroup/cgroup.controllers ]; then
        top=/sys/fs/cgroup
        limit=memory.max
        echo +memory > "$top/cgroup.subtree_control" ||
            skip "no memory controller in $top"
    else
        skip "no memory cgroups in /sys/fs/cgroup"
    fi
    cgroup=$top/coordlfs-test-$1-$$
    mkdir "$cgroup" 2> /dev/null || skip "cannot create $cgroup"
    on_exit remove_cgroup "$cgroup"
    echo "$2" > "$cgroup/$limit"
}

# in_cgroup COMMAND...
in_cgroup() {
    (
        echo "$BASHPID" > "$cgroup/cgroup.procs"
        exec "$@"
    )
}
