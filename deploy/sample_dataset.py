# SPDX-License-Identifier: Apache-2.0
"""Cuts a sample dataset in ImageFolder layout from photographs.

usage: sample_dataset.py OUTPUT

One class folder per photograph, each with many crops of it in sizes and
shapes like those of ImageNet. The crops are drawn from a generator seeded by
the file's name, so every run on every machine cuts the same ones.
"""
import multiprocessing
import os
import random
import sys

from PIL import Image

FOLDER = "/usr/share/backgrounds"
CROPS = 84

# Class name -> photograph; the other pictures of these packages are drawings.
PHOTOGRAPHS = {
    # lomiri-wallpapers-16.04
    "bridge": "Bridge_by_Sander_Klootwijk.jpg",
    "brushes": "Picture_1A_by_freespace.jpg",
    "canary": "free_by_Peter_Nerlich.jpg",
    "clock": "greentock_by_Peter_Nerlich.jpg",
    "dandelion": "seeding_by_Clements_Engelhardt.jpg",
    "dogs": "friends_by_Aitzol_Berasategi.jpg",
    "dragonfly": "Dragonfly_by_Bolly.jpg",
    "fig": "Picture_0B_by_freespace.jpg",
    "hills": "aitzgorri_by_Aitzol_Berasategi.jpg",
    "peaks": "picosdeeuropa_by_Aitzol_Berasategi.jpg",
    "stream": "life_by_Aitzol_Berasategi.jpg",
    "sunset": "sunset_by_Aitzol_Berasategi.jpg",
    "wine": "Wine_by_Jakkub_Mede.jpg",
    # mate-backgrounds
    "drop": "mate/nature/Aqua.jpg",
    "dune": "mate/nature/Dune.jpg",
    "flight": "mate/nature/TwoWings.jpg",
    "grass": "mate/nature/GreenMeadow.jpg",
    "ladybird": "mate/nature/LadyBird.jpg",
    "leaf": "mate/nature/Blinds.jpg",
    "marigold": "mate/nature/Garden.jpg",
    "petals": "mate/nature/FreshFlower.jpg",
    "rain": "mate/nature/RainDrops.jpg",
    "storm": "mate/nature/Storm.jpg",
    "sunflower": "mate/nature/YellowFlower.jpg",
    "wood": "mate/nature/Wood.jpg",
}


def cut(photograph, name):
    """One crop of a random place, extent, shape and size."""
    draw = random.Random(name)
    width, height = photograph.size
    aspect = draw.uniform(0.75, 1.5)
    extent = draw.uniform(0.35, 0.95)
    crop_height = extent * min(height, width / aspect)
    crop_width = crop_height * aspect
    left = draw.uniform(0, width - crop_width)
    top = draw.uniform(0, height - crop_height)
    scale = draw.randint(500, 800) / max(crop_width, crop_height)
    return photograph.resize(
        (round(crop_width * scale), round(crop_height * scale)),
        Image.Resampling.LANCZOS,
        box=(left, top, left + crop_width, top + crop_height),
    )


def cut_class(job):
    """Writes the crops of one photograph; returns their number and bytes."""
    output, name, source = job
    folder = os.path.join(output, name)
    os.makedirs(folder)
    photograph = Image.open(os.path.join(FOLDER, source)).convert("RGB")
    total = 0
    for i in range(CROPS):
        path = os.path.join(folder, f"{name}_{i:03d}.jpg")
        cut(photograph, f"{name}/{i}").save(path, quality=95)
        total += os.path.getsize(path)
    return CROPS, total


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    jobs = [(sys.argv[1], *item) for item in sorted(PHOTOGRAPHS.items())]
    missing = [s for _, _, s in jobs if not os.path.exists(f"{FOLDER}/{s}")]
    if missing:
        sys.exit(f"missing below {FOLDER}: {', '.join(missing)}")
    files = total = 0
    with multiprocessing.Pool() as pool:
        for class_files, class_bytes in pool.imap_unordered(cut_class, jobs):
            files += class_files
            total += class_bytes
    print(f"{files} photographs in {len(jobs)} classes, {total} bytes")


if __name__ == "__main__":
    main()
