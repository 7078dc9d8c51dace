"""Classify images with an exported model: python predict.py model.onnx IMAGE... It prints a line of JSON for each.

Needs onnxruntime, numpy and pillow. Size, normalization and classes are read from the model file.
"""

import json
import math
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def read_image(path: str, size: int, channels: int, margin: float) -> np.ndarray:
    """Return uint8 [size, size] or [size, size, 3]: the centered square, its side the short side / margin."""
    image: Image.Image = Image.open(path)
    full, shrink = image.size, min(image.size) / margin / (2 * size)
    if shrink > 1:  # a large JPEG is decoded at a fraction of its size
        image.draft(None, (math.ceil(full[0] / shrink), math.ceil(full[1] / shrink)))
    scale = min(
        (1, 2, 4, 8), key=lambda s: sum(abs(math.ceil(a / s) - b) for a, b in zip(full, image.size, strict=True))
    )
    turned = ImageOps.exif_transpose(image)
    full = full[::-1] if image.getexif().get(0x0112, 1) >= 5 else full
    if turned.mode.startswith("I"):  # 16 bits
        turned = Image.fromarray(((np.asarray(turned).astype(np.int64) + 128) // 257).astype(np.uint8))
    if turned.has_transparency_data:
        turned = turned.convert("RGBA")
        turned = Image.alpha_composite(Image.new("RGBA", turned.size, "white"), turned).convert("RGB")
    side = max(1, round(min(full) / margin))
    left, top = (full[0] - side) // 2, (full[1] - side) // 2
    right, bottom = min((left + side) / scale, turned.width), min((top + side) / scale, turned.height)
    turned = turned.convert("L" if channels == 1 else "RGB")
    return np.asarray(
        turned.resize((size, size), Image.Resampling.BILINEAR, (left / scale, top / scale, right, bottom))
    )


def main(model: str, *images: str) -> None:
    """Print the class and the probability of each image."""
    session = onnxruntime.InferenceSession(model)
    about = {key: json.loads(value) for key, value in session.get_modelmeta().custom_metadata_map.items()}
    mean, std = (np.array(about[key], np.float32) for key in ("mean", "std"))
    for path in images:
        pixels = read_image(path, about["image_size"], about["image_channels"], about["margin"])
        inputs = (pixels.reshape(*pixels.shape[:2], -1).astype(np.float32) / 255 - mean) / std
        (logits,) = session.run(["logits"], {"images": inputs.transpose(2, 0, 1)[None]})[0].astype(np.float64)
        shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        best = int(shares.argmax())
        print(json.dumps({"image": path, "class": about["classes"][best], "probability": float(shares[best])}))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
