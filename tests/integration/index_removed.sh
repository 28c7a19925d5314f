#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The index is removed under the daemon, and its worker is killed: the next one
# makes another, which must not count mounts from the start again. Else a later
# mount would believe what that one wrote to be its own, and not look at the
# source.
. "$(dirname "$0")/lib.sh"
require
mkdir "$S/d"
for i in 1 2 3 4; do echo "old $i" >"$S/d/f$i"; done

# The root alone is looked at.
mount_once() {
    start_mount --nvme 0
    ls "$M" >/dev/null
    stop_mount
}

mount_once
mount_once
start_mount --nvme 0
rm -r "$C"/*/index
worker=$(js daemon.pid)
kill -9 "$worker"
wait_for 10 '[ "$(js daemon.pid)" != "$worker" ]'
diff -r "$S" "$M" || fail "after a kill"
stop_mount

echo "new and longer" >"$S/d/f3"
echo "another" >"$S/d/f5"
mount_once
mount_once
start_mount --nvme 0
diff -r "$S" "$M" || fail "a listing of another mount was believed"
stop_mount
