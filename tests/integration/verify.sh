#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `verify` finds what is damaged on disk and drops it; readers with O_DIRECT get
# pinned bytes back from the kernel, without the source; `clear` gives all room
# back. Also after the worker was killed.
. "$(dirname "$0")/lib.sh"
require
tool make_many
"$REPLY" "$S" 300 5000 200000 100
head -c 9000001 /dev/urandom >"$S/large"
: >"$S/empty"
dataset=$(tree_bytes "$S")
locked_kib() {
    awk '/^VmLck:/ { print $2 }' "/proc/$(js daemon.pinner_pid)/status"
}
segments() { echo "$C"/*/segments/*; }

# Every file of the mount past the page cache.
read_direct() {
    python3 - "$S" "$M" <<'PYTHON'
import mmap, os, sys
room = mmap.mmap(-1, 1 << 20)
for folder, _, names in os.walk(sys.argv[2]):
    for name in names:
        path = os.path.join(folder, name)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        got = b""
        while (n := os.preadv(fd, [room], len(got))) > 0:
            got += room[:n]
            if n % 4096:
                break
        os.close(fd)
        with open(path.replace(sys.argv[2], sys.argv[1], 1), "rb") as f:
            if f.read() != got:
                sys.exit(f"{path}: other bytes")
PYTHON
}

start_mount --dram $((dataset / 2)) --nvme "$dataset"
before=$(locked_kib)
coordlfs warm "$M" >/dev/null
settle
assert_exit 0 ": 0 bad" "$PROGRAM" verify "$M"
grep -q "$(js items.cached) items" <<<"$OUTPUT" || fail "verify: $OUTPUT"
assert_exit 0 ": 0 bad" "$PROGRAM" verify "$M/large"

say "O_DIRECT"
source=$(js source.read_bytes)
read_direct || fail "O_DIRECT"
assert_ge "$(js served.dram.bytes)" "$(js tiers.dram.item_bytes)" \
    "bytes that came back"
assert_eq "$(js source.read_bytes)" "$source" "source bytes"
kill -9 "$(js daemon.pid)"
read_direct || fail "O_DIRECT after a kill"
assert_exit 0 ": 0 bad" "$PROGRAM" verify "$M"
assert_eq "$(js source.read_bytes)" "$source" "source bytes after a kill"
assert_eq "$(js pins_lost)" 0 "lost pins"

say "damage on disk"
python3 - "$SEED" $(segments) <<'PYTHON'
import os, random, sys
random.seed(int(sys.argv[1]))
for path in sys.argv[2:4]:
    with open(path, "r+b") as f:
        for _ in range(5):
            f.seek(random.randrange(os.path.getsize(path) * 3 // 4))
            f.write(os.urandom(100))
PYTHON
assert_exit 1 "other bytes than .* on disk" "$PROGRAM" verify "$M"
bad=$(js integrity.corrupt_items)
assert_ge "$bad" 1 "damaged items"
assert_exit 0 ": 0 bad" "$PROGRAM" verify "$M"
diff -r "$S" "$M" || fail "after the damage"
settle
assert_eq "$(js items.cached)" "$(js items.known)" "cached items"
assert_eq "$(js integrity.corrupt_items)" "$bad" "damaged items, no more"

say "clear"
assert_exit 0 "[1-9][0-9]* items" "$PROGRAM" clear "$M/large"
assert_eq $(($(js items.known) - $(js items.cached))) 3 "items without large"
assert_exit 0 "[1-9][0-9]* items" "$PROGRAM" clear "$M"
assert_eq "$(js items.cached)" 0 "cached items"
assert_eq "$(js tiers.dram.item_bytes)" 0 "bytes in DRAM"
assert_eq "$(js tiers.nvme.item_bytes)" 0 "bytes on NVMe"
wait_for 5 '[ "$(js tiers.nvme.used_bytes)" = 0 ]'
wait_for 5 "[ \$(locked_kib) -le $((before + 4096)) ]"
diff -r "$S" "$M" || fail "after clear"
settle
assert_eq "$(js items.cached)" "$(js items.known)" "cached items again"
assert_exit 1 "no such" "$PROGRAM" verify "$M/nothing"
stop_mount
