#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Mounting twice, and four times at once: one wins, the others say who holds
# it, and one umount leaves nothing behind. (A05)
. "$(dirname "$0")/lib.sh"
require
echo content >"$S/file"

try_mount() {
    local args=("$S") rc=0
    [ "$M" = "$S" ] || args+=("$M")
    timeout $((30 * SLOW)) "$PROGRAM" mount "${args[@]}" --dram 64M \
        --cache-dir "$C" --log-file "$T/log" >"$T/said.$1" 2>&1 || rc=$?
    echo $rc >"$T/rc.$1"
}

four_at_once() {
    local i winners=0 holder
    rm -f "$T"/said.* "$T"/rc.*
    for i in 1 2 3 4; do
        try_mount $i &
    done
    wait
    assert_eq "$(mounts_at "$M")" 1 "mounts"
    assert_eq "$(cat "$M/file")" content "bytes"
    holder=$(js daemon.supervisor_pid)
    for i in 1 2 3 4; do
        case $(cat "$T/rc.$i") in
        0) winners=$((winners + 1)) ;;
        1 | 4)
            grep -qE "$holder|$M" "$T/said.$i" ||
                fail "the loser does not say who holds it: $(cat "$T/said.$i")"
            ;;
        *) fail "exit code $(cat "$T/rc.$i"): $(cat "$T/said.$i")" ;;
        esac
    done
    assert_eq $winners 1 "winners"
}

twice() {
    start_mount --dram 64M
    rm -f "$T"/said.* "$T"/rc.*
    try_mount again
    assert_eq "$(cat "$T/rc.again")" "4" "exit code: $(cat "$T/said.again")"
    grep -q "$(js daemon.supervisor_pid)" "$T/said.again" ||
        fail "the holder is not named: $(cat "$T/said.again")"
    assert_eq "$(mounts_at "$M")" 1 "mounts"
    # With another cache: the mount point is taken.
    C=$T/other try_mount other
    grep -qE '^[14]$' "$T/rc.other" || fail "stacked: $(cat "$T/said.other")"
    assert_eq "$(mounts_at "$M")" 1 "mounts"
}

gone() {
    stop_mount
    assert_eq "$(mounts_at "$M")" 0 "mounts left"
    assert_eq "$(our_pids)" "" "processes left"
}

mkdir "$T/other"
for place in "$M" "$S"; do
    M=$place
    say "at $M"
    for round in 1 2 3; do
        four_at_once
        gone
    done
    twice
    gone
    # When umount has returned, the next mount has the cache.
    for round in 1 2 3; do
        start_mount --dram 64M
        coordlfs umount "$M"
    done
    start_mount --dram 64M
    gone
done
