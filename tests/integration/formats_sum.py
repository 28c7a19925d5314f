# SPDX-License-Identifier: Apache-2.0
"""What formats_read.py and formats_torch.py share."""
import argparse
import hashlib
import subprocess

import numpy as np
import torch


class Sum:
    """A checksum of values of any kind."""

    def __init__(self):
        self.hash = hashlib.sha256()

    def add(self, *values):
        for value in values:
            if isinstance(value, torch.Tensor):
                value = value.numpy()
            if isinstance(value, np.ndarray):
                self.hash.update(f"{value.dtype}{value.shape}".encode())
                # Arrays of objects have no bytes of their own.
                self.add(*value.tolist()) if value.dtype == object else \
                    self.hash.update(np.ascontiguousarray(value))
            elif isinstance(value, (bytes, bytearray, memoryview)):
                self.hash.update(b"%d:" % len(value))
                self.hash.update(value)
            elif isinstance(value, dict):
                for key in sorted(value):
                    self.add(key, value[key])
            elif isinstance(value, (list, tuple)):
                self.add(len(value), *value)
            else:
                self.add(repr(value).encode())


def run(readers, description):
    """Prints a checksum of what each reader gives, after its name, for each
    folder."""
    parser = argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--midway")
    parser.add_argument("folder", nargs="+")
    options = parser.parse_args()

    def midway():
        if options.midway:
            subprocess.run(options.midway, shell=True, check=True)

    for folder in options.folder:
        for read in readers:
            total = Sum()
            read(folder, total, midway)
            print(read.__name__[5:], total.hash.hexdigest(), flush=True)
