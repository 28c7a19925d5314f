#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The dataset spelled otherwise: through a symbolic link, with slashes and dots
# at its end, from inside, from a folder that was renamed; one mount, found by
# each spelling, also when it is dead. And farms of links. (A18)
. "$(dirname "$0")/lib.sh"
require mount

mkdir -p "$S/blobs" "$S/snapshots/x/deep" "$T/far/away"
for i in 1 2 3; do
    head -c $((i * 40000)) /dev/urandom >"$S/blobs/$i"
    ln -s "../../blobs/$i" "$S/snapshots/x/$i"
    ln -s "../../../blobs/$i" "$S/snapshots/x/deep/$i"
done
ln -s x "$S/snapshots/main"
ln -s ../../blobs/none "$S/snapshots/x/broken"
echo outside >"$T/far/away/file"
ln -s "$T/far/away/file" "$S/snapshots/x/outside"
ln -s "$S/blobs/1" "$S/snapshots/x/absolute"
ln -s "$S" "$T/l"
ln -s l "$T/ll"
ln -s far/away "$T/short"
ln -s ../../src "$T/far/away/back"
ln -s "$M" "$T/lm"

gone() { [ -z "$(our_pids)" ]; }
targets() { (cd "$1" && find . -type l -printf '%p %l\n' | sort); }
bytes() { (cd "$1" && find -L . -type f -exec md5sum {} + | sort -k2); }

farm() {
    assert_eq "$(targets "$M")" "$want_targets" "links"
    assert_eq "$(bytes "$M")" "$want_bytes" "bytes through links"
    assert_exit 0 "out of the dataset, to $T/far/away/file, which is not" \
        "$PROGRAM" info "$M/snapshots/x/outside"
    assert_exit 0 "leads +to $M/blobs/1" "$PROGRAM" info "$M/snapshots/x/1"
    assert_exit 0 "leads +nowhere" "$PROGRAM" info "$M/snapshots/x/broken"
    # Into the dataset, by its own name: in place that is the mount.
    [ "$M" = "$S" ] && want="leads +to $M/blobs/1" || want="out of the dataset"
    assert_exit 0 "$want" "$PROGRAM" info "$M/snapshots/x/absolute"
    coordlfs warm "$M/snapshots/main" >/dev/null
    coordlfs warm "$M/blobs" >/dev/null
    assert_eq "$(js items.cached)" 3 "items cached"
}

# start SPELLING...: from the folder $T.
start() {
    (cd "$T" && timeout $((30 * SLOW)) "$PROGRAM" mount "$@" --dram 64M \
        --nvme 0 --cache-dir "$C" --log-file "$T/log") || fail "mount $*"
    assert_eq "$(mounts_at "$M")" 1 "mounts after $*"
}

# found SPELLING...: the mount is found by each, from the folder $T.
found() {
    local spelling
    for spelling in "$@"; do
        (cd "$T" && assert_exit 0 "$M" "$PROGRAM" status "$spelling")
        (cd "$T" && assert_exit 0 "missing +0" "$PROGRAM" warm --check "$spelling")
    done
}

want_targets=$(targets "$S") want_bytes=$(bytes "$S")
say "in place, through links"
M=$S
start l
farm
found "$S/" "$T/l/." l ./ll/ short/../../src far/away/back/ "$S/blobs/../." \
    l/snapshots/main "$S/snapshots/x/1"
(cd "$S" && coordlfs status --ready .)
(cd "$S/snapshots/x" && coordlfs status --ready ../..)
(cd "$T" && assert_exit 4 "already a coordlfs mount" "$PROGRAM" mount ll --dram 64M --cache-dir "$C")
(cd "$T" && coordlfs umount l)
assert_eq "$(mounts_at "$M")" 0 "mounts"

for spelling in ll/ short/back "$T//src/." src/blobs/.. short/../../src; do
    start "$spelling"
    assert_eq "$(js dataset)" "$S" "dataset of $spelling"
    (cd "$T" && coordlfs umount "$spelling")
    assert_eq "$(mounts_at "$M")" 0 "mounts after $spelling"
done
(cd "$S" && timeout $((30 * SLOW)) "$PROGRAM" mount . --dram 64M \
    --nvme 0 --cache-dir "$C" --log-file "$T/log" && coordlfs umount .)
assert_eq "$(mounts_at "$M")" 0 "mounts after ."

say "at another place, through links"
M=$T/mnt
for pair in "l lm" "ll/. lm/" "./src/ ./mnt//." "short/back short/../../lm"; do
    # shellcheck disable=SC2086
    start $pair
    assert_eq "$(js dataset)" "$S" "dataset"
    [ "$pair" != "l lm" ] || farm
    found "${pair#* }" lm/snapshots
    (cd "$T" && coordlfs umount "${pair#* }")
    assert_eq "$(mounts_at "$M")" 0 "mounts"
done

say "dead mounts, through links"
dead() { # PLACE WAY SPELLING...
    local way=$2
    M=$1
    shift 2
    start "$@"
    # shellcheck disable=SC2046
    kill -9 $(our_pids)
    wait_for 5 gone
    case $way in
    mount)
        start "$@"
        assert_eq "$(bytes "$M")" "$want_bytes" "bytes"
        stop_mount
        ;;
    umount) (cd "$T" && coordlfs umount "${!#}") ;;
    force) (cd "$T" && coordlfs umount --force "${!#}") ;;
    esac
    assert_eq "$(mounts_at "$M")" 0 "mounts after $way of $*"
}
for way in mount umount force; do
    dead "$S" $way l
done
dead "$S" mount ll/
dead "$S" umount short/back/.
dead "$T/mnt" mount l lm
dead "$T/mnt" umount src short/../../lm/.

say "a folder above is renamed"
mkdir -p "$T/up/here"
M=$T/up/here
for way in term umount plain; do
    start src up/here
    mv "$T/up" "$T/down"
    M=$T/down/here
    assert_eq "$(js state)" ready "state"
    case $way in
    term) kill -TERM "$(js daemon.supervisor_pid)" ;;
    umount) coordlfs umount "$M" ;;
    plain) umount "$M" ;;
    esac
    wait_for 5 gone
    assert_eq "$(mounts_at "$M")" 0 "mounts"
    mv "$T/down" "$T/up"
    M=$T/up/here
done
