# SPDX-License-Identifier: Apache-2.0
"""Trains for a few epochs on a folder of images, as any PyTorch script does.

Nothing here knows about coordlfs: torchvision's ImageFolder and torch's
DataLoader read the files below DATASET with their own worker processes. The
model is one linear layer, so that what is timed is the input pipeline.
"""
import argparse
import time

import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", help="folder with one folder per class")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def train_epoch(loader, model, optimizer):
    """One pass over the data; returns the number of images and mean loss."""
    loss_function = torch.nn.CrossEntropyLoss()
    images = 0
    loss_sum = 0.0
    for pixels, labels in loader:
        optimizer.zero_grad()
        loss = loss_function(model(pixels), labels)
        loss.backward()
        optimizer.step()
        images += len(labels)
        loss_sum += loss.item() * len(labels)
    return images, loss_sum / images


def main():
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    dataset = datasets.ImageFolder(
        arguments.dataset,
        transforms.Compose(
            [
                transforms.RandomResizedCrop(224),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
            ]
        ),
    )
    loader = DataLoader(
        dataset,
        batch_size=arguments.batch,
        shuffle=True,
        num_workers=arguments.workers,
    )
    model = torch.nn.Sequential(
        torch.nn.AvgPool2d(16),
        torch.nn.Flatten(),
        torch.nn.Linear(3 * 14 * 14, len(dataset.classes)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(arguments.epochs):
        start = time.monotonic()
        images, loss = train_epoch(loader, model, optimizer)
        seconds = time.monotonic() - start
        print(
            f"epoch {epoch} seconds {seconds:.2f} images {images}"
            f" rate {images / seconds:.1f} loss {loss:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
