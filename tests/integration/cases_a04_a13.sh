#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A dataset that holds more than files: pipes, sockets and device nodes, of
# which nothing is opened or cached, and other file systems mounted inside, that
# are served and left alone. (A04, A13)
. "$(dirname "$0")/lib.sh"
require mount umount mkfifo mknod

# ---- A04 ----

mkdir "$S/d"
for folder in "$S" "$S/d"; do
    mkfifo -m 640 "$folder/p"
    (cd "$folder" && python3 -c 'import socket; socket.socket(1).bind("s")')
    mknod "$folder/n" c 1 3
    mknod "$folder/b" b 259 300
    chmod 666 "$folder/n"
done
head -c 100000 /dev/urandom >"$S/d/f"
kinds() { (cd "$1" && stat -c '%n %F %t %T %a %s %h' ./? d/?); }

# A reader of a pipe gets what a writer of the same mount gives, as anywhere.
talk() {
    local said
    timeout $((10 * SLOW)) cat "$M/p" >"$T/heard" &
    said=$!
    # shellcheck disable=SC2016
    timeout $((10 * SLOW)) bash -c 'echo hello >"$1"' - "$M/p" || return 1
    wait $said && assert_eq "$(cat "$T/heard")" hello "through the pipe"
}

special_files() {
    local command
    assert_eq "$(kinds "$M")" "$(kinds "$S")" "kinds of files"
    for command in warm "warm --check" verify refresh list info; do
        # shellcheck disable=SC2086
        assert_exit 0 "" "$PROGRAM" $command "$M"
    done
    assert_exit 0 "socket: not a regular file" "$PROGRAM" info "$M/n" "$M/s"
    assert_eq "$(js items.cached)" 1 "items cached"
    assert_eq "$(js items.known)" 1 "items known"
    assert_exit 1 "permission denied" cat "$M/n"
    assert_exit 1 "permission denied" dd if="$M/b" count=1
    assert_exit 1 "no such device or address" dd if="$M/s" count=1
    talk || fail "a pipe is stuck"
    assert_eq "$(kinds "$M")" "$(kinds "$S")" "kinds of files afterwards"
    cmp "$S/d/f" "$M/d/f"
}

for round in cold warm; do
    start_mount --dram 64M --nvme 64M
    say "special files, $round index"
    special_files
    stop_mount
done
rm -rf "${S:?}"/*
C=$T/cache2
mkdir "$C"

# ---- A13 ----

mkdir -p "$S"/a "$S/b" "$S/c/under" "$T/elsewhere/sub"
echo 1 >"$S/a/f"
echo hidden >"$S/b/hidden"
touch "$S/one"
head -c 300000 /dev/urandom >"$T/elsewhere/sub/g"
mount -t tmpfs tmpfs "$S/b"
mkdir "$S/b/in"
echo 2 >"$S/b/f"
head -c 5000000 /dev/urandom >"$S/b/in/large"
mount --bind "$S/a/f" "$S/one"
mount --bind "$T/elsewhere" "$S/c/under"
truncate -s 40M "$T/image"
mkdir "$S/c/loop"
loop=
if mkfs.ext4 -q "$T/image" 2>/dev/null && mount -o loop "$T/image" "$S/c/loop"; then
    head -c 200000 /dev/urandom >"$S/c/loop/x"
    loop=$S/c/loop
fi
# What lies at S is unmounted by lib.sh also after a failure.
mkdir "$T/plain"
mount --rbind "$S" "$T/plain"
mount --make-rprivate "$T/plain"
inner=("$S/b" "$S/one" "$S/c/under" ${loop:+"$loop"})
present() { # every inner mount, once
    local point
    for point in "${inner[@]}"; do
        assert_eq "$(mounts_at "$point")" 1 "mounts at $point"
    done
}
inodes() { (cd "$1" && find . -printf '%i %p\n'); }

# shellcheck disable=SC2010
inner_mounts() {
    assert_eq "$(cat "$M/b/f" "$M/one" "$M/a/f" | tr '\n' ' ')" "2 1 1 " "bytes"
    diff -r "$T/plain" "$M" || fail "diff"
    python3 "$HERE/compare_tree.py" "$T/plain" "$M"
    find "$M" -ls 2>&1 | grep -i loop | grep -v /c/loop && fail "find: a loop"
    assert_eq "$(inodes "$M" | cut -d' ' -f1 | sort | uniq -d)" "" \
        "inode numbers that are there twice"
    coordlfs warm "$M" >"$T/said"
    assert_exit 0 "" "$PROGRAM" verify "$M"
    assert_exit 0 "" "$PROGRAM" refresh "$M"
    assert_eq "$(js items.cached)" "$(js items.known)" "items cached"
    [ "$round" = warm ] || drop_caches 1
    before=$(js source.read_bytes)
    diff -r "$T/plain" "$M" || fail "diff from the cache"
    assert_eq "$(js source.read_bytes)" "$before" "bytes read from the source"
}

public=$M
for place in "$public" "$S"; do
    for round in cold warm; do
        M=$place
        start_mount --dram 64M --nvme 0
        say "mounts inside the dataset, at $M, $round index"
        inner_mounts
        [ "$M" = "$S" ] || present
        stop_mount
        present
    done
done
# One that is mounted while the dataset is: seen after refresh.
M=$public
start_mount --dram 64M
ls -R "$M" >/dev/null
mkdir "$S/b/later"
mount -t tmpfs tmpfs "$S/b/later"
echo 3 >"$S/b/later/f"
coordlfs refresh "$M" >/dev/null
assert_eq "$(cat "$M/b/later/f")" 3 "mounted later"
umount "$S/b/later"
coordlfs refresh "$M" >/dev/null
assert_eq "$(ls "$M/b/later")" "" "unmounted again"
stop_mount
present
umount -R "$T/plain"
assert_eq "$(our_pids)" "" "processes left"
