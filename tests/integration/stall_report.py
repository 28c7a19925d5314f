#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how long calls took beside the kills, and judges the stalls.

    stall_report.py KILLS READERS LIMIT_SECONDS

KILLS is the output of killer.py, READERS that of stress_readers. What counts
is the longest part of a call without a kill in it: within a burst every kill
starts the wait anew. Exits with 1 above the limit.
"""
import bisect
import sys


def longest_part(begin, end, kills):
    first = bisect.bisect_left(kills, begin)
    last = bisect.bisect_right(kills, end)
    edges = [begin] + kills[first:last] + [end]
    return max(b - a for a, b in zip(edges, edges[1:]))


def main():
    with open(sys.argv[1]) as f:
        lines = [line.split() for line in f]
    kills = sorted(float(line[0]) for line in lines)
    limit = float(sys.argv[3])
    parts, whole = [], []
    with open(sys.argv[2]) as f:
        for line in f:
            words = line.split()
            if words[:1] == ["stall"]:
                begin, seconds = float(words[2]), float(words[3])
                whole.append(seconds)
                parts.append((longest_part(begin, begin + seconds, kills),
                              words[1], begin))
            elif words and words[0] != "ready":
                print("   ", line.rstrip())
    workers = sum(line[1] == "worker" for line in lines)
    print(f"    kills: {workers} of workers, {len(kills) - workers} of "
          f"pinners; calls over 0.1 s: {len(parts)}")
    if not parts:
        return
    values = sorted(p[0] for p in parts)
    shares = (50, 90, 99, 100)
    marks = [values[min(len(values) - 1, len(values) * s // 100)]
             for s in shares]
    print("    of those, seconds after the last kill: " + ", ".join(
        f"{s} %: {m:.3f}" for s, m in zip(shares, marks)))
    print(f"    longest whole call: {max(whole):.3f} s")
    worst = max(parts)
    if worst[0] > limit:
        sys.exit(f"a {worst[1]} call from {worst[2]:.3f} on stalled for "
                 f"{worst[0]:.3f} s after the last kill, limit {limit} s")


main()
