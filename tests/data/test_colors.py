import colorsys
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance

from smallgroup.data.colors import draw_jitter, gray_of, jitter
from smallgroup.runtime import stream
from tests.data.makers import array, noise

ENHANCERS = [ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color]


def alone(step: int, pixels: torch.Tensor, value: float) -> torch.Tensor:
    """One change only: the others are neutral."""
    factors = torch.tensor([[1.0, 1.0, 1.0, 0.0]]).repeat(len(pixels), 1)
    factors[:, step] = value
    orders = torch.arange(4).repeat(len(pixels), 1)
    return jitter(pixels, factors, orders)


@pytest.mark.parametrize("step", range(3))
@pytest.mark.parametrize("value", [0.6, 0.9, 1.4])
def test_brightness_contrast_and_saturation_are_those_of_pillow(step: int, value: float) -> None:
    pixels = noise(3, 3, 9, 9)
    found = alone(step, pixels, value)
    for image, changed in zip(pixels, found, strict=True):
        expected = ENHANCERS[step](Image.fromarray(image.permute(1, 2, 0).numpy())).enhance(value)
        difference = changed.permute(1, 2, 0).int().numpy() - array(expected).astype(np.int32)
        assert np.abs(difference).max() <= 1  # Pillow cuts off where we round


@pytest.mark.parametrize("turn", [-0.2, 0.07, 0.2])
def test_hue_is_turned_as_in_the_standard_library(turn: float) -> None:
    pixels = noise(2, 3, 9, 9)
    pixels[0, :, 0, 0] = 77  # gray has no hue
    found = alone(3, pixels, turn).permute(0, 2, 3, 1).reshape(-1, 3)
    for before, after in zip(pixels.permute(0, 2, 3, 1).reshape(-1, 3).tolist(), found.tolist(), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*(channel / 255 for channel in before))
        expected = [255 * channel for channel in colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)]
        assert max(abs(a - b) for a, b in zip(after, expected, strict=True)) < 0.51


def test_draws_lie_in_their_ranges_and_all_orders_occur() -> None:
    factors, orders = draw_jitter(5000, 3, stream("jitter"))
    assert factors[:, :3].min() > 0.6 - 1e-6
    assert factors[:, :3].max() < 1.4 + 1e-6
    assert factors[:, 3].abs().max() < 0.2 + 1e-6
    assert factors[:, :3].mean().sub(1).abs() < 0.01
    counts = Counter(map(tuple, orders.tolist()))
    assert len(counts) == 24
    assert min(counts.values()) > 5000 / 24 * 0.7


def test_the_order_matters_and_is_followed() -> None:
    pixels = noise(1, 3, 9, 9)
    factors = torch.tensor([[1.4, 0.6, 1.0, 0.0]])
    one = jitter(pixels, factors, torch.tensor([[0, 1, 2, 3]]))
    other = jitter(pixels, factors, torch.tensor([[1, 0, 2, 3]]))
    assert torch.equal(one, alone(1, alone(0, pixels, 1.4), 0.6))
    assert torch.equal(other, alone(0, alone(1, pixels, 0.6), 1.4))
    assert not torch.equal(one, other)


def test_gray_images_have_no_colors_to_change() -> None:
    pixels = noise(6, 1, 5, 5)
    factors, orders = draw_jitter(6, 1, stream("grey"))
    assert orders.shape == (6, 2)
    assert jitter(pixels, factors, orders).shape == pixels.shape
    assert torch.equal(gray_of(pixels), pixels.float())


def test_images_do_not_depend_on_their_neighbors() -> None:
    pixels = noise(8, 3, 16, 16)
    factors, orders = draw_jitter(8, 3, stream("rows"))
    together = jitter(pixels, factors, orders)
    single = [jitter(pixels[i : i + 1], factors[i : i + 1], orders[i : i + 1]) for i in range(8)]
    assert torch.equal(together, torch.cat(single))
