#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An overlay over the mount, which is how a job gets a writable view of a
# dataset: reads, copy-up and uncached files, across the death of the worker;
# and umount says that an overlay has the mount. (A16)
. "$(dirname "$0")/lib.sh"
require mount umount cmp
grep -qw overlay /proc/filesystems || modprobe overlay || skip "no overlay here"

tool make_many
"$REPLY" "$S/many" 300 40000 180000 100
mkdir "$S/d" "$S/late"
head -c 9500001 /dev/urandom >"$S/d/large"
head -c 9500001 /dev/urandom >"$S/d/changed"
head -c 9500001 /dev/urandom >"$S/d/uncached"
echo short >"$S/d/short"
ln -s short "$S/d/link"
for i in $(seq 100); do
    head -c $((i * 1000)) /dev/urandom >"$S/late/$i"
done
mkdir "$S/a, b:c"
echo text >"$S/a, b:c/file"
mkdir "$T/o" "$T/u" "$T/w" "$T/other"
O=$T/o

mount_overlay()
{
    mount -t overlay overlay "$O" \
        -o "lowerdir=$M,upperdir=$T/u,workdir=$T/w"
}

kill_worker() { kill -9 "$(js daemon.pid)"; }

# Slow enough that the worker dies while it loads.
start_mount --dram 40M --nvme 64M --free-space 0% --source-bandwidth 100M
mount_overlay
say "reads"
diff -r "$S/many" "$O/many" || fail "the overlay differs"
cmp "$S/d/large" "$O/d/large"
assert_eq "$(readlink "$O/d/link")" short "link"
assert_eq "$(cat "$O/d/link")" short "through the link"

say "copy-up across a death of the worker"
(
    echo more >>"$O/d/changed"
) &
copier=$!
kill_worker
wait $copier
cat "$S/d/changed" - <<<more | cmp - "$O/d/changed"
cmp "$S/d/changed" "$M/d/changed"
chmod 600 "$O/d/short"
mv "$O/many/d00001" "$O/many/renamed" 2>"$T/mv.err" ||
    fail "rename: $(cat "$T/mv.err")"
diff -r "$S/many/d00001" "$O/many/renamed"
rm "$O/many/d00002/"*
: >"$O/new"
assert_eq "$(ls "$O/many/d00002")" "" "what is left of a folder"
[ -e "$M/many/d00001" ] || fail "the lower layer was renamed"

say "uncached files across a death of the worker"
(sleep 0.1 && kill_worker) &
killer=$!
diff -r "$S/late" "$O/late" || fail "uncached small files differ"
cmp "$S/d/uncached" "$O/d/uncached"
wait $killer
drop_caches
kill_worker
diff -r "$S/late" "$O/late"
wait_for 10 '[ "$(js state)" = ready ]'
assert_ge "$(js daemon.restarts)" 3 "restarts"

say "umount"
assert_exit 4 "$O" "$PROGRAM" umount "$M"
cmp "$S/d/large" "$M/d/large"
umount "$O"
# A folder of it as one of several layers, with what needs escapes in its name.
mount -t overlay overlay "$O" -o "lowerdir=$T/other:$M/a\\, b\\:c" ||
    fail "an overlay of a folder"
assert_eq "$(cat "$O/file")" text "through the second overlay"
assert_exit 4 "$O" "$PROGRAM" umount "$M"
umount "$O"
stop_mount
assert_eq "$(our_pids)" "" "processes left"

# What was copied up is still there over the next mount.
start_mount --dram 40M --nvme 64M --free-space 0%
mount_overlay
cat "$S/d/changed" - <<<more | cmp - "$O/d/changed"
assert_eq "$(stat -c %a "$O/d/short")" 600 "mode"
umount "$O"
stop_mount
