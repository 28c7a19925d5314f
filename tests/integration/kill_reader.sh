#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A reader that waits for a slow source is killed, and the worker right after
# (or just before): the reader is gone within 1 s. Nobody else notices, and the
# mount can be unmounted.
. "$(dirname "$0")/lib.sh"
require
head -c 3000 /dev/urandom >"$S/small"
for i in $(seq 12); do
    head -c 30000000 /dev/urandom >"$S/$i"
done
start_mount --dram 64M --source-bandwidth 100K
cmp "$S/small" "$M/small"
for i in $(seq 12); do
    stat "$M/$i" >/dev/null
done

cat >"$T/reader.py" <<'PYTHON'
import mmap, os, sys
how, path = sys.argv[1:3]
if how == "direct":
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    os.preadv(fd, [mmap.mmap(-1, 1 << 20)], 20 << 20)
elif how == "map":
    fd = os.open(path, os.O_RDONLY)
    view = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
    print(view[20 << 20])
else:
    os.pread(os.open(path, os.O_RDONLY), 1 << 20, 20 << 20)
PYTHON

round=0
for order in reader worker; do
    for how in direct read map; do
        for wait in 0.8 0.2; do
            round=$((round + 1))
            python3 "$T/reader.py" $how "$M/$round" 2>/dev/null &
            reader=$!
            sleep $wait
            kill -0 $reader || fail "the reader does not wait"
            worker=$(js daemon.pid)
            if [ $order = reader ]; then
                kill -9 $reader
                kill -9 "$worker"
            else
                kill -9 "$worker"
                kill -9 $reader
            fi
            begin=$(now_ms)
            wait $reader 2>/dev/null || true
            took=$(($(now_ms) - begin))
            say "$how, $order killed first: gone after $took ms"
            assert_le $took $((1000 * SLOW)) "ms until the reader was gone"
            wait_for 10 "[ \"\$(js daemon.pid)\" != $worker ]"
        done
    done
done
cmp "$S/small" "$M/small"
assert_eq "$(js state)" ready "state"
within 5000 "umount" stop_mount
assert_eq "$(our_pids)" "" "processes left"
