#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a Python that has Debian's packages (PyTorch, h5py, lmdb)
# and those of requirements.txt. Its virtual environment is made at the first
# call, and kept under a name that says what is in it, so that later runs and
# other checkouts find it. Fails, with the reason, where packages cannot be
# fetched.
#
# usage: tests/venv.sh
set -u

requirements=$(dirname "$0")/requirements.txt
base=/usr/bin/python3 # Debian's own: only that one has Debian's packages
kept=${TEST_VENVS:-/var/tmp/coordlfs-venvs-$(id -u)}
limit_s=300
log='' fresh=''

fail()
{
    echo "venv.sh: $*" >&2
    exit 1
}

clean_up() { rm -rf ${log:+"$log"} ${fresh:+"$fresh"}; }

# What a stranger made in a folder for everybody is not run.
mkdir -m 755 "$kept" 2>/dev/null
[ -d "$kept" ] && [ ! -L "$kept" ] && [ -O "$kept" ] ||
    fail "$kept is not a folder of this user"
[ -x $base ] || fail "needs $base"
name=$({
    $base -c 'import sys; print(sys.version)'
    cat "$requirements"
} | sha256sum | cut -c1-16) || fail "cannot read $requirements"

exec 9>"$kept/lock" || fail "cannot write to $kept"
flock -w $limit_s 9 || fail "another call does not end"
python=$kept/$name/bin/python
if [ ! -x "$python" ]; then
    trap clean_up EXIT
    trap 'exit 1' INT TERM HUP
    log=$(mktemp) && fresh=$(mktemp -d "$kept/fresh.XXXXXX") ||
        fail "no room for temporary files"
    # Debian's pip serves it, which is quicker than a pip of its own.
    {
        $base -m venv --system-site-packages --without-pip "$fresh" &&
            timeout $limit_s $base -m pip --python "$fresh/bin/python" \
                install -q --no-deps --no-compile --no-build-isolation \
                --retries 1 --timeout 30 -r "$requirements"
    } >"$log" 2>&1 </dev/null 9>&- ||
        fail "cannot install Python packages: $(tail -n 3 "$log")"
    chmod 755 "$fresh"
    # Each takes 160 MB: those of former requirements go when unused for long.
    find "$kept" -mindepth 1 -maxdepth 1 -type d -mtime +30 \
        -exec rm -rf {} +
    # Nothing in it depends on its path but scripts that nobody runs.
    mv -T "$fresh" "$kept/$name" || fail "cannot move $fresh"
    fresh=''
fi
touch "$kept/$name"
echo "$python"
