#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch reads: a loader with workers, and saved tensors. As a program it
reads the loader's samples with spawned workers; a module of its own since each
of these imports all that this imports.

    formats_torch.py [--midway COMMAND] FOLDER...
"""
import inspect

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import ImageFolder
from torchvision.transforms import Compose, RandomCrop, ToTensor

import formats_sum

START = "fork"


class Samples(Dataset):
    """An image, its label, and rows of a mapped array."""

    def __init__(self, folder):
        self.images = ImageFolder(folder + "/images",
                                  Compose([RandomCrop(96), ToTensor()]))
        self.path = folder + "/features.npy"
        self.rows = None

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        if self.rows is None:
            self.rows = np.load(self.path, mmap_mode="r")
        rows = self.rows[index::len(self)].copy()
        return *self.images[index], torch.from_numpy(rows)


def read_loader(folder, total, midway):
    loader = DataLoader(Samples(folder), 8, shuffle=True, num_workers=2,
                        generator=torch.Generator().manual_seed(3),
                        multiprocessing_context=START)
    for number, batch in enumerate(loader):
        if number == 3:
            midway()
        total.add(batch)


def read_saved(folder, total, midway):
    path = folder + "/model.pt"
    total.add(torch.load(path))
    midway()
    # PyTorch 2.1 and later can map it.
    if "mmap" in inspect.signature(torch.load).parameters:
        total.add(torch.load(path, mmap=True))
    raw = torch.from_file(folder + "/raw.bin", shared=False, size=2000000,
                          dtype=torch.int16)
    total.add(raw, raw.sum().item())


if __name__ == "__main__":
    START = "spawn"
    formats_sum.run((read_loader,), __doc__)
