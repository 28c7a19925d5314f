#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unmounting: at once, and the pins are released; busy is said with the holder;
# plain umount and fusermount3 work; copies in other mount namespaces live on.
. "$(dirname "$0")/lib.sh"
require fusermount3 unshare nsenter
tool make_many
"$REPLY" "$S" 1500 40000 180000 500
head -c 20000000 /dev/urandom >"$S/unread"

mlocked_kb() { awk '$1 == "Mlocked:" { print $2 }' /proc/meminfo; }

read_all() {
    cat "$M"/d*/* >/dev/null
    settle
}

before=$(mlocked_kb)
start_mount --dram 256M
read_all
pinned=$(($(js tiers.dram.item_bytes) / 1024))
assert_ge $(($(mlocked_kb) - before)) $((pinned * 95 / 100)) "locked kB"
within 1000 "umount with nothing open" stop_mount
wait_for 1 "[ \$((\$(mlocked_kb) - $before)) -lt 8192 ]"
assert_eq "$(our_pids)" "" "processes left"

# The cache is free at once.
start_mount --dram 256M
say "held open"
# shellcheck disable=SC2217
sleep 1000 <"$M/d00000/f0000001" &
holder=$!
on_exit "kill $holder"
assert_exit 4 "$holder" "$PROGRAM" umount "$M"
assert_exit 4 sleep "$PROGRAM" umount "$M"
cmp "$S/d00000/f0000002" "$M/d00000/f0000002"
kill $holder
wait $holder 2>/dev/null || true
say "held as working directory"
(cd "$M/d00001" && exec sleep 1000) &
holder=$!
on_exit "kill $holder"
sleep 0.2
assert_exit 4 "$holder" "$PROGRAM" umount "$M"
kill $holder
wait $holder 2>/dev/null || true
say "held by a mapping"
python3 -c 'import mmap, sys, time
with open(sys.argv[1], "rb") as f:
    m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
time.sleep(1000)' "$M/d00000/f0000003" &
holder=$!
on_exit "kill $holder"
wait_for 5 "grep -qs f0000003 /proc/$holder/maps"
assert_exit 4 "$holder" "$PROGRAM" umount "$M"
kill $holder
wait $holder 2>/dev/null || true
stop_mount

for command in "umount" "fusermount3 -u"; do
    say "plain $command"
    start_mount --dram 256M
    read_all
    $command "$M"
    wait_for 2 '[ -z "$(our_pids)" ]'
    assert_eq "$(mounts_at "$M")" 0 "mounts left"
done

say "a copy in another mount namespace"
for plain in 0 1; do
    start_mount --dram 256M
    read_all
    unshare -m --propagation private sleep 1000 &
    elsewhere=$!
    on_exit "kill $elsewhere"
    # Until unshare has become sleep.
    wait_for 5 "grep -qsx sleep /proc/$elsewhere/comm"
    if [ $plain = 1 ]; then
        umount "$M"
        sleep $((3 * LINGER))
    else
        within 4000 "umount with a copy elsewhere" assert_exit 0 namespace \
            "$PROGRAM" umount "$M"
    fi
    assert_eq "$(mounts_at "$M")" 0 "mounts left here"
    over_there() { timeout $((20 * SLOW)) nsenter -t $elsewhere -m "$@"; }
    for round in 1 2; do
        over_there cat "$M"/unread | cmp - "$S/unread" || fail "unread file"
        over_there cat "$M/d00000/f0000002" | cmp - "$S/d00000/f0000002" ||
            fail "a file that was cached"
        drop_caches
    done
    [ -n "$(our_pids)" ] || fail "the daemon has left the copy"
    if [ $plain = 0 ]; then
        coordlfs umount --force "$M"
        wait_for 2 '[ -z "$(our_pids)" ]'
        over_there cat "$M/d00000/f0000004" >/dev/null 2>&1 &&
            fail "the copy can still be read after --force"
    fi
    # With the last copy the daemon goes, too.
    kill $elsewhere
    wait $elsewhere 2>/dev/null || true
    wait_for 3 '[ -z "$(our_pids)" ]'
done

say "forced, with a reader in the middle"
start_mount --dram 256M --source-bandwidth 100K
cat "$M/unread" >/dev/null 2>&1 &
holder=$!
sleep 0.5
within 3000 "umount --force" coordlfs umount --force "$M"
wait_for 2 '[ -z "$(our_pids)" ]'
wait_for 2 "! kill -0 $holder 2>/dev/null"
assert_eq "$(mounts_at "$M")" 0 "mounts left"
assert_exit 3 . "$PROGRAM" umount "$M"
