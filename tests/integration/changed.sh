#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Source files change while they are mounted: a reader gets an error, the old
# bytes or the new ones, never a mix, never zeros; and soon the new attributes
# with the new bytes, where its reads reach the daemon.
. "$(dirname "$0")/lib.sh"
require
# The change is said in the log.
expect_error 'changed|differs|stale|shorter'

tool grow_readers
grow_readers=$REPLY
for dram in 0 64M; do
    : >"$S/growing"
    start_mount --dram "$dram" --nvme 0 --revalidate 1
    "$grow_readers" "$S/growing" "$M/growing" 5 ||
        fail "a file that grows, --dram $dram"
    stop_mount
    rm "$S/growing"
done

start_mount --dram 0
python3 "$HERE/change_check.py" "$S" "$M" uncached "$SEED" "$SLOW"
stop_mount

C=$T/cache2
mkdir "$C"
start_mount --dram 256M
python3 "$HERE/change_check.py" "$S" "$M" cached "$SEED" "$SLOW"
[ -z "$(our_pids)" ] && fail "the daemon is gone"
assert_eq "$(js daemon.restarts)" 0 "restarts"
stop_mount

# After a remount everything is checked against the source.
start_mount --dram 256M
diff -r "$S" "$M" || fail "bytes after a remount"
python3 "$HERE/compare_tree.py" "$S" "$M"
# Changes while it is not mounted are seen, and nothing old is served.
coordlfs warm "$M" >/dev/null
stop_mount
for f in "$S"/cached-*; do
    rnd 3
    case $REPLY in
    0) head -c 300000 /dev/urandom >"$f" ;;
    1) echo more >>"$f" ;;
    2) rm "$f" ;;
    esac
done
echo new >"$S/added"
start_mount --dram 256M
diff -r "$S" "$M" || fail "bytes after changes while unmounted"
python3 "$HERE/compare_tree.py" "$S" "$M"
stop_mount
