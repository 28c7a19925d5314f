#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# LMDB environments opened read-only, with its locks on: the lock file cannot be
# opened or made, which LMDB forgives only where that fails with EROFS. As a
# directory and as a single file, with and without a lock file, by root and by
# another user: as on a read-only bind mount of the source. (A14)
. "$(dirname "$0")/lib.sh"
require mount
# Debian's own: another Python lacks Debian's packages.
python=/usr/bin/python3
$python -c 'import lmdb' 2>/dev/null || skip "needs python3-lmdb"

$python - "$S" <<'PYTHON'
import os, random, sys
import lmdb

rng = random.Random(1)
for lock in ("locked", "plain"):
    for kind in ("directory", "file"):
        path = f"{sys.argv[1]}/{lock}-{kind}"
        if kind == "directory":
            os.mkdir(path)
        # Larger than an item, and with a lock file that everybody may write.
        with lmdb.open(path, subdir=kind == "directory", map_size=64 << 20,
                       mode=0o666) as env, env.begin(write=True) as txn:
            for i in range(1500):
                txn.put(b"%06d" % i, rng.randbytes(rng.randrange(1, 1500)))
        file = path + ("/lock.mdb" if kind == "directory" else "-lock")
        os.chmod(file, 0o666)
        if lock == "plain":
            os.unlink(file)
PYTHON

# results FOLDER: a line for each environment and user.
results()
{
    local uid
    for uid in 0 65534; do
        timeout $((60 * SLOW)) $python - "$1" $uid <<'PYTHON'
import hashlib, os, sys
import lmdb

folder, uid = sys.argv[1], int(sys.argv[2])
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
for lock in ("locked", "plain"):
    for kind in ("directory", "file"):
        path = f"{folder}/{lock}-{kind}"
        try:
            # Opened twice, as by two workers of a loader.
            for _ in range(2):
                if os.fork():
                    assert os.wait()[1] == 0
                    continue
                env = lmdb.open(path, subdir=kind == "directory", readonly=True)
                sum = hashlib.sha256()
                with env.begin() as txn:
                    for key, value in txn.cursor():
                        sum.update(key + b"=" + value)
                    print(lock, kind, uid, "opens", txn.stat()["entries"],
                          sum.hexdigest(), flush=True)
                env.close()
                os._exit(0)
        except lmdb.Error as error:
            print(lock, kind, uid, str(error).replace(folder, ""), flush=True)
            os._exit(0)
PYTHON
    done
}

mkdir "$T/bind"
mount -o bind,ro "$S" "$T/bind"
results "$T/bind" >"$T/want"
umount "$T/bind"
assert_eq "$(grep -c ' opens 1500 ' "$T/want")" 16 "environments that open"

start_mount --dram 64M --nvme 0 --item-bytes 1M
for round in cold cached; do
    assert_eq "$(results "$M")" "$(cat "$T/want")" "$round"
done
# Where a bind mount says EACCES a file system that is read-only as a whole says
# EROFS first, so that LMDB opens here what it refuses there.
stop_mount
chmod 644 "$S/locked-file-lock"
start_mount --dram 64M --nvme 0 --item-bytes 1M
assert_eq "$(stat -c %a "$M/locked-file-lock")" 644 "mode of the lock file"
assert_eq "$(results "$M")" "$(cat "$T/want")" "a lock file of somebody else"
stop_mount
