#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Started with standard descriptors closed, and with a read-only root file
# system and an empty environment. (A07, A09)
. "$(dirname "$0")/lib.sh"
require unshare mount
for i in 1 2 3 4 5 6 7 8; do
    head -c $((i * 30000)) /dev/urandom >"$S/$i"
done

# ---- A07 ----

# What the first three descriptors of a process may be.
standard() {
    local pid fd target
    for pid in $(our_pids); do
        for fd in 0 1 2; do
            target=$(readlink "/proc/$pid/fd/$fd" || true)
            [[ $target = /dev/null || $target = "$T/log" ]] ||
                ! readlink "/proc/$pid/exe" >/dev/null ||
                fail "descriptor $fd of $pid is '$target'"
        done
    done
}

for closed in "<&-" ">&-" "2>&-" "<&- >&-" ">&- 2>&-" "<&- >&- 2>&-"; do
    say "closed: $closed"
    eval "timeout $((30 * SLOW)) \"$PROGRAM\" mount \"$S\" \"$M\" --dram 64M \
        --nvme 64M --cache-dir \"$C\" --log-file \"$T/log\" $closed"
    standard
    diff -r "$S" "$M" || fail "bytes"
    kill -9 "$(js daemon.pid)" "$(js daemon.pinner_pid)"
    diff -r "$S" "$M" || fail "bytes after a kill"
    standard
    # Commands, too: what they open must not become their output.
    eval "timeout $((30 * SLOW)) \"$PROGRAM\" warm \"$M\" $closed" >/dev/null
    eval "timeout $((30 * SLOW)) \"$PROGRAM\" verify \"$M\" $closed" >/dev/null
    assert_exit 0 "" "$PROGRAM" verify "$M"
    assert_eq "$(js integrity.corrupt_items)" 0 "damaged items"
    eval "timeout $((30 * SLOW)) \"$PROGRAM\" umount \"$M\" $closed"
    assert_eq "$(mounts_at "$M")" 0 "mounts left"
done
grep -vE '^[0-9T:.-]+ (error|warn|info|debug|trace) [a-z-]+: ' "$T/log" &&
    fail "something else is in the log"
say "in the foreground, all closed"
timeout $((60 * SLOW)) "$PROGRAM" mount "$S" "$M" --foreground --dram 64M \
    --cache-dir "$C" --log-file "$T/log" <&- >&- 2>&- &
wait_for 10 "[ \$(mounts_at '$M') = 1 ]"
standard
diff -r "$S" "$M" || fail "bytes"
stop_mount
wait $! || fail "the mount in the foreground ended with $?"

# ---- A09 ----

mkdir "$T/scripts"
# read_only TOP WRITABLE COMMAND...: all file systems read-only but for what lies
# below TOP, and WRITABLE ("": none); an empty /run, no environment.
cat >"$T/scripts/read_only" <<'SCRIPT'
top=$1 writable=$2 path=$PATH
mount --bind "$top" "$top"
mount -t tmpfs t /run
for folder in / /run /tmp /var /var/tmp; do
    [ "$folder" != "$writable" ] && mountpoint -q "$folder" || continue
    mount -o remount,bind,ro "$folder"
done
! touch /etc/coordlfs-test 2>/dev/null || exit 99
shift 2
exec env -i PATH="$path" "$@"
SCRIPT
read_only=(unshare -m --propagation private bash "$T/scripts/read_only" "$T")

say "read-only root, /run writable"
cat >"$T/scripts/job" <<'JOB'
set -e
program=$1 S=$2 M=$3 C=$4 limit=$5
"$program" mount --foreground "$S" "$M" --dram 64M --nvme 64M \
    --cache-dir "$C" >"$C/log" 2>&1 &
daemon=$!
for ((i = 0; i < limit * 20; i++)); do
    ! "$program" status "$M" --ready >/dev/null 2>&1 || break
    kill -0 $daemon || { cat "$C/log" >&2; exit 1; }
    sleep 0.05
done
diff -r "$S" "$M"
"$program" warm "$M" >/dev/null
"$program" verify "$M" >/dev/null
"$program" doctor --cache-dir "$C" >"$C/doctor" || true
"$program" umount "$M"
wait $daemon
# And in the background.
"$program" mount "$S" "$M" --dram 64M --cache-dir "$C" --log-file "$C/log2"
diff -r "$S" "$M"
"$program" umount "$M"
JOB
rm -rf "$C" && mkdir "$C"
LOGS+=("$C/log" "$C/log2")
assert_exit 0 "" "${read_only[@]}" /run bash "$T/scripts/job" "$PROGRAM" "$S" "$M" "$C" \
    $((20 * SLOW))
assert_eq "$(our_pids)" "" "processes left"

say "read-only root, what cannot be made is named"
refused() { # REGEX WRITABLE OPTION...
    local regex=$1 writable=$2
    shift 2
    assert_exit 1 "$regex" "${read_only[@]}" "$writable" "$PROGRAM" mount "$S" "$M" \
        --dram 64M "$@"
    assert_eq "$(wc -l <<<"$OUTPUT")" 1 "lines of: $OUTPUT"
}
refused "/var/cache/coordlfs.*Read-only.*--cache-dir" /run --log-file "$T/log"
refused "/var/log/c.log.*Read-only.*--log-file" /run --cache-dir "$C" \
    --log-file /var/log/c.log
refused "/run/coordlfs.*Read-only.*/run" "" --cache-dir "$C" --log-file "$T/log"
