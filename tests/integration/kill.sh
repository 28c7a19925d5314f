#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Worker and pinner are killed with SIGKILL at random moments, also in a new
# worker's first 10 ms and during warm, while the page cache is dropped again
# and again. Four comparing readers see no error, no wrong byte, each name once,
# and wait less than 1 s after the last kill of a burst.
. "$(dirname "$0")/lib.sh"
require
files=100000 workers=40 pinners=10
[ "$SLOW" -lt 10 ] || files=20000
[ "$SLOW" != 5 ] || files=50000 workers=20 pinners=5
[ "$LONG" = 0 ] || files=600000 workers=100 pinners=30
files=${KILL_FILES:-$files} workers=${KILL_WORKERS:-$workers}
pinners=${KILL_PINNERS:-$pinners}

tool make_many
make_many=$REPLY
"$make_many" "$S/small" "$files" 100 3000
mkdir "$S/large"
"$make_many" "$S/middle" 2000 40000 180000 100
for i in 1 2 3 4; do
    head -c $((9000000 + i)) /dev/urandom >"$S/large/$i"
done
say "$files small files, $workers kills of workers, $pinners of pinners"

# Tiers that hold a part of it: items are admitted all the time.
start_mount --dram 150M --nvme 150M
find "$M" -mindepth 2 -printf %s. | wc -c >"$T/known"
assert_ge "$(js items.known)" "$files" "known items"

tool stress_readers
"$REPLY" "$S" "$M" "$SEED" 0 >"$T/readers" 2>"$T/readers.err" &
readers=$!
on_exit "kill -9 $readers"
wait_for 60 "grep -q ready '$T/readers'"

(
    while sleep 0.3; do drop_caches; done
) &
dropper=$!
on_exit "kill $dropper"
# Interrupted by each death of the worker at most: then it starts again.
(
    while sleep 0.5; do
        timeout $((120 * SLOW)) "$PROGRAM" warm "$M" || true
    done
) >"$T/warm" 2>&1 &
warmer=$!
on_exit "kill $warmer"

sleep 1
python3 "$HERE/killer.py" "$PROGRAM" "$M" "$workers" "$pinners" "$SEED" \
    "$SLOW" >"$T/kills"
sleep $((2 * LINGER))
kill $warmer $dropper
kill -TERM $readers
rc=0
wait $readers || rc=$?
python3 "$HERE/stall_report.py" "$T/kills" "$T/readers" "$SLOW"
[ $rc = 0 ] || fail "the readers saw failures: $(cat "$T/readers.err")"
grep -q '^total calls [0-9]* failed 0 wrong 0$' "$T/readers" ||
    fail "no clean total of the readers"

wait_for 10 '[ "$(js state)" = ready ]'
restarts=$(js daemon.restarts)
say "restarts: $restarts"
assert_ge "$restarts" "$workers" "restarts"
assert_eq "$(js integrity.corrupt_items)" 0 "corrupt items"

# What is said to be pinned is: a whole epoch reads no more than the rest.
settle
drop_caches
python3 "$HERE/epoch.py" "$PROGRAM" "$M" "$S" "$SEED" atmost
stop_mount
