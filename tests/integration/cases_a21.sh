#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The index is damaged by a power cut, again and again (A21): the mount says so,
# starts with an empty cache, shows the right bytes, and the disk does not fill
# up. One of an older format is just started anew.
. "$(dirname "$0")/lib.sh"
require
tool make_many
"$REPLY" "$S" 200 1000 50000 50

kill_everything() {
    local pids pid
    read -r -a pids <<<"$(our_pids)"
    kill -9 "${pids[@]}"
    # A process has no executable any more while it still holds /dev/fuse.
    for pid in "${pids[@]}"; do
        wait_for 10 "[ ! -e /proc/$pid ] ||
            grep -q '^State:.*Z' /proc/$pid/status 2>/dev/null"
    done
}

used=0
for round in 1 2 3 4; do
    start_mount --dram 4M --nvme 64M
    coordlfs warm "$M" >/dev/null
    diff -r "$S" "$M" || fail "round $round"
    assert_eq "$(js items.cached)" "$(js items.known)" "cached items"
    kill_everything
    case $round in
    1 | 2) : >"$(echo "$C"/*/index/CURRENT)" ;;
    3) rm "$C"/*/index/MANIFEST-* ;;
    *) head -c 20000 /dev/urandom >"$(echo "$C"/*/index/MANIFEST-*)" ;;
    esac
    : >"$T/log"
    start_mount --dram 4M --nvme 64M
    grep -q 'index: damaged .*moved aside as index.damaged' "$T/log" ||
        fail "nothing said of the damage: $(cat "$T/log")"
    diff -r "$S" "$M" || fail "round $round, after the damage"
    settle
    stop_mount
    set -- "$C"/*/index.damaged.*
    assert_eq $# 1 "indexes that were moved aside"
    now=$(du -sk "$C" | cut -f1)
    [ $round = 1 ] || assert_le "$now" $((used + 1024)) "KiB on the disk"
    used=$now
done

say "an older format"
echo 1 >"$(echo "$C"/*/format)"
start_mount --dram 4M --nvme 64M
assert_eq "$(cat "$C"/*/format)" 2 "format"
diff -r "$S" "$M" || fail "an older format"
stop_mount
