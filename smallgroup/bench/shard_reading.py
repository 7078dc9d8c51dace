"""`bench shards`: images per CPU second out of a folder of JPEG files, and out of shards made of it."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from smallgroup.bench.timing import alternate
from smallgroup.data.augment import draw_parts
from smallgroup.data.folder import scan_parts, usual_augmentation
from smallgroup.data.images import FileImages
from smallgroup.data.shards import Encoding, Scan, write_shards
from smallgroup.runtime import stream
from smallgroup.runtime.checks import check_counts

IMAGES, ROUNDS = 120, 5
WIDTH, HEIGHT, SIZE = 500, 375, 224
"""The usual size of an ImageNet photograph, and of what a network sees of it."""
QUALITY = 90


def measure(folder: Path | None, images: int, rounds: int, side: int) -> dict[str, Any]:
    """Measure random parts of 224 x 224 of the first images of a folder, or of drawn ones; one after the other."""
    check_counts(images=images, rounds=rounds, side=side)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        found = scan_parts(_draw(place / "jpeg", images) if folder is None else folder)["train"]
        chosen = torch.linspace(0, len(found[1]) - 1, min(images, len(found[1]))).long()
        scan: Scan = found[0], [found[1][k] for k in chosen.tolist()], found[2][chosen]
        sets = {"folder": scan}
        for encoding in ("jpeg", "ppm"):
            kind: Encoding = "jpeg" if encoding == "jpeg" else "ppm"
            write_shards({"train": scan}, place / f"{encoding}-shards", side=side, encoding=kind)
            sets[f"{encoding} shards"] = scan_parts(place / f"{encoding}-shards")["train"]
        count = len(scan[1])
        parts = draw_parts(usual_augmentation(SIZE), count, "bench", "shards")
        calls = {}
        for title, (_, files, labels) in sets.items():
            read = FileImages(files, labels, size=SIZE)
            calls[title] = lambda read=read: [read.fetch(torch.arange(count), parts)[:, :, 0, 0].float().mean()]
        times = alternate(calls, rounds, clock=time.process_time)
        sizes = {"folder": sum(Path(file).stat().st_size for file in scan[1])} if _are_files(scan) else {}
        sizes |= {f"{one} shards": _bytes(place / f"{one}-shards") for one in ("jpeg", "ppm")}
    base = times["folder"].median
    rows = [
        {
            "name": title,
            "images_per_second": count / one.median,
            "spread": [count / one.spread[1], count / one.spread[0]],
            "times_folder": base / one.median,
            "bytes_per_image": sizes[title] // count if title in sizes else None,
        }
        for title, one in times.items()
    ]
    return {"rows": rows, "images": count, "rounds": rounds, "side": side, "size": SIZE}


def _are_files(scan: Scan) -> bool:
    return all("\0" not in file for file in scan[1])


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.shard"))


def _draw(folder: Path, images: int) -> Path:
    """Draw smooth color images with some noise, which compress about as photographs do."""
    generator = stream("bench", "shards")
    for number in range(images):
        coarse = torch.randint(256, (12, 16, 3), dtype=torch.uint8, generator=generator)
        smooth = Image.fromarray(coarse.numpy()).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
        noise = 8 * torch.randn(HEIGHT, WIDTH, 3, generator=generator)
        pixels = (torch.from_numpy(np.array(smooth)) + noise).clamp(0, 255).to(torch.uint8).numpy()
        place = folder / f"class-{number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{number:05d}.jpg", quality=QUALITY)
    return folder
