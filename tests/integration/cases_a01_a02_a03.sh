#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Long mount points; a caller that waits for a pipe; relative paths.
. "$(dirname "$0")/lib.sh"
require
mkdir "$S/folder"
for i in $(seq 50); do
    head -c 20000 /dev/urandom >"$S/folder/$i"
done

say "A01: a mount point and a cache directory of 300 characters"
long=$(printf 'd%.0s' {1..140})/$(printf 'e%.0s' {1..140})
trial() {
    mkdir -p "$M" "$C"
    start_mount --dram 64M
    coordlfs status "$M" --ready >/dev/null
    coordlfs status "$M" --live >/dev/null
    coordlfs warm "$M" >/dev/null
    kill -9 "$(js daemon.pid)"
    diff -r "$S" "$M" || fail "bytes"
}
M=$T/$long
trial
first=$M
# A second one beside it: same prefix, other end.
M=$T/${long%ee}xx C=$T/cache2
trial
assert_eq "$(js mountpoint)" "$M" "mount point of the second"
stop_mount
M=$first
assert_eq "$(js mountpoint)" "$M" "mount point of the first"
diff -r "$S" "$M" || fail "the first after the second's end"
stop_mount
assert_eq "$(our_pids)" "" "processes left"
M=$T/mnt C=$T/c/$long
trial
stop_mount

say "A02: the caller waits for a pipe"
C=$T/cache
start() { echo "$PROGRAM" mount "$S" "$M" --cache-dir "$C" --dram 64M \
    --log-file "$T/log"; }
pipes_of() { readlink /proc/"$1"/fd/* 2>/dev/null || true; }
no_leak() {
    local pid
    kill -9 "$(js daemon.pid)"
    diff -r "$S" "$M" || fail "bytes"
    for pid in $(our_pids); do
        if pipes_of "$pid" | grep -E "$T/(marker|fifo|out)|/dev/pts"; then
            fail "process $pid keeps a descriptor of the caller's"
        fi
    done
}
timeout $((20 * SLOW)) bash -c "x=\$($(start))" || fail "in \$(): $?"
no_leak
stop_mount
# shellcheck disable=SC2046
python3 -c 'import subprocess, sys
sys.exit(subprocess.run(sys.argv[2:], capture_output=True,
                        timeout=int(sys.argv[1])).returncode)' \
    $((20 * SLOW)) $(start) || fail "with captured output"
no_leak
stop_mount
mkfifo "$T/fifo"
touch "$T/marker"
exec 8<>"$T/fifo" 7<"$T/marker"
# shellcheck disable=SC2046
timeout $((20 * SLOW)) $(start) >"$T/out" 2>&8 </dev/null
no_leak
exec 8>&- 7<&-
stop_mount
rc=0
said=$(coordlfs mount "$T/nothing" "$M" --cache-dir "$C" 2>&1) || rc=$?
assert_eq $rc 1 "exit code of a mount that fails"
grep -q nothing <<<"$said" || fail "the error does not reach the caller: $said"

say "A03: relative paths"
rm -rf "$C"
ls -a / >"$T/root.before"
(
    cd "$T"
    mkdir cache
    echo "dram = 48M" >c.conf
    timeout $((30 * SLOW)) "$PROGRAM" mount src mnt --cache-dir cache \
        --log-file l.log --config c.conf >/dev/null
)
LOGS+=("$T/l.log")
assert_eq "$(js tiers.dram.capacity_bytes)" $((48 << 20)) "dram from the file"
assert_eq "$(js mountpoint)" "$M" "mount point"
assert_eq "$(js dataset)" "$S" "dataset"
cat "$M"/folder/* >/dev/null
lines=$(wc -l <"$T/l.log")
kill -9 "$(js daemon.pid)"
diff -r "$S" "$M" || fail "bytes"
assert_ge "$(wc -l <"$T/l.log")" $((lines + 1)) "lines in the log"
stop_mount
start_mount --dram 64M
assert_ge "$(js items.known)" 50 "items known to the second mount"
stop_mount
ls -a / >"$T/root.after"
diff "$T/root.before" "$T/root.after" || fail "something new in /"
assert_eq "$(ls -A "$T/cache" | wc -l)" 1 "cache subdirectories"
