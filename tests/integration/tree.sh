#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A tree of everything reads back identical, with a cold and with a warm index,
# in place too, and shows the same inode numbers after a remount.
. "$(dirname "$0")/lib.sh"
require diff setpriv

python3 "$HERE/make_tree.py" "$S" 100000
compare() { python3 "$HERE/compare_tree.py" "$@"; }

start_mount --dram 256M
say "cold index"
compare --save "$T/inodes" "$S" "$M"
# Special files and holes are left to compare_tree.py.
diff -r --no-dereference -x special -x sparse "$S" "$M" || fail "diff -r"
say "the same mount again"
compare --no-bytes --same "$T/inodes" "$S" "$M"
stop_mount
start_mount --dram 256M
say "warm index"
drop_caches
compare --same "$T/inodes" "$S" "$M"

# Permissions are judged by mode and owner, also for others than root.
as() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }
# shellcheck disable=SC2016
may='cd "$1" && for path in *; do
        [[ $path = folder-* ]] || { cat "$path" >/dev/null; echo "$path $?"; continue; }
        ls "$path"; echo "$path $?"
        (cd "$path"); echo "$path/ $?"
        cat "$path/file"; echo "$path/file $?"
        stat -c %n "$path/file"; echo "$path/file $?"
    done 2>&1 | sed "s/.*: //"'
for top in "$S" "$M"; do
    for uid in 0 65534 256; do
        echo "uid $uid"
        as $uid bash -c "$may" - "$top/modes"
    done >"$T/permissions.$(basename "$top")"
done
diff "$T/permissions.src" "$T/permissions.mnt" || fail "permissions"
grep -q "^Permission denied" "$T/permissions.mnt" || fail "nothing is refused"
room() { stat -f -c '%b %c %S %l' "$1"; }
assert_eq "$(room "$M")" "$(room "$S")" "statfs"
stop_mount

say "in place"
mkdir "$T/plain"
mount --bind "$S" "$T/plain"
on_exit "umount -l '$T/plain'"
M=$S
start_mount --dram 256M
rm -rf "$T/inodes"
compare --no-bytes "$T/plain" "$M"
diff -r --no-dereference "$T/plain/sizes" "$M/sizes" || fail "diff in place"
stop_mount
assert_eq "$(our_pids)" "" "processes left"
