#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Link counts and block counts that tree walkers, du and tar rely on, with a
# cold and with a warm index. (A10, A11)
. "$(dirname "$0")/lib.sh"
require perl tar du

mkdir -p "$S"/a/{b,c}/d
touch "$S"/a/{b,c}/d/f
ln "$S/a/b/d/f" "$S/g"
head -c 3M /dev/urandom >"$S/f"
truncate -s 1G "$S/h"
echo x >>"$S/h"
sync -f "$S" # so that block counts stand still

# shellcheck disable=SC2016
found() { perl -MFile::Find -e '$File::Find::dont_use_nlink = 0;
    find(sub { $n++ }, shift); print "$n\n"' "$1"; }
links() { (cd "$1" && stat -c '%n %h' a a/b a/b/d g a/b/d/f); }
blocks() { (cd "$1" && stat -c '%n %s %b %B' f h && du -sk .); }

check() {
    say "$1"
    assert_eq "$(found "$M")" "$(found "$S")" "what File::Find finds"
    assert_eq "$(links "$M")" "$(links "$S")" "link counts"
    assert_eq "$(blocks "$M")" "$(blocks "$S")" "block counts"
    rm -rf "$T/x" "$T/a.tar" "$T/h2"
    mkdir "$T/x"
    tar -C "$M" -cSf "$T/a.tar" .
    tar -C "$T/x" -xf "$T/a.tar"
    diff -r "$S" "$T/x" || fail "tar -S"
    cp --sparse=auto "$M/h" "$T/h2"
    cmp "$S/h" "$T/h2"
}

start_mount --dram 64M
check "cold index"
stop_mount
start_mount --dram 64M
check "warm index"
stop_mount
