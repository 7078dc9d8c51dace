"""Images and labels of a user's program, as arrays or one by one: what is accepted, and as which pixels."""

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from smallgroup.data.decoding import Unreadable, whole
from smallgroup.data.errors import DataError
from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.text import shown

Layout = Literal["NCHW", "NHWC"]
CHANNELS = (1, 3)
PART = 1024
"""Images that are converted at a time: floats take four times the memory of bytes."""


def pixels_of(image: object, what: str, layout: Layout | None = None) -> Tensor:
    """Return the pixels of one image, uint8 [channels, height, width]; `what` it is called in errors.

    An image is one of Pillow's, or an array [height, width] or [channels, height, width] or with the channels last.
    """
    if isinstance(image, Image.Image):
        try:
            return torch.from_numpy(whole(image))
        except Unreadable as error:
            raise DataError(f"{what} {shown(error)}") from None
    if not is_array(image):
        raise DataError(f"{what} must be an array or an image of Pillow's, but is {_kind(image)}")
    return pixels_of_all(_tensor(image)[None], what, layout)[0]


def pixels_of_all(images: object, what: str, layout: Layout | None = None) -> Tensor:
    """Return the pixels of an array of images, uint8 [n, channels, height, width]; `what` they are called in errors.

    Values are uint8, or floats from 0 to 1. The channels, 1 or 3, are the second dimension or the last; where both are
    1 or 3, `layout` says which. Gray images need no dimension of channels.
    """
    values = _channels_first(_tensor(images), what, layout)
    if not len(values) or not min(values.shape[2:]):
        raise DataError(f"{what} must have pixels, but the shape is {_shape(values)}")
    if values.dtype == torch.uint8:
        return values.contiguous()
    if not values.dtype.is_floating_point:
        raise DataError(f"{what} must be uint8, or float from 0 to 1, but the type is {_dtype(values)}")
    return torch.cat([_bytes(part, what) for part in torch.split(values, PART)])


def labels_of(labels: object, count: int, what: str) -> Tensor:
    """Return labels as int64 [count]; `what` they are called in errors."""
    try:
        values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    except (TypeError, ValueError):
        raise DataError(f"{what} must be whole numbers, but are {_kind(labels)}") from None
    if values.dtype.kind not in "iu":
        raise DataError(f"{what} must be whole numbers, but the type is {values.dtype}")
    if values.shape != (count,):
        raise DataError(f"{what} must be one for each of {count:,} images, but the shape is {_shape(values)}")
    if count and not (values.min() >= 0 and values.max() < MOST["classes"]):
        wrong = values[(values < 0) | (values >= MOST["classes"])][0]
        raise DataError(f"{what} must be from 0 to {MOST['classes'] - 1:,}, but one is {wrong}")
    return torch.from_numpy(values.astype(np.int64))


def is_array(value: object) -> bool:
    """Return whether something is an array of numpy's or a tensor."""
    return isinstance(value, np.ndarray | Tensor)


def _tensor(images: Any) -> Tensor:  # noqa: ANN401 -- an array or a tensor
    if isinstance(images, Tensor):
        return images.detach().cpu()
    values: NDArray[Any] = np.asarray(images)
    # Floats of any width and byte order; of other types torch knows some, and the sentence names them as they are.
    values = values.astype(np.float32) if values.dtype.kind == "f" else np.ascontiguousarray(values)
    try:
        return torch.from_numpy(values)
    except TypeError:
        raise DataError(f"images must be uint8, or float from 0 to 1, but the type is {values.dtype}") from None


def _channels_first(values: Tensor, what: str, layout: Layout | None) -> Tensor:
    if values.ndim == 3:
        return values.unsqueeze(1)
    first, last = (values.ndim == 4 and values.shape[axis] in CHANNELS for axis in (1, -1))
    if first and last and layout is None:
        raise DataError(
            f"{what} must have its channels first or last, but in the shape {_shape(values)} either could be the "
            "channels; layout='NCHW' or layout='NHWC' says which"
        )
    if first and layout != "NHWC":
        return values
    if last and layout != "NCHW":
        return values.movedim(-1, 1)
    order = {"NCHW": "[n, 1 or 3, height, width]", "NHWC": "[n, height, width, 1 or 3]"}
    shapes = order[layout] if layout else " or ".join(order.values())
    raise DataError(f"{what} must be {shapes}, or [n, height, width] if gray, but the shape is {_shape(values)}")


def _bytes(values: Tensor, what: str) -> Tensor:
    values = values.float()
    inside = (values >= 0) & (values <= 1)  # which no NaN is
    if not bool(inside.all()):
        found = float(values[~inside][0])
        raise DataError(f"{what} of type float must have values from 0 to 1, but one is {found:g}")
    return values.mul(255).round().to(torch.uint8)


def _shape(values: Any) -> str:  # noqa: ANN401 -- an array or a tensor
    return "x".join(map(str, values.shape)) or "that of a single number"


def _dtype(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")


def _kind(value: object) -> str:
    return f"of type {shown(type(value).__name__)}"
