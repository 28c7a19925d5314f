#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills the worker and the pinner of one mount at random moments.

    killer.py PROGRAM MOUNT WORKER_KILLS PINNER_KILLS SEED SLOW > KILLS

A burst is one kill of either, both at once, or a worker and then its
replacements within their first 10 ms. One line per kill: seconds since the
epoch, what, process id. Only children of the mount's supervisor are killed.
"""
import json
import os
import random
import signal
import subprocess
import sys
import time


class Killer:
    def __init__(self, program, mount, slow):
        self.program, self.mount, self.slow = program, mount, slow
        self.supervisor = self.daemon()["supervisor_pid"]
        self.done = {"worker": 0, "pinner": 0}

    def daemon(self):
        out = subprocess.run([self.program, "status", self.mount, "--json"],
                             stdout=subprocess.PIPE, check=True,
                             timeout=20 * self.slow).stdout
        return json.loads(out)["daemon"]

    def children(self):
        found = set()
        tasks = f"/proc/{self.supervisor}/task"
        for task in os.listdir(tasks):
            try:
                with open(f"{tasks}/{task}/children") as f:
                    found.update(int(pid) for pid in f.read().split())
            except OSError:
                pass
        return found

    def is_child(self, pid):
        try:
            with open(f"/proc/{pid}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            return False
        return fields[0] != "Z" and int(fields[1]) == self.supervisor

    def find(self, what):
        """The process id of a live worker or pinner."""
        key = {"worker": "pid", "pinner": "pinner_pid"}[what]
        until = time.monotonic() + 10 * self.slow
        while time.monotonic() < until:
            pid = self.daemon()[key]
            if pid and self.is_child(pid):
                return pid
            time.sleep(0.01)
        sys.exit(f"no {what} within 10 s")

    def kill(self, what, pid):
        os.kill(pid, signal.SIGKILL)
        self.done[what] += 1
        print(f"{time.time():.6f} {what} {pid}", flush=True)

    def kill_young(self, rng):
        """The worker, then its replacement in its first 10 ms."""
        before = self.children()
        self.kill("worker", self.find("worker"))
        until = time.monotonic() + 10 * self.slow
        while time.monotonic() < until:
            new = self.children() - before
            if new:
                time.sleep(rng.uniform(0, 0.010))
                for pid in new:
                    if self.is_child(pid):
                        self.kill("worker", pid)
                return
            time.sleep(0.0002)
        sys.exit("no new worker within 10 s")


def main():
    program, mount = sys.argv[1:3]
    workers, pinners, seed, slow = (int(a) for a in sys.argv[3:7])
    rng = random.Random(seed)
    killer = Killer(program, mount, slow)
    left = {"worker": workers, "pinner": pinners}
    while any(killer.done[w] < n for w, n in left.items()):
        want_worker = killer.done["worker"] < workers
        want_pinner = killer.done["pinner"] < pinners
        kind = rng.random()
        if want_worker and want_pinner and kind < 0.15:
            pids = [(w, killer.find(w)) for w in ("worker", "pinner")]
            for what, pid in pids:
                killer.kill(what, pid)
        elif want_pinner and (kind < 0.35 or not want_worker):
            killer.kill("pinner", killer.find("pinner"))
        elif want_worker and kind < 0.75:
            killer.kill("worker", killer.find("worker"))
        elif want_worker:
            for _ in range(rng.randint(1, 2)):
                killer.kill_young(rng)
        time.sleep(rng.uniform(0.05, 1.2) * min(slow, 4))


main()
