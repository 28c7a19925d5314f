#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each command once on a small mount, with its numbers and its exit codes; paths
# of every kind; and configurations that are none.
. "$(dirname "$0")/lib.sh"
require unshare

# "${alone[@]}" COMMAND...: in a mount namespace whose only coordlfs mount is
# $M, since other tests may run beside this one.
cat >"$T/alone" <<'PYTHON'
import os, re, subprocess, sys
for line in reversed(open("/proc/self/mountinfo", "rb").read().splitlines()):
    path = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]),
                  line.split(b" ")[4])
    kind = line.split(b" - ")[1].split(b" ")[0]
    if kind == b"fuse.coordlfs" and path != os.fsencode(sys.argv[1]):
        subprocess.run(["umount", "-l", path])
os.execv(sys.argv[2], sys.argv[2:])
PYTHON
alone=(unshare --mount --propagation private python3 "$T/alone" "$M")

# ---- before anything is mounted ----

assert_exit 3 "nothing is mounted" "${alone[@]}" "$PROGRAM" list
for command in umount status stats warm "warm --check" list refresh verify clear; do
    # shellcheck disable=SC2086
    assert_exit 3 "not a coordlfs mount" "$PROGRAM" $command "$M"
done
assert_exit 3 "not a coordlfs mount" "$PROGRAM" info "$M"
assert_exit 2 "did you mean status" "$PROGRAM" statsu
assert_exit 2 "did you mean --check" "$PROGRAM" warm --chekc
assert_exit 2 "did you mean --dram" "$PROGRAM" mount --darm 1M "$S"
assert_exit 2 "see coordlfs help" "$PROGRAM" qqqqqq
assert_exit 2 "info needs a FILE" "$PROGRAM" info
assert_exit 2 "takes one path" "$PROGRAM" list a b
assert_exit 2 "takes no value" "$PROGRAM" list --json=yes
assert_exit 2 "needs a value" "$PROGRAM" stats --count
assert_exit 2 "whole number" "$PROGRAM" stats --count 1.5
assert_exit 2 "number of seconds" "$PROGRAM" stats --interval=0
assert_exit 0 "^coordlfs warm .*--check" "$PROGRAM" warm "$M" --help

# ---- configurations ----

conf=$T/conf
check_config() { # EXIT-CODE REGEX FILE-CONTENT
    printf '%b' "$3" >"$conf"
    assert_exit "$1" "$2" "$PROGRAM" mount --check-config --config "$conf" "$S" "$M"
    [ "$1" = 0 ] || assert_eq "$(wc -l <<<"$OUTPUT")" 1 "lines of: $OUTPUT"
}
check_config 0 "^dram +2G +$conf:2\$" '[mount]\ndram = 2G\n'
grep -q "^DATASET *$S\$" <<<"$OUTPUT" || fail "no DATASET in: $OUTPUT"
grep -q "^nvme *auto *default\$" <<<"$OUTPUT" || fail "no nvme in: $OUTPUT"
check_config 2 "$conf:3: unknown option drma; did you mean dram\?" '[mount]\n\ndrma = 1G\n'
check_config 2 "$conf:1: threads: \"many\" is not valid; allowed: a whole" 'threads = many\n'
check_config 2 "$conf:2: free-space: \"10\" is not valid; allowed: a share" '[mount]\nfree-space = 10\n'
check_config 2 "$conf:3: section \[mount\] is there twice, first in line 1" '[mount]\n\n[mount]\n'
check_config 2 "$conf:1: not a text" '\177ELF\002\001\001\0\n'
check_config 2 "$conf:1: .* is not understood" '\377\376 rubbish\n'
head -c 2M /dev/zero | tr '\0' '\n' >"$conf"
assert_exit 2 "more than 1 MiB" "$PROGRAM" mount --check-config --config "$conf"
assert_exit 2 "cannot open the configuration file" "$PROGRAM" mount --check-config --config "$T/none"
assert_exit 2 "not a configuration file" "$PROGRAM" mount --check-config --config /dev/zero
COORDLFS_THREADS=7 assert_exit 0 "threads +7 +environment variable COORDLFS_THREADS" \
    "$PROGRAM" mount --check-config
assert_exit 1 "must be a directory" "$PROGRAM" mount --check-config "$T/none"
assert_exit 1 "the cache directory $S/c lies inside the dataset" \
    "$PROGRAM" mount --check-config --cache-dir "$S/c" "$S" "$M"
assert_exit 1 "mount point $T/mnt lies inside the dataset" "$PROGRAM" mount --check-config "$T" "$M"
assert_eq "$(our_mounts | tr -d '\0')" "" "mounts after --check-config"

# ---- a small mount ----

odd=$'blank %20%s\nline\\n'
mkdir -p "$S/sub/deep" "$S/$odd" "$S/one-link"
for i in 1 2 3; do
    head -c $((i * 100000)) /dev/urandom >"$S/sub/f$i"
done
head -c 5000000 /dev/urandom >"$S/sub/deep/long"
head -c 7000 /dev/urandom >"$S/$odd/$odd"
: >"$S/empty"
mkfifo "$S/pipe"
ln -s sub/f1 "$S/inside"
ln -s sub "$S/folder"
ln -s "$T/outside" "$S/one-link/outside"
ln -s "$T" "$S/way-out"
ln -s nowhere "$S/dangling"
echo outside >"$T/outside"
start_mount --nvme 0 --dram 64M --item-bytes 1M

# Reads nothing, and says what is missing.
assert_exit 1 "^missing +9 items, 5.3 MiB, of 5 files" "$PROGRAM" warm --check "$M"
assert_eq "$(js source.read_bytes)" 0 "bytes read by warm --check"
assert_exit 0 "^1 files, 97.7 KiB done" "$PROGRAM" warm "$M/inside"
assert_exit 0 "^all +1 items.*|^cached +1 items, 97.7 KiB" "$PROGRAM" warm --check "$M/sub/f1"
assert_exit 0 "^4 files" "$PROGRAM" warm "$M/folder"
assert_exit 0 "^missing +0 items" "$PROGRAM" warm --check "$M/folder/deep"
assert_exit 0 "^1 files, 6.8 KiB done" "$PROGRAM" warm "$M/$odd"
assert_exit 0 "^5 files.* has 9 items cached" "$PROGRAM" warm "$M"
assert_exit 0 "^in DRAM +9 items, 5.3 MiB" "${alone[@]}" "$PROGRAM" warm --check
assert_exit 1 "way-out leads out of the dataset, to $T, which is not" "$PROGRAM" warm "$M/way-out"
assert_exit 1 "none: No such file" "$PROGRAM" warm "$M/none"

# info: several files, of every kind, from inside the mount too.
assert_exit 0 "cached +97.7 KiB of it, in DRAM" "$PROGRAM" info "$M/sub/f1"
assert_exit 0 "4.8 MiB, 5 of 5 items" "$PROGRAM" info "$M/sub/deep/long"
(cd "$M/sub" && assert_exit 0 "DRAM +195.3 KiB" "$PROGRAM" info f2 ../sub/f3)
assert_eq "$(cd "$M/sub" && coordlfs info f2 ../sub/f3 | grep -c '^  size')" 2 "files told of"
assert_exit 0 "6.8 KiB, 1 item" "$PROGRAM" info "$M/$odd/$odd"
assert_exit 0 "an empty file" "$PROGRAM" info "$M/empty"
assert_exit 0 "pipe: not a regular file" "$PROGRAM" info "$M/pipe"
assert_exit 0 "leads +to $M/sub/f1" "$PROGRAM" info "$M/inside"
assert_exit 0 "out of the dataset, to $T/outside, which is not cached" \
    "$PROGRAM" info "$M/one-link/outside"
assert_exit 0 "nowhere: No such file" "$PROGRAM" info "$M/dangling"
assert_exit 0 "directory" "$PROGRAM" info "$M"
assert_exit 1 "none: No such file" "$PROGRAM" info "$M/none" "$M/sub/f1"
grep -q "in DRAM" <<<"$OUTPUT" || fail "info ends at the first error: $OUTPUT"
assert_exit 3 "not a coordlfs mount" "$PROGRAM" info "$S/sub/f1" "$M/sub/f1"

# list: the lines and their sum.
assert_exit 0 "5.3 MiB +5.3 MiB +0 B +total of 6 files" "$PROGRAM" list "$M"
coordlfs list --json "$M" >"$T/list"
python3 - "$T/list" <<'PYTHON' || fail "list --json: $(cat "$T/list")"
import json, sys
files = {f["path"]: f for f in map(json.loads, open(sys.argv[1]))}
odd = "blank %20%s\\x0aline\\n"
assert set(files) == {"empty", "sub/f1", "sub/f2", "sub/f3", "sub/deep/long",
                      odd + "/" + odd}, files
long = files["sub/deep/long"]
assert long["size"] == long["dram_bytes"] == long["cached_bytes"] == 5000000
assert long["items"] == long["dram_items"] == long["cached_items"] == 5
assert files["empty"]["items"] == 0
PYTHON
assert_eq "$(coordlfs list --json "$M/sub/f2" | wc -l)" 1 "lines for one file"
assert_exit 1 "none: No such file" "$PROGRAM" list "$M/none"

# stats
coordlfs stats --count 2 --interval 0.2 "$M" >"$T/stats"
assert_eq "$(wc -l <"$T/stats")" 4 "lines of stats: $(cat "$T/stats")"
assert_eq "$(awk 'END { print NF, $12, $13, $14 }' "$T/stats")" "17 9 5.3 MiB" "last line of stats"

# status as text
assert_exit 0 "^DRAM +5.4 MiB of 64.0 MiB: 9 items, 5.3 MiB" "$PROGRAM" status "$M"
grep -q "^NVMe *none: --nvme is 0" <<<"$OUTPUT" || fail "no NVMe in: $OUTPUT"

# ---- doctor ----

# says REGEX: the output does, its paragraphs as one line each.
says() {
    OUTPUT=$(sed -z 's/\n         */ /g' <<<"$OUTPUT")
    grep -qE -- "$1" <<<"$OUTPUT" || fail "doctor does not say /$1/: $OUTPUT"
}
# doctor EXIT-CODE REGEX ARGUMENT...
doctor() {
    local code=$1 regex=$2
    shift 2
    assert_exit "$code" "problem" "$PROGRAM" doctor "$@"
    says "$regex"
}

doctor 0 "of 5 symbolic links lead out" "$S" --cache-dir "$C"
says "coordlfs has it mounted at $M"
says "ok +RocksDB [0-9]"
doctor 0 "by coordlfs at $M" "$M" --cache-dir "$C"
doctor 1 "problem +dataset $T/none" "$T/none" --cache-dir "$C"
doctor 1 "problem +nothing can be written in /proc" --cache-dir /proc
mkdir -p "$T/nest/tmpfs"
mount -t tmpfs tmpfs "$T/nest/tmpfs"
on_exit "umount -l '$T/nest/tmpfs'"
doctor 0 "note +the cache directory is on a tmpfs" --cache-dir "$T/nest/tmpfs/c"
[ ! -e "$T/nest/tmpfs/c" ] || fail "doctor made the cache directory"
doctor 0 "1 mounts lie inside the dataset, such as $T/nest/tmpfs" "$T/nest" --cache-dir "$C"
doctor 1 "problem +the cache directory $S/c lies inside the dataset" "$S" --cache-dir "$S/c"

# The limit of a group's parent is found, and named.
memory=/sys/fs/cgroup/memory
limit=memory.limit_in_bytes
if [ ! -e $memory/memory.limit_in_bytes ]; then
    memory=/sys/fs/cgroup
    limit=memory.max
fi
group=$memory/coordlfs-commands.$$
if mkdir "$group" 2>/dev/null && mkdir "$group/child" 2>/dev/null &&
    echo $((600 << 20)) >"$group/$limit"; then
    on_exit "rmdir '$group/child' '$group'"
    # shellcheck disable=SC2016
    assert_exit 0 "600.0 MiB, limited by the" bash -c \
        'echo $$ >"$1/child/cgroup.procs"; exec "$2" doctor --cache-dir "$3"' \
        - "$group" "$PROGRAM" "$C"
    says "limited by the control group $group;"
else
    rmdir "$group" 2>/dev/null || true
    say "no memory cgroup with a limit can be made here: not tested"
fi

# ---- the worker dies, the mount goes ----

kill -9 "$(js daemon.pid)"
assert_exit 0 "^missing +0 items" "$PROGRAM" warm --check "$M"
coordlfs stats --interval 0.1 "$M" >"$T/stats" 2>"$T/stats.err" &
stats=$!
wait_for 5 "[ -s '$T/stats' ]"
stop_mount
rc=0
wait $stats || rc=$?
assert_eq $rc 3 "exit code of stats when the mount goes: $(cat "$T/stats.err")"
assert_exit 3 "not a coordlfs" "$PROGRAM" list "$M"

# ---- the other tier ----

start_mount --dram 0 --nvme 64M --item-bytes 1M
assert_exit 0 "^5 files.* has 9 items cached" "$PROGRAM" warm "$M"
stop_mount
start_mount --dram 0 --nvme 64M --item-bytes 1M
assert_exit 0 "^on NVMe +9 items, 5.3 MiB" "$PROGRAM" warm --check "$M"
assert_exit 0 "cached +4.8 MiB of it, on NVMe" "$PROGRAM" info "$M/sub/deep/long"
assert_exit 0 "5.3 MiB +0 B +5.3 MiB +total of 6 files" "$PROGRAM" list "$M"
assert_eq "$(js source.read_bytes)" 0 "bytes read by looking"
# Ctrl-C ends stats well.
"$PROGRAM" stats --interval 0.1 "$M" >"$T/stats" &
stats=$!
wait_for 5 "[ -s '$T/stats' ]"
kill -INT $stats
wait $stats || fail "stats ended with $? at Ctrl-C"
assert_eq "$(awk 'END { print $15, $16, $17 }' "$T/stats")" "9 5.3 MiB" "NVMe in stats"
printf 'changed' >>"$S/sub/f1"
stop_mount
start_mount --dram 0 --nvme 64M --item-bytes 1M
assert_exit 1 "^missing +1 items, 97.7 KiB, of 1 files" "$PROGRAM" warm --check "$M"
stop_mount
