#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All processes are killed at once under readers: nothing is left in state D,
# and the next mount heals the mount point within 3 s; in place too.
. "$(dirname "$0")/lib.sh"
require
tool make_many
"$REPLY" "$S" 5000 1000 100000 500
cp -a "$S" "$T/ref"
tool stress_readers
stress=$REPLY

# Readers and daemons with a thread in state D. A reader may be there for a
# moment, while it reads its copy of the dataset from the disk.
stuck() {
    local pid
    for pid in "$@" $(our_pids); do
        ! grep -qs '^State:[[:space:]]*D' /proc/"$pid"/task/*/status ||
            echo "$pid"
    done
}

kill_everything() {
    local readers pids
    "$stress" "$T/ref" "$M" "$SEED" 0 >"$T/readers" 2>/dev/null &
    readers=$!
    wait_for 60 "grep -q ready '$T/readers'"
    timeout 60 "$PROGRAM" warm "$M" >/dev/null 2>&1 &
    sleep 1
    read -r -a pids <<<"$(our_pids)"
    assert_ge ${#pids[@]} 3 "processes"
    kill -9 "${pids[@]}"
    wait_for 2 '[ -z "$(our_pids)" ]'
    sleep "$LINGER"
    # Their calls fail now, and they can be ended.
    wait_for 2 "[ -z \"\$(stuck $readers)\" ]"
    kill -9 $readers
    wait_for 1 "! grep -qs '^State:[[:space:]]*[^Z]' /proc/$readers/status"
    wait $readers 2>/dev/null || true
}

heal() {
    within 3000 "mount over what was left" start_mount --dram 64M
    assert_eq "$(mounts_at "$M")" 1 "mounts at the mount point"
    assert_eq "$(js state)" ready "state"
    diff -r "$T/ref" "$M" || fail "after healing"
}

for round in 1 2 3; do
    start_mount --dram 64M
    kill_everything
    heal
    stop_mount
done
# The left-over can also just be unmounted.
start_mount --dram 64M
kill_everything
coordlfs umount "$M"
assert_eq "$(mounts_at "$M")" 0 "mounts left"

say "in place"
M=$S
for round in 1 2; do
    start_mount --dram 64M
    kill_everything
    heal
    stop_mount
    diff -r "$T/ref" "$S" || fail "the dataset below"
done
