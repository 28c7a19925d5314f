#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The source changes under the mount: files rewritten, grown, shrunk, replaced,
# removed, created, made something else, a directory renamed. It is seen after a
# mount, after `refresh`, and within --revalidate, by stat, ls and read, whatever
# the files were before: never read, cached, mapped, half read. A reader that
# never stops sees old bytes, new bytes or an error, never a mixture.
. "$(dirname "$0")/lib.sh"
require
check() { python3 "$HERE/consistency.py" "$@" || fail "$1 $2"; }

end_reader() {
    kill -TERM "$1" || fail "the reader ended: $(cat "$T/use")"
    wait "$1" || fail "the reader saw: $(cat "$T/use")"
}

# Each round begins with the same tree, and ends with the same changes.
round() {
    local how=$1
    shift
    rm -rf "${S:?}"/* "$C"
    say "$how: $*"
    check make "$S" "$SEED"
    start_mount "$@"
    rm -f "$T/use"
    python3 "$HERE/consistency.py" use "$M" >"$T/use" 2>&1 &
    local user=$!
    on_exit "kill -9 $user 2>/dev/null"
    wait_for 20 "grep -q ready '$T/use'"
    check change "${W:-$S}" "$SEED"
    case $how in
    remount)
        end_reader $user
        stop_mount
        start_mount "$@"
        ;;
    refresh)
        coordlfs refresh "$M" >"$T/refresh" || fail "refresh: $(cat "$T/refresh")"
        ;;
    revalidate) sleep $((2 * LINGER + 1)) ;;
    esac
    check compare "${W:-$S}" "$M"
    if [ "$how" != remount ]; then
        end_reader $user
    fi
    drop_caches
    check compare "${W:-$S}" "$M"
    assert_eq "$(js integrity.corrupt_items)" 0 "corrupt items"
    stop_mount
}

round remount --dram 40M --nvme 20M
round revalidate --dram 40M --nvme 20M --revalidate 2
round refresh --dram 40M --nvme 20M
grep -qE '[1-9][0-9]* changed, [1-9][0-9]* created, [1-9][0-9]* removed' \
    "$T/refresh" || fail "refresh says: $(cat "$T/refresh")"
round refresh --dram 0 --nvme 60M

say "in place: changed through a bind mount of the source"
W=$T/writable
mkdir "$W"
mount --bind "$S" "$W"
on_exit "umount '$W'"
M=$S
rm -rf "${S:?}"/* "$C"
check make "$S" "$SEED"
start_mount --dram 40M --nvme 0
rm -f "$T/use"
python3 "$HERE/consistency.py" use "$M" >"$T/use" 2>&1 &
user=$!
on_exit "kill -9 $user 2>/dev/null"
wait_for 20 "grep -q ready '$T/use'"
check change "$W" "$SEED"
coordlfs refresh "$M" >/dev/null || fail "refresh in place"
check compare "$W" "$M"
end_reader $user
stop_mount
