#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Limits of the machine: memory that a parent's control group limits, and 256
# descriptors with 64 readers. (A06, A22)
. "$(dirname "$0")/lib.sh"
require
tool make_many
make_many=$REPLY

# ---- A06 ----

LIMIT=$((260 << 20)) # of which the daemon needs some 130 MiB for itself
COUNT=$([ "$LONG" = 1 ] && echo 10000 || echo 1500)
many() { "$@" "$COUNT" 90000 120000 1000; }

# Processes killed for memory in the group or below, in any version.
oom_kills() {
    { cat "$1"/{,in/}memory.{events,oom_control} 2>/dev/null || true; } |
        awk '$1 == "oom_kill" { n += $2 } END { print n + 0 }'
}

parent_limit() {
    local parent=$1 share=$2 percent=${2%\%} capacity
    [ "$share" != auto ] || percent=50
    MOUNT_CGROUP=$parent/in
    start_mount --nvme 0 --dram "$share"
    capacity=$(js tiers.dram.capacity_bytes)
    say "--dram $share below a parent's limit: $((capacity >> 20)) MiB"
    assert_le "$capacity" $((LIMIT * percent / 100)) "capacity"
    # Where another mount has taken all there is left nothing to look at; and
    # a sanitizer takes more memory than the budget can know.
    if [ "$capacity" -gt 0 ] && [ "$SLOW" = 1 ]; then
        in_cgroup "$parent/in" timeout 120 "$PROGRAM" warm "$M" >/dev/null
        many in_cgroup "$parent/in" "$make_many" -v "$M/many" || fail "bytes"
        assert_ge "$(js tiers.dram.used_bytes)" $((capacity * 9 / 10)) "used"
        assert_eq "$(js daemon.restarts)" 0 "restarts"
        assert_eq "$(oom_kills "$parent")" 0 "processes killed for memory"
    fi
    stop_mount
    MOUNT_CGROUP=""
}

if cgroup_try parent $LIMIT && parent=$REPLY && mkdir "$parent/in" 2>/dev/null; then
    on_exit "cgroup_remove '$parent/in'"
    [ ! -e "$parent/memory.swap.max" ] || echo 0 >"$parent/memory.swap.max"
    many "$make_many" "$S/many"
    own=$(cat "$parent"/in/memory.{limit_in_bytes,max} 2>/dev/null || true)
    [ "$own" = max ] || assert_ge "$own" $((LIMIT + 1)) "the group's own limit"
    parent_limit "$parent" auto
    parent_limit "$parent" 80%
    # shellcheck disable=SC2016
    inside=(bash -c 'echo $$ >"$0/cgroup.procs" && "$@" | sed -z "s/\n  */ /g"
        exit ${PIPESTATUS[0]}' "$parent/in" "$PROGRAM")
    assert_exit 1 "control group .*$(basename "$parent")" "${inside[@]}" mount \
        "$S" "$M" --dram 500M --cache-dir "$C"
    assert_exit 0 "limited by the control group $parent" "${inside[@]}" doctor \
        --cache-dir "$C"
    rm -rf "$S/many"
else
    say "left out: memory control groups cannot be made here"
fi

# ---- A22 ----

FILES=$([ "$LONG" = 1 ] && echo 50000 || echo 5000)
C=$T/cache2
mkdir "$C"
"$make_many" "$S/files" "$FILES" 100 3000 500

# open_limits PID: how many descriptors it may have, soft and hard.
open_limits() { awk '$2 == "open" { print $4, $5 }' "/proc/$1/limits"; }

few_descriptors() {
    local pid readers=() i
    for pid in $(our_pids); do
        assert_eq "$(open_limits "$pid")" "256 256" "descriptors that may be open"
    done
    for ((i = 0; i < 64; i++)); do
        readers+=("$(printf 'd%05d' $((i * (FILES / 500) / 64)))")
    done
    python3 - "$S/files" "$M/files" "${readers[@]}" <<'PYTHON' || fail "readers"
import os, random, sys, threading
source, mount = sys.argv[1:3]
failures = []

def read(number, folder):
    names = os.listdir(os.path.join(source, folder))
    random.Random(number).shuffle(names)
    for name in names:
        try:
            with open(os.path.join(source, folder, name), "rb") as f:
                want = f.read()
            with open(os.path.join(mount, folder, name), "rb") as f:
                if f.read() != want:
                    failures.append(f"{folder}/{name}: bytes")
        except OSError as e:
            failures.append(str(e))

threads = [threading.Thread(target=read, args=a) for a in enumerate(sys.argv[3:])]
for t in threads:
    t.start()
for t in threads:
    t.join()
if failures:
    sys.exit("\n".join(failures[:10]))
PYTHON
    for pid in $(our_pids); do
        assert_le "$(find "/proc/$pid/fd" -mindepth 1 | wc -l)" 200 "open descriptors"
    done
}

for step in cold warm; do
    (ulimit -Sn 256 && ulimit -Hn 256 && start_mount --dram 64M --nvme 64M)
    say "256 descriptors, $step index"
    [ $step = cold ] || "$PROGRAM" warm "$M" >/dev/null
    few_descriptors
    assert_eq "$(js source.errors)" 0 "errors of the source"
    assert_eq "$(js state)" ready "state"
    kill -9 "$(js daemon.pid)"
    "$make_many" -v "$M/files" "$FILES" 100 3000 500 || fail "bytes after a kill"
    stop_mount
done
! grep -iE "too many open|EMFILE|ENFILE" "$T/log" || fail "descriptors ran out"
# shellcheck disable=SC2016
assert_exit 1 "at most 256 open files" bash -c 'ulimit -Sn 256 && ulimit -Hn 256 &&
    "$1" doctor --cache-dir "$2"' - "$PROGRAM" "$C"
say "a soft limit of 256 only"
hard=$(ulimit -Hn)
(ulimit -Sn 256 && start_mount --dram 64M)
# The supervisor needs but a few.
for pid in "$(js daemon.pid)" "$(js daemon.pinner_pid)"; do
    assert_eq "$(open_limits "$pid")" "$hard $hard" "descriptors that may be open"
done
stop_mount
