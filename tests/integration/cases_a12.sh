#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Commas, blanks, newlines, backslashes, percent signs, quotes, leading dashes
# and bytes that are no UTF-8 in every path: of dataset, mount point, cache
# directory and log file, wherever it stands in a command line and in the mount
# table. (A12)
. "$(dirname "$0")/lib.sh"
require unshare umount

names=($'a b,c\nd\\040e\t=' $'--caf\xe9%s%n' - $'it\'s "*$(id)`;|~:#\\')
# shellcheck disable=SC1003,SC2016,SC2054
[ "$LONG" = 0 ] || names+=('a b' 'a,b' $'a\nb' 'a\040b' $'caf\xe9' '50%s' --x
    "it's" $'\n' $'\xff\xfe' '\' ' ' ',' % -- --help -o '$HOME' '\134' é '#'
    $'\x1b[31m' ... --json '&&' '*' '"')
W=$T/w

gone() { [ -z "$(our_pids)" ]; }
mounted() { mountpoint -q -- "$M"; }

commands() {
    local command inside=$M/f/$name/$name holder
    # What JSON cannot hold is written as \xNN.
    coordlfs status --json -- "$M" | python3 -c 'import json, os, sys
status = json.load(sys.stdin)
def shown(path):
    return "".join(c if ord(c) >= 32 and c.isprintable() else
                   "".join(f"\\x{b:02x}" for b in os.fsencode(c))
                   for c in os.fsencode(path).decode("utf-8", "surrogateescape"))
assert status["state"] == "ready"
for field, path in zip(("dataset", "mountpoint"), sys.argv[1:]):
    assert status[field] == shown(path), (status[field], shown(path))
' "$S" "$M" || fail "status --json"
    assert_exit 0 "ready" "$PROGRAM" status "$M"
    cmp "$S/f/$name/$name" "$inside"
    for command in warm verify refresh list; do
        assert_exit 0 "" "$PROGRAM" $command "$M"
    done
    assert_exit 0 "missing +0" "$PROGRAM" warm --check "$inside"
    assert_exit 0 "in DRAM" "$PROGRAM" info "$inside"
    coordlfs list --json "$inside" | python3 -c 'import json, sys
assert len([json.loads(line) for line in sys.stdin]) == 1' || fail "list --json"
    assert_exit 4 "already a coordlfs mount" "$PROGRAM" mount "$S" "$M" \
        --dram 8M --cache-dir "$C"
    assert_exit 4 "in use by process" "$PROGRAM" mount "$S" "$W/free" \
        --dram 8M --cache-dir "$C"
    # shellcheck disable=SC2217
    sleep 1000 <"$inside" &
    holder=$!
    on_exit "kill $holder"
    assert_exit 4 "process $holder \(.*has a file open" "$PROGRAM" umount "$M"
    kill $holder
    wait $holder 2>/dev/null || true
}

# The same mount, with its paths at every place of a command line.
spellings() {
    local parent=$W/m log=$W/l/$name limit=$((30 * SLOW))
    # As relative paths, which may look like options.
    (cd "$W/d" && timeout $limit "$PROGRAM" mount --cache-dir="../c/$name" \
        --dram=16M --nvme 0 --log-file "$log" -- "$name" "../m/$name")
    (cd "$parent" && coordlfs status --ready -- "$name")
    (cd "$M" && coordlfs status --ready .)
    (cd "$M/f/$name" && coordlfs warm -- "$name" >/dev/null)
    (cd "$parent" && coordlfs umount -- "$name")
    # As -o, where commas are written with a backslash.
    [[ $name == *\\ || $name == *\\,* ]] || timeout $limit "$PROGRAM" mount \
        -o "dram=16M,cache-dir=${C//,/\\,},ro,log-file=${log//,/\\,}" "$S" "$M"
    ! mounted || coordlfs umount "$M"
    # From the environment.
    COORDLFS_CACHE_DIR=$C COORDLFS_DRAM=16M COORDLFS_NVME=0 \
        COORDLFS_LOG_FILE=$log timeout $limit "$PROGRAM" mount "$S" "$M"
    assert_eq "$(find "$W/l" -type f -printf .)" . "log files"
    coordlfs umount "$M"
}

for name in "${names[@]}"; do
    say "$(printf '%q' "$name")"
    mkdir -p "$W"/{d,m,c,l}/"$name" "$W/free"
    S=$W/d/$name M=$W/m/$name C=$W/c/$name
    rmdir "$W/l/$name"
    mkdir -p "$S/f/$name"
    head -c 50000 /dev/urandom | tee "$W/copy" >"$S/f/$name/$name"

    start_mount --dram 16M --nvme 4M
    mounted || fail "not mounted"
    commands
    umount -- "$M"
    wait_for 2 gone
    ! mounted || fail "mounted after umount"
    # All killed: the dead mount is found, and removed.
    start_mount --dram 16M
    # shellcheck disable=SC2046
    kill -9 $(our_pids)
    wait_for 5 gone
    assert_exit 1 "not connected|connection abort" stat "$M"
    start_mount --dram 16M
    cmp "$S/f/$name/$name" "$M/f/$name/$name"
    stop_mount
    ! mounted || fail "mounted after coordlfs umount"
    spellings
    ! mounted || fail "mounted at the end"
    # In place; detached by SIGTERM.
    M=$S
    start_mount --dram 16M
    cmp "$W/copy" "$M/f/$name/$name"
    kill -TERM "$(js daemon.supervisor_pid)"
    wait_for 5 gone
    ! mounted || fail "mounted after SIGTERM"
    # Only visible elsewhere: ended by force.
    start_mount --dram 16M
    unshare -m --propagation private sleep 1000 &
    elsewhere=$!
    on_exit "kill $elsewhere"
    wait_for 5 "grep -qsx sleep /proc/$elsewhere/comm"
    umount -- "$M"
    ! mounted || fail "mounted"
    coordlfs umount --force -- "$M"
    wait_for 2 gone
    kill $elsewhere
    wait $elsewhere 2>/dev/null || true
    # A path cannot begin a line of the log.
    cat "$T/log" "$W"/l/* | grep -avE '^[0-9T:.-]+ (warn|info) [a-z]+: ' &&
        fail "not a line of the log"
    rm -rf "$W"
done
