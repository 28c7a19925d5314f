#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Many files: an indexed dataset is mounted in under 2 s, also after all were
# killed; the processes stay under 300 MiB; a large folder is listed in under
# 1 s the second time.
. "$(dirname "$0")/lib.sh"
require
files=100000
[ "$LONG" = 0 ] || files=1300000
files=${SCALE_FILES:-$files}
tool make_many
"$REPLY" "$S" "$files" 1 2000 1000
mkdir "$S/flat"
python3 -c 'import os, sys
for i in range(100000):
    os.close(os.open(f"{sys.argv[1]}/entry-{i:06d}", os.O_CREAT | os.O_WRONLY))
' "$S/flat"

# Pss less locked pages of all our processes, in KiB.
memory_kb() {
    local pid
    for pid in $(our_pids); do
        cat "/proc/$pid/smaps_rollup"
    done | awk '$1 == "Pss:" { n += $2 } $1 == "Locked:" { n -= $2 }
        END { print n }'
}

judge_memory() {
    local kb
    kb=$(memory_kb)
    say "$1: Pss less locked pages is $((kb / 1024)) MiB"
    # Sanitizers' own memory cannot be told apart.
    [ "$SLOW" != 1 ] || assert_le "$kb" $((300 * 1024)) "memory in kB"
}

walk() {
    local begin count
    begin=$(now_ms)
    count=$(find "$M" -type f -printf '%s\n' | wc -l)
    assert_eq "$count" $((files + 100000)) "files in the mount"
    say "$1: walk with stat took $(($(now_ms) - begin)) ms"
}

start_mount --dram 64M
walk "cold index"
judge_memory "after a walk"
ls -f "$M/flat" >/dev/null
drop_caches
list() { assert_eq "$(ls -f "$M/flat" | wc -l)" 100002 "entries"; }
within 1000 "the second listing of 100,000 entries" list
stop_mount

within 2000 "mount of an indexed dataset" start_mount --dram 64M
walk "warm index"
judge_memory "after a walk on a warm index"
assert_ge "$(js items.known)" "$files" "known items"

read -r -a pids <<<"$(our_pids)"
kill -9 "${pids[@]}"
wait_for 5 '[ -z "$(our_pids)" ]'
within 2000 "mount after all were killed" start_mount --dram 64M
list
sum() { (cd "$1/d00007" && cat ./* | sha256sum); }
assert_eq "$(sum "$M")" "$(sum "$S")" "bytes after all were killed"

# A worker's death with that index.
worker=$(js daemon.pid)
kill -9 "$worker"
within 1000 "a read right after the worker's death" cmp \
    "$S/d00050/f0050123" "$M/d00050/f0050123"
stop_mount
