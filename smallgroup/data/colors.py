"""Color jitter: brightness, contrast, saturation and hue of each image change a little, in an order of its own.

Every step is rounded to whole numbers 0..255, as programs for 8-bit images do; sums of whole numbers are exact,
so the result does not depend on the number of threads.
"""

import torch
from torch import Tensor

from smallgroup.runtime.constants import numbers_on

STRENGTH = 0.4
HUE = 0.2
LUMA = (0.299, 0.587, 0.114)
Factor = float | Tensor
"""Of one image, or [n, 1, 1, 1] of a batch."""


def gray_of(pixels: Tensor) -> Tensor:
    """Return the luma [n, 1, h, w] of [n, c, h, w] in float, as whole numbers."""
    if pixels.shape[1] == 1:
        return pixels.float()
    red, green, blue = pixels.float().unbind(1)
    return (red * LUMA[0] + green * LUMA[1] + blue * LUMA[2]).round().unsqueeze(1)


def draw_jitter(count: int, channels: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return factors [n, 4] (brightness, contrast, saturation in 0.6..1.4, hue in -0.2..0.2) and orders [n, steps]."""
    factors = torch.rand(count, 4, generator=generator) * 2 - 1
    factors[:, :3] = 1 + STRENGTH * factors[:, :3]
    factors[:, 3] *= HUE
    steps = 4 if channels == 3 else 2
    return factors, torch.rand(count, steps, generator=generator).argsort(1)


def jitter(pixels: Tensor, factors: Tensor, orders: Tensor) -> Tensor:
    """Change the colors of [n, c, h, w] uint8; gray images have only brightness and contrast.

    On the CPU one image after the other: each has its own order, and alone it stays in the processor's cache (four
    times faster). Elsewhere the whole batch, every change in every place, and each image takes its own.
    """
    changes = (_brightness, _contrast, _saturation, _hue)
    if pixels.device.type != "cpu":
        return _jitter_batch(pixels, factors, orders)
    result = torch.empty_like(pixels)
    for row, order in enumerate(orders.tolist()):
        image = pixels[row : row + 1].float()
        for number in order:
            image = changes[number](image, float(factors[row, number])).round_().clamp_(0, 255)
        result[row] = image[0]
    return result


def _jitter_batch(pixels: Tensor, factors: Tensor, orders: Tensor) -> Tensor:
    """Apply the jitter without reading the orders, which a GPU would be waited for; the numbers are the same."""
    changes = (_brightness, _contrast, _saturation, _hue)[: orders.shape[1]]
    images, each = pixels.float(), factors.view(*factors.shape, 1, 1, 1).unbind(1)
    for place in range(orders.shape[1]):
        own = orders[:, place].view(-1, 1, 1, 1)
        changed = images
        for number, change in enumerate(changes):
            changed = torch.where(own == number, change(images, each[number]), changed)
        images = changed.round_().clamp_(0, 255)
    return images.to(pixels.dtype)


def _brightness(x: Tensor, factor: Factor) -> Tensor:
    return x * factor


def _contrast(x: Tensor, factor: Factor) -> Tensor:
    gray = gray_of(x).to(torch.int64)
    mean = gray.sum((1, 2, 3), keepdim=True).div(gray[0].numel()).round().to(x.dtype)
    return x * factor + mean * (1 - factor)


def _saturation(x: Tensor, factor: Factor) -> Tensor:
    return x * factor + gray_of(x) * (1 - factor)


def _hue(x: Tensor, turn: Factor) -> Tensor:
    """Turn the hue by a share of the full circle, keeping value and saturation of HSV."""
    high, low = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    span = (high - low).clamp(min=1)
    red, green, blue = x.unbind(1)
    top = high.squeeze(1)
    wide = span.squeeze(1)
    hue = torch.where(
        top == red, (green - blue) / wide, torch.where(top == green, 2 + (blue - red) / wide, 4 + (red - green) / wide)
    )
    # Hue is counted in sixths of the color circle, as the formula above gives it.
    hue = hue.unsqueeze(1) + 6 * turn
    # The channel at angle k of the color circle: value less chroma times a trapezoid of the hue.
    angle = numbers_on((5.0, 3.0, 1.0), torch.float32, x.device).view(1, 3, 1, 1)
    at = (angle + hue).remainder(6)
    return high - (high - low) * torch.minimum(at, 4 - at).clamp(0, 1)
