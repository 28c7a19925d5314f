#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What datasets are stored in, read with the libraries that read it: each gives
# what the source gives, cold, from the cache, through an overlay, and while the
# worker is killed in the middle of each. (The source is read through a
# read-only bind mount, since SQLite and LMDB would write beside their files.)
. "$(dirname "$0")/lib.sh"
require git mksquashfs
grep -qw overlay /proc/filesystems || modprobe overlay || skip "no overlay here"
grep -qw squashfs /proc/filesystems || modprobe squashfs ||
    skip "no squashfs here"

python=$("$HERE/../venv.sh" 2>"$T/venv.err") || {
    say "skipped, but for git, squashfs and overlay: $(cat "$T/venv.err")"
    python=
}
# Threads of mathematics only compete with each other here.
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1

make_repository()
{
    local git=(git -C "$S/repo" -c user.name=n -c user.email=e@example.org
        -c gc.auto=0 -c init.defaultBranch=main) i
    mkdir "$S/repo"
    "${git[@]}" init -q
    for i in 1 2 3; do
        python3 -c 'import random, sys
folder, seed, round = sys.argv[1:]
rng = random.Random(seed + round)
for i in range(80):
    with open(f"{folder}/text{rng.randrange(150)}", "w") as f:
        f.writelines(f"{rng.randrange(999)}\n" for _ in range(rng.randrange(500)))
with open(f"{folder}/big{round}", "wb") as f:
    f.write(rng.randbytes(1300000))' "$S/repo" "$SEED" $i
        "${git[@]}" add -A
        GIT_AUTHOR_DATE="170000000$i +0000" GIT_COMMITTER_DATE="170000000$i +0000" \
            "${git[@]}" commit -qm "commit $i"
        # The last one's objects stay files of their own.
        [ $i = 3 ] || "${git[@]}" repack -adq
    done
}

make_source()
{
    make_repository
    mksquashfs "$S/repo" "$S/image.squashfs" -quiet -no-progress >/dev/null
    [ -z "$python" ] || "$python" "$HERE/formats_make.py" "$S" "$SEED"
    mkdir "$T/ro" "$T/squash" "$T/overlay" "$T/upper" "$T/work"
    mount -o bind,ro "$S" "$T/ro"
}

# Passes its input on, and runs the command after 1 MB of it, when whoever
# writes it is still at work.
midway()
{
    head -c 1000000
    [ -z "$1" ] || "$1" >&2
    cat
}

# read_git FOLDER MIDWAY
read_git()
{
    local git=(env GIT_OPTIONAL_LOCKS=0 git -c "safe.directory=*" -C "$1/repo")
    "${git[@]}" fsck --full --strict --no-progress 2>&1
    "${git[@]}" cat-file --batch-all-objects --batch |
        midway "$2" | sha256sum
    "${git[@]}" status --porcelain
}

# read_squashfs FOLDER MIDWAY
read_squashfs()
{
    mount -t squashfs -o loop,ro "$1/image.squashfs" "$T/squash"
    tar -C "$T/squash" --sort=name -cf - . | midway "$2" | sha256sum
    umount "$T/squash"
}

# The same with direct I/O, so that the loop device is given pinned items.
read_squashfs_direct()
{
    local device
    device=$(losetup --direct-io=on --read-only --show -f \
        "$1/image.squashfs")
    mount -t squashfs -o ro "$device" "$T/squash"
    losetup -d "$device" # when it is unmounted, that is
    tar -C "$T/squash" --sort=name -cf - . | sha256sum
    umount "$T/squash"
}

# read_python SCRIPT [--midway COMMAND] FOLDER...
read_python()
{
    local script=$1
    shift
    [ -z "$python" ] ||
        timeout $((120 * SLOW)) "$python" "$HERE/$script" "$@"
}

# read_all MIDWAY FOLDER...: a line for each format and folder.
read_all()
{
    local midway=$1 folder option=()
    shift
    [ -z "$midway" ] || option=(--midway "$midway")
    for folder in "$@"; do
        echo "git $(read_git "$folder" "$midway" | tr '\n' ' ')"
        echo "squashfs $(read_squashfs "$folder" "$midway")"
    done
    read_python formats_read.py "${option[@]}" "$@"
}

# same FILE TIMES: each line of what the source gave is there so often, and
# nothing else.
same()
{
    assert_eq "$(sort "$1")" \
        "$(for ((i = 0; i < $2; i++)); do cat "$T/native"; done | sort)" \
        "what the formats give"
}

mount_dataset()
{
    drop_caches
    # All of it in two tiers together, large files in parts.
    start_mount --dram 32M --nvme 256M --free-space 0% --item-bytes 1M "$@"
}

lap()
{
    local now
    now=$(now_ms)
    say "$1: $((now - begin)) ms"
    begin=$now
}

cold()
{
    mount_dataset
    read_all "" "$T/ro" "$M" >"$T/both"
    sort -u "$T/both" >"$T/native"
    # Git has nothing to say, and each format is there.
    assert_eq "$(grep -cE '^(git|squashfs) [0-9a-f]{64}  - ?$' "$T/native")" 2 \
        "sums of git and squashfs"
    assert_eq "$(grep -cE '^[a-z0-9]+ [0-9a-f]{64}$' "$T/native")" \
        $((${#python} ? 11 : 0)) "sums of the libraries"
    same "$T/both" 2
    umount "$T/ro"
}

cached()
{
    local before
    coordlfs warm "$M" >"$T/warm.out"
    drop_caches
    before=$(js source.read_bytes)
    mount -t overlay overlay "$T/overlay" \
        -o "lowerdir=$M,upperdir=$T/upper,workdir=$T/work"
    read_all "" "$M" "$T/overlay" >"$T/cached"
    umount "$T/overlay"
    same "$T/cached" 2
    drop_caches
    assert_eq "squashfs $(read_squashfs_direct "$M")" \
        "$(grep ^squashfs "$T/native")" "squashfs by direct I/O"
    assert_eq "$(js source.read_bytes)" "$before" "bytes read from the source"
}

killed()
{
    cat >"$T/kill_worker" <<EOF
#!/bin/bash
kill -9 \$("$PROGRAM" status "$M" --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["daemon"]["pid"])')
echo >>"$T/kills"
EOF
    chmod +x "$T/kill_worker"
    C=$T/cache2
    mkdir "$C"
    # Slow enough that the worker dies with requests at hand.
    mount_dataset --source-bandwidth 60M
    # Spawned workers import for long, and first: what is cold is for them.
    if [ "$SLOW" = 1 ]; then
        read_python formats_torch.py --midway "$T/kill_worker" "$M" >"$T/spawned"
        [ -z "$python" ] ||
            assert_eq "$(cat "$T/spawned")" "$(grep ^loader "$T/native")" \
                "what spawned workers give"
    fi
    read_all "$T/kill_worker" "$M" >"$T/killed"
    same "$T/killed" 1
    say "$(wc -l <"$T/kills") kills"
    wait_for 10 '[ "$(js state)" = ready ]'
    assert_ge "$(js daemon.restarts)" "$(wc -l <"$T/kills")" "restarts"
    assert_eq "$(js integrity.corrupt_items)" 0 "corrupt items"
}

begin=$(now_ms)
make_source
lap "made"
cold
lap "natively and cold"
# With a sanitizer only what is most likely to find something.
if [ "$SLOW" = 1 ]; then
    cached
    lap "cached"
fi
stop_mount
killed
stop_mount
lap "killed"
