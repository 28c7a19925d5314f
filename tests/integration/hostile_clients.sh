#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What any user of the mount can do must not end it: names longer than a file
# system allows, and connections to the control socket that say nothing, say
# too much, or are open while the worker is replaced.
. "$(dirname "$0")/lib.sh"
require
echo content >"$S/file"
start_mount --dram 16M

say "names of 256 to 3000 bytes"
worker=$(js daemon.pid)
python3 - "$M" <<'PYTHON'
import errno, os, sys
for length in (255, 256, 300, 500, 600, 1023, 1024, 3000):
    try:
        os.stat(sys.argv[1] + "/" + "x" * length)
        sys.exit(f"a name of {length} bytes is there")
    except OSError as e:
        expected = errno.ENOENT if length <= 255 else errno.ENAMETOOLONG
        if e.errno != expected:
            sys.exit(f"a name of {length} bytes: {e}")
PYTHON
assert_eq "$(js daemon.pid)" "$worker" "worker"
assert_eq "$(cat "$M/file")" content "bytes"

say "connections that stay open, while the worker is replaced"
python3 - "$PROGRAM" "$M" <<'PYTHON'
import json, os, signal, socket, subprocess, sys, time
program, mount = sys.argv[1:]
def status():
    return json.loads(subprocess.check_output([program, "status", "--json",
                                               mount]))
dev = os.stat(mount).st_dev
path = f"/run/coordlfs/{os.major(dev)}-{os.minor(dev)}.sock"
silent = []
for i in range(20):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    silent.append(s)
old = status()["daemon"]["pid"]
os.kill(old, signal.SIGKILL)
for i in range(100):
    if status()["daemon"]["pid"] != old:
        break
    time.sleep(0.1)
else:
    sys.exit("no new worker")
with open(mount + "/file") as f:
    assert f.read() == "content\n"
time.sleep(1.5)
for s in silent:
    s.settimeout(5)
    got = s.recv(1000)
    if got:
        sys.exit(f"a connection was sent {got!r}")
for text in (b"\n", b"x" * 200000, b"status", b"warm \xff\n", b"warm ../..\n"):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10)
    s.connect(path)
    try:
        s.sendall(text)
        s.shutdown(socket.SHUT_WR)
        while s.recv(65536):
            pass
    except (BrokenPipeError, ConnectionResetError):
        pass
assert status()["state"] == "ready"
PYTHON
within 5000 "umount" stop_mount
assert_eq "$(our_pids)" "" "processes left"
