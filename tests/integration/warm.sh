#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# warm returns when everything that fits is pinned; again it is quick; it goes
# on after a file that fails, and names it; its output suits a pipe.
. "$(dirname "$0")/lib.sh"
require
tool make_many
"$REPLY" "$S/many" 3000 1000 100000 300
head -c 11000000 /dev/urandom >"$S/large"
: >"$S/empty"
mkfifo "$S/fifo"
bytes=$(tree_bytes "$S")

warm() {
    OUTPUT=$(timeout $((100 * SLOW)) "$PROGRAM" warm "$M" 2>&1 </dev/null)
}

plain_output() {
    [ -n "$OUTPUT" ] || fail "warm says nothing"
    if grep -q $'[\r\e\b]' <<<"$OUTPUT"; then
        fail "warm writes control characters into a pipe"
    fi
    assert_le "$(wc -l <<<"$OUTPUT")" 60 "lines of progress"
}

say "all fits"
start_mount --dram 512M
warm || fail "warm ended with $?: $OUTPUT"
plain_output
assert_eq "$(js tiers.dram.item_bytes)" "$bytes" "pinned when warm returns"
before=$(js source.read_bytes)
within 2000 "warm again" warm
assert_eq "$(js source.read_bytes)" "$before" "source bytes of the second warm"
drop_caches
diff -r -x fifo "$S" "$M" || fail "bytes"
assert_eq "$(js source.read_bytes)" "$before" "source bytes after warm"
stop_mount

say "again after a remount"
start_mount --dram 512M
warm || fail "warm ended with $?: $OUTPUT"
assert_eq "$(js tiers.dram.item_bytes)" "$bytes" "pinned when warm returns"
stop_mount

say "half fits"
C=$T/cache2
mkdir "$C"
start_mount --dram $((bytes / 2))
warm || fail "warm ended with $?: $OUTPUT"
assert_ge "$(js tiers.dram.used_bytes)" $((bytes * 47 / 100)) "used bytes"
# Nothing is read that cannot be kept, but for what was in hand.
assert_le "$(js source.read_bytes)" $((bytes * 6 / 10)) "source bytes"
stop_mount

say "interrupted, then taken up again"
C=$T/cache3
mkdir "$C"
start_mount --dram 512M --source-bandwidth 40M
timeout -s INT 1 "$PROGRAM" warm "$M" >/dev/null 2>&1 || true
cached=$(js items.cached)
say "cached at the interruption: $cached"
kill -9 "$(js daemon.pid)"
warm || fail "warm ended with $?: $OUTPUT"
assert_eq "$(js tiers.dram.item_bytes)" "$bytes" "pinned when warm returns"
assert_le "$(js source.read_bytes)" $((bytes * 11 / 10)) "source bytes"
stop_mount

say "a file that fails"
# Of a file with a damaged indirect block the first 12 blocks can be read.
C=$T/cache4
mkdir "$C" "$T/bad"
truncate -s 64M "$T/image"
broken() {
    local block
    command -v mkfs.ext4 debugfs >/dev/null &&
        mkfs.ext4 -q -b 1024 -O '^extents,^64bit,^metadata_csum' "$T/image" &&
        mount -o loop "$T/image" "$T/bad" || return 1
    on_exit "umount -l '$T/bad'"
    mkdir "$T/bad/a" "$T/bad/z"
    head -c 100000 /dev/urandom >"$T/bad/a/good"
    head -c 30000 /dev/urandom >"$T/bad/m-broken"
    head -c 100000 /dev/urandom >"$T/bad/z/good"
    umount "$T/bad"
    block=$(debugfs -R 'stat /m-broken' "$T/image" 2>/dev/null |
        sed -n 's/.*(IND):\([0-9]*\).*/\1/p')
    [ -n "$block" ] || return 1
    head -c 1024 /dev/zero | tr '\0' '\377' |
        dd of="$T/image" bs=1024 seek="$block" conv=notrunc 2>/dev/null
    mount -o loop,errors=continue "$T/image" "$T/bad" || return 1
    ! cat "$T/bad/m-broken" >/dev/null 2>&1
}
if broken; then
    expect_error m-broken
    S=$T/bad
    start_mount --dram 64M
    rc=0
    warm || rc=$?
    assert_eq $rc 1 "exit code of warm with a file that fails"
    grep -q m-broken <<<"$OUTPUT" || fail "the file is not named: $OUTPUT"
    plain_output
    cmp "$S/a/good" "$M/a/good"
    cmp "$S/z/good" "$M/z/good"
    assert_ge "$(js tiers.dram.item_bytes)" 200000 "pinned"
    assert_ge "$(js source.errors)" 1 "source errors"
    cat "$M/m-broken" >/dev/null 2>&1 && fail "the broken file can be read"
    stop_mount
else
    say "left out: no file that fails can be made here"
fi

say "a file that changed since it was listed"
S=$T/src C=$T/cache
start_mount --dram 512M
find "$M" -printf '' >/dev/null
head -c 5000 /dev/urandom >"$S/many/d00001/f0000301"
expect_error 'changed|differs|stale'
warm || say "warm says: $(tail -n 3 <<<"$OUTPUT")"
assert_ge "$(js tiers.dram.item_bytes)" $((bytes * 95 / 100)) "pinned"
stop_mount
