#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bad input gives a clear error that says what to do, the right exit code, and
# leaves nothing mounted and nothing running.
. "$(dirname "$0")/lib.sh"
require unshare setpriv

echo content >"$S/file"
mkdir "$T/free"
# What is refused after the log is open may be in the log as well.
expect_error .

# refused CODES REGEX ARGUMENT...: a mount that must fail.
refused() {
    local codes=$1 regex=$2 mounts pids
    shift 2
    mounts=$(our_mounts | tr '\0' ' ')
    pids=$(our_pids)
    assert_exit "$codes" "$regex" "$PROGRAM" mount "$@"
    assert_eq "$(our_mounts | tr '\0' ' ')" "$mounts" "mounts after '$*'"
    assert_eq "$(our_pids)" "$pids" "processes after '$*'"
}
with=(--cache-dir "$C" --dram 64M --log-file "$T/log")

say "dataset and mount point"
refused 1 "$T/none" "$T/none" "$M" "${with[@]}"
refused 1 "$T/none" "$T/none" "${with[@]}"
refused 1 "director" "$S/file" "$M" "${with[@]}"
refused 1 "$T/none" "$S" "$T/none" "${with[@]}"
refused 1 "director" "$S" "$S/file" "${with[@]}"
refused 2 "dataset" "${with[@]}"
refused 2 "." "$S" "$M" "$T/free" "${with[@]}"
# A folder that even root may not read: a FUSE mount of somebody else.
mkdir "$T/closed"
exec 6<>/dev/fuse
if mount -i -t fuse -o fd=6,rootmode=40000,user_id=65534,group_id=65534 \
    theirs "$T/closed" 2>/dev/null; then
    refused 1 "permission|denied" "$T/closed" "$M" "${with[@]}"
    umount -l "$T/closed"
else
    say "left out: an unreadable dataset"
fi
exec 6>&-
start_mount --dram 64M
mkdir "$T/cache3"
refused "1|4" "already|mounted" "$M" "$T/free" --cache-dir "$T/cache3"
refused "1|4" "already|mounted" "$M" --cache-dir "$T/cache3"
assert_eq "$(cat "$M/file")" content "the mount that was there"

say "cache directory in use"
holder=$(js daemon.supervisor_pid)
refused 4 "$holder" "$S" "$T/free" "${with[@]}"
mkdir "$T/src2"
coordlfs mount "$T/src2" "$T/free" "${with[@]}" # another dataset: fine
coordlfs umount "$T/free"
stop_mount
start_mount --dram 64M --cache-id common
holder=$(js daemon.supervisor_pid)
refused 4 "$holder" "$T/src2" "$T/free" "${with[@]}" --cache-id common
stop_mount

say "paths of ours inside the dataset or the mount point"
mkdir "$M/cache"
touch "$M/c.conf"
for top in "$S" "$M"; do
    refused 1 "inside|within|below|outside" "$S" "$M" --cache-dir "$top/cache" \
        --dram 64M
    refused 1 "inside|within|below|outside" "$S" "$M" --cache-dir "$C" \
        --dram 64M --log-file "$top/log"
done
touch "$S/c.conf"
for top in "$S" "$M"; do
    refused 1 "inside|within|below|outside" "$S" "$M" "${with[@]}" \
        --config "$top/c.conf"
done
rm "$S/c.conf" "$M/c.conf"
rmdir "$M/cache"
ln -s "$S" "$T/link"
refused 1 "inside|within|below|outside" "$S" "$M" --dram 64M \
    --cache-dir "$T/link/cache"
assert_eq "$(ls "$S")" file "what lies in the dataset"

say "options"
for size in 12Q -1 200% "" 4X 1.2.3M 99999999999999999999; do
    refused 2 "dram|size" "$S" "$M" --cache-dir "$C" --dram="$size"
done
refused 2 "dram" "$S" "$M" --cache-dir "$C" -o dram=12Q
refused 2 "item-bytes" "$S" "$M" "${with[@]}" --item-bytes 4096
refused 2 "source-bandwidth" "$S" "$M" "${with[@]}" --source-bandwidth fast
refused 2 "threads" "$S" "$M" "${with[@]}" --threads -3
refused 2 "log-level" "$S" "$M" "${with[@]}" --log-level loud
refused 2 "nonsense" "$S" "$M" "${with[@]}" --nonsense
refused 2 "nonsense" "$S" "$M" "${with[@]}" -o nonsense=1
refused "1|2" "memory" "$S" "$M" --cache-dir "$C" --dram 1000T
refused "1|2" "$T/none.conf" "$S" "$M" "${with[@]}" --config "$T/none.conf"
echo "dram = 12Q" >"$T/bad.conf"
refused 2 "bad.conf|dram" "$S" "$M" --cache-dir "$C" --config "$T/bad.conf"
echo "nonsense = 1" >"$T/bad.conf"
refused 2 "nonsense" "$S" "$M" "${with[@]}" --config "$T/bad.conf"
say "configuration files"
# bad_config REGEX CONTENT: refused in one line that names the file.
bad_config() {
    printf '%b' "$2" >"$T/bad.conf"
    refused 2 "bad.conf.*$1" "$S" "$M" "${with[@]}" --config "$T/bad.conf"
    assert_eq "$(wc -l <<<"$OUTPUT")" 1 "lines of: $OUTPUT"
    ! grep -q '[[:cntrl:]]' <<<"$OUTPUT" || fail "not printable: $OUTPUT"
}
bad_config "nonsense" '[mount]\nnonsense = 1\n'
bad_config "did you mean dram" 'darm = 1G\n'
bad_config "threads" '[mount]\nthreads = 1.5\n'
bad_config "dram" 'dram =\n'
bad_config "dram" 'dram = [1, 2]\n'
bad_config "foreground" 'foreground = perhaps\n'
bad_config "there twice" '[mount]\ndram = 1G\n[mount]\nthreads = 2\n'
bad_config ":1:" '[mount\n'
bad_config ":2:" 'dram = 1G\n= 3\n'
bad_config ":1:" '\177ELF\002\001\001\0\0\0'
bad_config ":1:" '\001\002\033[2J\377'
head -c 100000 /dev/urandom >"$T/bad.conf"
refused 2 "bad.conf" "$S" "$M" "${with[@]}" --config "$T/bad.conf"
head -c 3000000 /dev/zero | tr '\0' 'a' >"$T/bad.conf"
refused 2 "bad.conf" "$S" "$M" "${with[@]}" --config "$T/bad.conf"
for file in "$T" /dev/zero; do
    refused 2 "$file" "$S" "$M" "${with[@]}" --config "$file"
done
assert_exit 2 "dram" env COORDLFS_DRAM=12Q "$PROGRAM" mount "$S" "$M" \
    --cache-dir "$C"
assert_exit 2 "conquer" "$PROGRAM" conquer
assert_exit 2 "usage|help" "$PROGRAM"
assert_exit 3 "not mounted|no mount|not a coordlfs" "$PROGRAM" status "$M"
assert_exit 3 "not mounted|no mount|not a coordlfs" "$PROGRAM" umount "$M"
assert_exit 3 "not mounted|no mount|not a coordlfs" "$PROGRAM" warm "$M"
assert_exit 1 "" "$PROGRAM" status "$M" --ready

say "memory cgroup smaller than the cache"
if cgroup_try small $((200 << 20)); then
    if [ "$SLOW" = 1 ]; then
        said=$(in_cgroup "$REPLY" "$PROGRAM" mount "$S" "$M" --cache-dir "$C" \
            --dram 50M 2>&1) || fail "dram beside the daemon's own: $said"
        grep -q "daemon's own" <<<"$said" || fail "does not warn: $said"
        stop_mount
    fi
    rc=0
    said=$(in_cgroup "$REPLY" "$PROGRAM" mount "$S" "$M" --cache-dir "$C" \
        --dram 500M 2>&1) || rc=$?
    [ $rc = 1 ] || [ $rc = 2 ] || fail "dram over the cgroup's limit: $rc $said"
    grep -qiE "cgroup|memory" <<<"$said" || fail "does not say why: $said"
    assert_eq "$(mounts_at "$M")" 0 "mounts"
fi

say "cache directory not writable"
mkdir "$T/ro"
mount --bind "$T/ro" "$T/ro"
mount -o remount,bind,ro "$T/ro"
on_exit "umount -l '$T/ro'"
refused 1 "$T/ro" "$S" "$M" --dram 64M --cache-dir "$T/ro"
refused 1 "$T/ro" "$S" "$M" --dram 64M --cache-dir "$T/ro/below"
touch "$T/a-file"
refused 1 "$T/a-file" "$S" "$M" --dram 64M --cache-dir "$T/a-file"

say "no /dev/fuse, not root, no capabilities"
assert_exit 1 "/dev/fuse" unshare -m --propagation private bash -c '
    mount -t tmpfs t /dev
    mknod /dev/null c 1 3; mknod /dev/zero c 1 5; mknod /dev/urandom c 1 9
    exec "$@"' - "$PROGRAM" mount "$S" "$M" "${with[@]}"
assert_exit 1 "root" setpriv --reuid 65534 --regid 65534 --clear-groups \
    "$PROGRAM" mount "$S" "$M" --cache-dir "$T/cache-of-nobody" --dram 64M
for capability in sys_admin ipc_lock; do
    assert_exit 1 "CAP_|root|capabilit" setpriv --bounding-set=-$capability \
        --inh-caps=-$capability "$PROGRAM" mount "$S" "$M" "${with[@]}"
done
assert_eq "$(our_mounts | tr '\0' ' ')" "$T/ro " "mounts left"
assert_eq "$(our_pids)" "" "processes left"

say "an index of a newer format"
C=$T/cache4
mkdir "$C"
start_mount --dram 64M
cat "$M/file" >/dev/null
stop_mount
format=$(cat "$C"/*/format)
echo $((format + 1)) | tee "$C"/*/format >/dev/null
refused 1 "newer|format" "$S" "$M" --cache-dir "$C" --dram 64M
echo "$format" | tee "$C"/*/format >/dev/null
start_mount --dram 64M
stop_mount

say "a damaged index"
for damage in rubbish empty missing; do
    before=$(grep -c . "$T/log" || true)
    for file in "$C"/*/index/CURRENT "$C"/*/index/MANIFEST*; do
        case $damage in
        rubbish) head -c 3000 /dev/urandom >"$file" ;;
        empty) : >"$file" ;;
        missing) rm "$file" ;;
        esac
    done
    start_mount --dram 64M
    tail -n +$((before + 1)) "$T/log" >"$T/log.new"
    [ $damage = missing ] ||
        grep -E '^[^ ]+ warn .*aside' "$T/log.new" ||
        fail "the log does not say that the index was moved aside"
    assert_eq "$(js state)" ready "state"
    diff -r "$S" "$M" || fail "bytes"
    stop_mount
done
