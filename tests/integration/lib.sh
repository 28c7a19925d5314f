# SPDX-License-Identifier: Apache-2.0
# Shared by the integration tests; source it first. Bash, as root.
#
# It makes a temporary folder $T with a source $S, a mount point $M and a cache
# directory $C. The program under test is copied to $T/bin, so that "our"
# processes are those whose executable lies there: nothing else is ever killed,
# and nothing outside $T is ever unmounted. Tools in C are compiled on demand,
# or taken from $COORDLFS_TOOLS.
#
# A test exits with 0 (passed), 77 (skipped, with the reason) or else. At exit
# a line of level error in a log, unless announced by expect_error, a
# sanitizer's report, a mount or a process that is left make it fail.
#
# From the environment:
#   COORDLFS_BIN    the program (default: the first argument, or of PATH)
#   COORDLFS_TOOLS  folder of compiled tools (default: compile)
#   COORDLFS_LONG   1: the long sizes
#   TEST_SLOW       factor on every time limit (sanitizers: 5 to 20)
#   SEED            repeat a run
#   TEST_KEEP       1: keep $T
#   TMPDIR          where $T is made (default: /var/tmp)
# shellcheck shell=bash disable=SC2034

set -eEuo pipefail
export LC_ALL=C
umask 022
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
NAME=$(basename "$0" .sh)
LONG=${COORDLFS_LONG:-0}
SLOW=${TEST_SLOW:-1}
SEED=${SEED:-$((RANDOM * 32768 + RANDOM))}
TOOLS=${COORDLFS_TOOLS:-}
BIN=${COORDLFS_BIN:-${1:-$(command -v coordlfs || true)}}
# Pauses, other than limits, need not grow as much.
LINGER=$((SLOW < 4 ? SLOW : 4))
# The rest of COORDLFS_* would be options of the program.
# shellcheck disable=SC2086
unset ${!COORDLFS_@}
RANDOM=$((SEED % 32768))

ON_EXIT=()
LOGS=()
ERRORS_EXPECTED=()
MOUNT_CGROUP=""
T="" S="" M="" C="" PROGRAM="" REPLY="" OUTPUT=""

say() { printf '%s: %s\n' "$NAME" "$*"; }

fail() {
    say "FAILED: $*" >&2
    exit 1
}

skip() {
    say "skipped: $*"
    exit 77
}

# on_exit COMMAND: evaluated at exit, last one first, also after a failure.
on_exit() { ON_EXIT+=("$*"); }

# require COMMAND...: skips unless all of them and what a mount needs are there.
require() {
    local c
    [ "$(id -u)" = 0 ] || skip "needs root"
    [ -c /dev/fuse ] || skip "needs /dev/fuse"
    for c in python3 timeout "$@"; do
        command -v "$c" >/dev/null || skip "needs $c"
    done
    [ -x "$BIN" ] || skip "no program to test: set COORDLFS_BIN"
    cp "$BIN" "$PROGRAM"
}

# ---- asserting ----

# assert_eq ACTUAL EXPECTED WHAT
assert_eq() { [ "$1" = "$2" ] || fail "$3: got '$1', expected '$2'"; }
# assert_le / assert_ge ACTUAL BOUND WHAT, integers
assert_le() { [ "$1" -le "$2" ] || fail "$3: got $1, expected at most $2"; }
assert_ge() { [ "$1" -ge "$2" ] || fail "$3: got $1, expected at least $2"; }

# assert_exit CODES REGEX COMMAND...: the command ends with one of CODES (as
# "1|4") and its output, kept in $OUTPUT, matches REGEX (case ignored).
assert_exit() {
    local codes=$1 regex=$2 rc=0
    shift 2
    OUTPUT=$(timeout "$((60 * SLOW))" "$@" </dev/null 2>&1) || rc=$?
    [[ "|$codes|" == *"|$rc|"* ]] ||
        fail "'$*' ended with $rc, expected $codes; it said: $OUTPUT"
    grep -qiE -- "$regex" <<<"$OUTPUT" ||
        fail "'$*' does not say /$regex/ but: $OUTPUT"
}

# wait_for SECONDS CONDITION: until the shell condition holds.
wait_for() {
    local until=$(($(now_ms) + $1 * SLOW * 1000))
    until eval "$2"; do
        [ "$(now_ms)" -lt "$until" ] || fail "not within $1 s: $2"
        sleep 0.05
    done
}

now_ms() {
    local us=${EPOCHREALTIME/[.,]/}
    echo "${us%???}"
}

# within MS WHAT COMMAND...: the command succeeds in that time.
within() {
    local limit=$1 what=$2 begin end
    shift 2
    begin=$(now_ms)
    "$@" || fail "$what failed"
    end=$(now_ms)
    say "$what took $((end - begin)) ms"
    assert_le $((end - begin)) $((limit * SLOW)) "$what (ms)"
}

# rnd N: a number below N in $REPLY; it follows from the seed.
rnd() { REPLY=$(((RANDOM * 32768 + RANDOM) % $1)); }

# ---- the program ----

coordlfs() { timeout "$((60 * SLOW))" "$PROGRAM" "$@"; }

# expect_error REGEX: such lines of level error in the log are right.
expect_error() { ERRORS_EXPECTED+=("$1"); }

# start_mount OPTION...: mounts $S at $M (over itself when both are equal), in
# the cgroup $MOUNT_CGROUP if that is set.
start_mount() {
    local args=("$S") rc=0
    [ "$M" = "$S" ] || args+=("$M")
    (
        [ -z "$MOUNT_CGROUP" ] || echo "$BASHPID" >"$MOUNT_CGROUP/cgroup.procs"
        exec timeout "$((30 * SLOW))" "$PROGRAM" mount "${args[@]}" \
            --cache-dir "$C" --log-file "$T/log" "$@"
    ) >"$T/mount.out" 2>&1 </dev/null || rc=$?
    [ "$rc" = 0 ] ||
        fail "mount $* ended with $rc: $(cat "$T/mount.out")"
}

stop_mount() {
    timeout "$((30 * SLOW))" "$PROGRAM" umount "$M" >"$T/umount.out" 2>&1 ||
        fail "umount ended with $?: $(cat "$T/umount.out")"
}

# js FIELD: one field of status --json, dots between the levels.
js() {
    timeout "$((20 * SLOW))" "$PROGRAM" status "$M" --json |
        python3 -c 'import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[key]
print(value if isinstance(value, str) else json.dumps(value))' "$1"
}

# Until nothing is admitted any more: the numbers stand still for 1 s.
settle() {
    local seen="" same=0 now tries=0
    while [ $same -lt 4 ]; do
        now=$(js tiers.dram)$(js items.cached)$(js source.read_bytes)
        if [ "$now" = "$seen" ]; then same=$((same + 1)); else same=0; fi
        seen=$now
        tries=$((tries + 1))
        [ $tries -lt $((300 * SLOW)) ] || fail "admissions do not settle: $now"
        sleep 0.25
    done
}

# Ids of our processes, in one line.
our_pids() {
    find /proc -maxdepth 2 -path '/proc/[0-9]*/exe' \
        -lname "$PROGRAM*" 2>/dev/null |
        cut -d/ -f3 | tr '\n' ' ' || true
}

# Mount points below $T, the last mounted first.
our_mounts() {
    python3 - "$T" <<'PYTHON'
import re, sys
top = sys.argv[1].encode() + b"/"
lines = open("/proc/self/mountinfo", "rb").read().splitlines()
for line in reversed(lines):
    path = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]),
                  line.split(b" ")[4])
    if path.startswith(top):
        sys.stdout.buffer.write(path + b"\0")
PYTHON
}

# mounts_at PATH: how many mounts are stacked there.
mounts_at() {
    python3 -c 'import sys
want = sys.argv[1].encode()
print(sum(line.split(b" ")[4] == want
          for line in open("/proc/self/mountinfo", "rb")))' "$1"
}

# tree_bytes FOLDER: of all its files. (awk prints large numbers as 2.2e+09.)
tree_bytes() {
    find "$1" -type f -printf '%s\n' | awk '{ n += $1 } END { printf "%.0f\n", n }'
}

# drop_caches [1|2|3]
drop_caches() { echo "${1:-3}" >/proc/sys/vm/drop_caches; }

# tool NAME: path of a program of ours, compiled if need be, in $REPLY.
tool() {
    REPLY=$TOOLS/$1
    if [ -z "$TOOLS" ] || [ ! -x "$REPLY" ]; then
        REPLY=$T/bin/$1
        [ -x "$REPLY" ] || ${CC:-cc} -O2 -std=gnu17 -D_GNU_SOURCE -pthread \
            -o "$REPLY" "$HERE/$1.c"
    fi
}

# ---- memory cgroups, version 1 or 2 ----

# cgroup_try NAME [LIMIT_BYTES]: its folder in $REPLY; removed at exit. Fails
# where none can be made.
cgroup_try() {
    local top=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
    if [ ! -e $top/memory.limit_in_bytes ]; then
        top=/sys/fs/cgroup limit=memory.max
        echo +memory 2>/dev/null >$top/cgroup.subtree_control || return 1
    fi
    REPLY=$top/coordlfs-test-$$-$1
    mkdir "$REPLY" 2>/dev/null || return 1
    on_exit "cgroup_remove '$REPLY'"
    [ -z "${2:-}" ] || echo "$2" >"$REPLY/$limit"
}

# cgroup_new NAME [LIMIT_BYTES]: or skips the test.
cgroup_new() { cgroup_try "$@" || skip "memory cgroups cannot be made here"; }

cgroup_remove() {
    local pid tries=0
    until rmdir "$1" 2>/dev/null; do
        while read -r pid; do
            echo "$pid" >"$(dirname "$1")/cgroup.procs" || true
        done <"$1/cgroup.procs" 2>/dev/null
        tries=$((tries + 1))
        [ $tries -lt 50 ] || return 1
        sleep 0.1
    done
}

# cgroup_stat FOLDER FIELD: of memory.stat, 0 if it is not there.
cgroup_stat() {
    awk -v f="$2" '$1 == f { v = $2 } END { print v + 0 }' "$1/memory.stat"
}

# in_cgroup FOLDER COMMAND...
in_cgroup() (
    echo "$BASHPID" >"$1/cgroup.procs"
    shift
    exec "$@"
)

# ---- start and end of a test ----

unexpected_errors() {
    local log regex lines
    for log in "${LOGS[@]}"; do
        [ -e "$log" ] || continue
        lines=$(grep -E '^[^ ]+ error ' "$log" || true)
        for regex in "${ERRORS_EXPECTED[@]}"; do
            lines=$(grep -vE -- "$regex" <<<"$lines" || true)
        done
        [ -z "$lines" ] || printf '%s\n' "$lines"
    done
}

unmount_ours() {
    local point pid
    while IFS= read -r -d '' point; do
        timeout 20 "$PROGRAM" umount "$point" >/dev/null 2>&1
        umount -l "$point" 2>/dev/null
    done < <(our_mounts)
    for pid in $(our_pids); do
        kill -9 "$pid" 2>/dev/null
    done
}

finish() {
    local rc=$? i errors log file
    trap - EXIT INT TERM ERR
    set +e
    for ((i = ${#ON_EXIT[@]} - 1; i >= 0; i--)); do
        eval "${ON_EXIT[i]}" >/dev/null 2>&1
    done
    unmount_ours
    errors=$(unexpected_errors)
    if [ -n "$errors" ] && [ $rc = 0 ]; then
        say "FAILED: errors in the log that were not announced:" >&2
        printf '%s\n' "$errors" | head -n 20 >&2
        rc=1
    fi
    for file in "$T"/sanitizer.*; do
        [ -e "$file" ] || continue
        say "FAILED: a sanitizer's report:" >&2
        head -n 60 "$file" >&2
        rc=1
    done
    if [ $rc != 0 ] && [ $rc != 77 ]; then
        for log in "${LOGS[@]}"; do
            [ -s "$log" ] || continue
            say "end of $log:" >&2
            tail -n 40 "$log" >&2
        done
        say "failed (seed $SEED)" >&2
    fi
    if [ "${TEST_KEEP:-0}" = 1 ]; then
        say "kept: $T"
    elif [ -z "$(our_mounts | tr -d '\0')" ]; then
        rm -rf --one-file-system "$T"
    fi
    [ $rc != 0 ] || say "passed"
    exit $rc
}

T=$(mktemp -d "${TMPDIR:-/var/tmp}/coordlfs-test.XXXX")
chmod 755 "$T"
trap finish EXIT
trap 'say "line $LINENO: failed: $BASH_COMMAND" >&2' ERR
trap 'exit 130' INT
trap 'exit 143' TERM
S=$T/src M=$T/mnt C=$T/cache
PROGRAM=$T/bin/coordlfs
mkdir "$S" "$M" "$C" "$T/bin"
LOGS+=("$T/log")
for sanitizer in ASAN TSAN UBSAN LSAN; do
    options=${sanitizer}_OPTIONS
    export "$options=${!options:+${!options}:}log_path=$T/sanitizer"
done
unset sanitizer options
say "seed $SEED"
