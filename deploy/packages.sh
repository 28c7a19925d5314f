#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that building, running or testing needs.
# Only what is missing is installed, by one apt-get call; run it as often as
# you like.
#
# usage: deploy/packages.sh [build] [run] [test]      (no argument: all three)
set -u

# What coordlfs is compiled from.
build=(gcc libc6-dev cmake make pkg-config libfuse3-dev librocksdb-dev
    libxxhash-dev libjansson-dev libsystemd-dev)

# What the quickstart runs: fusermount3, PyTorch, and photographs to cut its
# sample dataset from.
run=(fuse3 util-linux procps python3 python3-torch python3-torchvision
    python3-pil lomiri-wallpapers-16.04 mate-backgrounds)

# The second compiler, the linters, what the tests compare with, and what they
# read files with.
test=(clang libclang-rt-14-dev clang-format clang-tidy cppcheck libcmocka-dev
    bindfs attr psmisc rsync perl iproute2 man-db
    git squashfs-tools python3-h5py python3-lmdb python3-pip)

fail()
{
    echo "packages.sh: $*" >&2
    exit 1
}

[ $# -gt 0 ] || set -- build run test
wanted=()
for set_name in "$@"; do
    case $set_name in
    build) wanted+=("${build[@]}") ;;
    run) wanted+=("${run[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    *)
        echo "usage: packages.sh [build] [run] [test]" >&2
        exit 2
        ;;
    esac
done

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    fail "this is not a Debian system; install the equivalents of:" \
        "${wanted[*]}"

missing=()
for package in "${wanted[@]}"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)
    [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

[ "$(id -u)" = 0 ] ||
    fail "run as root, or install these packages first: ${missing[*]}"

log=$(mktemp) || fail "no temporary file in ${TMPDIR:-/tmp}"
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
echo "installing ${#missing[@]} packages: ${missing[*]}"
# An outdated package list is tried as it is: the install says what is wrong.
apt-get -qq update >"$log" 2>&1 || cat "$log" >&2
# The lock may be held by unattended upgrades on a machine that just booted.
if ! apt-get -qq -y -o DPkg::Lock::Timeout=300 install \
    --no-install-recommends "${missing[@]}" >"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    fail "apt-get could not install: ${missing[*]}"
fi
