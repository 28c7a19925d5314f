#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every way of reading gives what the source gives; every way of writing EROFS.
. "$(dirname "$0")/lib.sh"
require cp tar rsync sha256sum

mkdir "$S/folder" "$S/more"
head -c 9500001 /dev/urandom >"$S/big"
head -c 3000000 /dev/urandom >"$S/file"
head -c 3000000 /dev/urandom >"$S/together"
head -c 9000000 /dev/urandom >"$S/together-large"
for i in $(seq 200); do
    rnd 200000
    head -c "$REPLY" /dev/urandom >"$S/more/$i"
done
ln -s file "$S/link"
ln "$S/file" "$S/more/hard"
touch -d '2001-02-03 04:05:06.789' "$S/more/1"

check() {
    local f
    for f in big file more/7; do
        python3 "$HERE/access_check.py" read "$S/$f" "$M/$f" "$SEED"
    done
    rm -rf "$T/copy"
    cp -a "$M" "$T/copy"
    diff -r "$S" "$T/copy" || fail "cp"
    rm -rf "$T/copy"
    mkdir "$T/copy"
    tar -C "$M" -cf - . | tar -C "$T/copy" -xf -
    diff -r "$S" "$T/copy" || fail "tar"
    rsync -ac "$M/" "$T/copy/"
    assert_eq "$(rsync -acni --delete "$S/" "$M/")" "" "rsync -c"
    assert_eq "$(cd "$M" && find . -type f -print0 | sort -z |
        xargs -0 sha256sum)" \
        "$(cd "$S" && find . -type f -print0 | sort -z | xargs -0 sha256sum)" \
        "sha256sum"
}

# Many readers of one uncached file at once: it is loaded once.
many() {
    local before after file=$1 bytes
    tool many_readers
    stat "$M/$file" >/dev/null
    before=$(js source.read_bytes)
    timeout $((60 * SLOW)) "$REPLY" "$S/$file" "$M/$file" 64
    settle
    after=$(js source.read_bytes)
    bytes=$(stat -c %s "$S/$file")
    assert_ge $((after - before)) "$bytes" "source bytes of 64 readers"
    assert_le $((after - before)) $((bytes + 4096)) \
        "source bytes of 64 readers at once"
}

start_mount --dram 256M
many together
many together-large
assert_eq "$(js source.errors)" 0 "source errors"
say "all that fits is cached"
check
settle
check
python3 "$HERE/access_check.py" write "$M"
stop_mount
say "nothing is cached"
start_mount --dram 0
check
drop_caches
check
stop_mount
