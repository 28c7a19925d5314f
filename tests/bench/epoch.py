# SPDX-License-Identifier: Apache-2.0
"""One epoch of an ordinary PyTorch image loader; prints how fast it went.

usage: epoch.py [--workers N] [--batch N] [--seed N] DIRECTORY

Nothing here knows of coordlfs: ImageFolder, the usual transforms of training,
a DataLoader that shuffles. The directory walk and the epoch are timed apart.
"""
import argparse
import time

import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)

    start = time.monotonic()
    dataset = datasets.ImageFolder(
        arguments.directory,
        transforms.Compose(
            [
                transforms.RandomResizedCrop(224),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
            ]
        ),
    )
    walk_s = time.monotonic() - start

    loader = DataLoader(
        dataset,
        batch_size=arguments.batch,
        shuffle=True,
        num_workers=arguments.workers,
    )
    images = 0
    checksum = 0.0
    start = time.monotonic()
    for pixels, labels in loader:
        images += len(labels)
        checksum += float(pixels[:, :, 112, 112].double().sum())
    seconds = time.monotonic() - start
    print(
        f"images={images} seconds={seconds:.3f} walk_s={walk_s:.3f} "
        f"images_per_s={images / seconds:.2f} checksum={checksum:.6f}"
    )


if __name__ == "__main__":
    main()
