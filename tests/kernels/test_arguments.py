"""Every kernel checks what it is given before it reads memory."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup import kernels

if "native" not in kernels.available():
    pytest.skip("there are no native kernels here", allow_module_level=True)

EPSILON = 1e-5


def images(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(size, dtype=dtype).contiguous(memory_format=torch.channels_last)


X, Y = images(2, 8, 6, 6), images(2, 4, 6, 6)
NONE = torch.empty(0)
WIDE = torch.ones(8, 1, 3, 3)
MATRIX = torch.ones(4, 8, 1, 1)
STATISTICS = torch.ones(3, 4)
CHOSEN = torch.full((2, 6, 6, 4), 4, dtype=torch.uint8)
UNITS: dict[str, Any] = {
    "xs": [X],
    "statistics": [NONE],
    "affines": [NONE],
    "relu": True,
    "sources": [0],
    "filters": [WIDE],
    "matrices": [MATRIX],
    "dilations": [1],
    "stride": 1,
}
CELL: dict[str, Any] = {
    "xs": [Y],
    "matrices": [torch.ones(4, 4, 3, 3), torch.ones(4, 4, 1, 1)],
    "weights": torch.ones(4),
    "terms": [0, 1, 0, 0, 1, 1, 0, 1, -1, 0, 1, -2],
}
_, (_KEPT, _), _, _ = torch.ops.smallgroup.cell_forward(*CELL.values(), 1, EPSILON)
PADDED = _KEPT.shape[3]
"""Eight channels in whole vectors, whose width is that of the processor."""
STEM: dict[str, Any] = {"x": Y, "matrix": torch.ones(8, 4, 3, 3), "scale": torch.ones(8), "shift": torch.ones(8)}
HEAD: dict[str, Any] = {"x": Y, "scale": torch.ones(4), "shift": torch.ones(4)}
BODY = [torch.ones(8, 4, 3, 3), torch.ones(8), torch.ones(8), torch.ones(8, 8, 3, 3), torch.ones(8), torch.ones(8)]
REDUCTION: dict[str, Any] = {"x": Y, "parameters": [*BODY, torch.ones(8, 4, 1, 1)]}
OF_EIGHT = torch.ones(3, 8)
HALVED = [torch.ones(2, 3, 3, PADDED), OF_EIGHT, torch.ones(2, 3, 3, PADDED), OF_EIGHT]
CALLS: dict[str, dict[str, Any]] = {
    "units_forward": {**UNITS, "epsilon": EPSILON},
    "units_backward": {
        "gradients": [Y],
        "results": [Y],
        "coefficients": [torch.ones(4, 4)],
        "weights": [torch.ones(1)],
        **UNITS,
        "of_weights": True,
    },
    "pool_forward": {"x": Y, "stride": 1, "average": False, "epsilon": EPSILON},
    "pool_backward": {"dy": Y, "x": Y, "stride": 1, "chosen": CHOSEN},
    "mix_forward": {"ys": [Y], "statistics": [STATISTICS], "affines": [NONE], "weights": torch.ones(1)},
    "mix_into": {
        "out": images(2, 4, 6, 6),
        "ys": [Y],
        "statistics": [STATISTICS],
        "affines": [NONE],
        "weights": torch.ones(1),
    },
    "mix_backward": {
        "gradient": Y,
        "ys": [Y],
        "statistics": [STATISTICS],
        "affines": [NONE],
        "weights": torch.ones(1),
        "wanted": [1],
    },
    "statistics": {"y": Y, "epsilon": EPSILON},
    "cell_forward": {**CELL, "nodes": 1, "epsilon": EPSILON},
    "cell_backward": {
        **CELL,
        "gradients": [Y],
        "nodes": [Y],
        "results": [torch.ones(2, 6, 6, PADDED), torch.ones(0, 6, 6, 0)],
        "averages": [Y, NONE],
        "statistics": [torch.ones(3, 8), torch.ones(3, 0)],
        "wanted": [1],
        "of_weights": True,
    },
    "stem_forward": {**STEM, "epsilon": EPSILON},
    "stem_backward": {
        **STEM,
        "gradient": images(2, 8, 6, 6),
        "y": torch.ones(2, 6, 6, PADDED),
        "statistics": OF_EIGHT,
        "wanted": True,
    },
    "head_forward": {**HEAD, "epsilon": EPSILON},
    "head_backward": {**HEAD, "gradient": torch.ones(2, 4), "statistics": STATISTICS},
    "reduction_forward": {**REDUCTION, "epsilon": EPSILON},
    "reduction_backward": {
        **REDUCTION,
        "gradient": images(2, 8, 3, 3),
        "kept": HALVED,
        "wanted": True,
        "of_weights": True,
    },
}
DOUBLE = images(2, 4, 6, 6, dtype=torch.float64)
OF_UNITS: dict[str, list[Any]] = {
    "xs": [
        *([], [torch.ones(2, 8, 6)], [torch.ones(2, 8, 6, 6)], [images(0, 8, 6, 6)], [images(2, 7, 6, 6)]),
        *([X, images(2, 8, 6, 5)], [X.double()], [torch.ones(1, 8, 1, 1).expand(2, 8, 6, 6)], [X.to("meta")]),
    ],
    "statistics": [[], [torch.ones(3, 7)], [torch.ones(8, 3).t()], [torch.ones(3, 8).double()]],
    "affines": [[], [torch.ones(2, 8)]],  # without statistics
    "sources": [[], [1], [-1], [0, 0]],
    "filters": [
        *([], [torch.ones(8)], [torch.ones(8, 1, 4, 4)], [torch.ones(8, 1, 9, 9)], [torch.ones(7, 1, 3, 3)]),
        *([torch.ones(8, 2, 3, 3)], [torch.ones(8, 1, 3, 5)], [WIDE.double()], [WIDE.to("meta")]),
    ],
    "matrices": [[], [torch.ones(4, 8)], [torch.ones(4, 7, 1, 1)], [torch.ones(4, 8, 3, 3)], [torch.ones(0, 8, 1, 1)]],
    "dilations": [[], [0], [-1], [65], [2**62]],
    "stride": [0, -1, 65, 2**62],
}
SHAPES = [DOUBLE, images(2, 4, 6, 5), images(2, 5, 6, 6), torch.ones(2, 4, 6, 6), torch.ones(2, 4, 6), Y.to("meta")]
OF_MIXTURES: dict[str, list[Any]] = {
    "ys": [[], *([Y, each] for each in SHAPES)],
    "statistics": [[], [torch.ones(3, 5)], [torch.ones(2, 4)], [STATISTICS.double()]],
    "affines": [[], [torch.ones(2, 5)], [torch.ones(2, 4).double()]],
    "weights": [torch.ones(2), torch.tensor(1.0), torch.ones(3, 1), torch.ones(1).double(), torch.ones(1, 1, 1)],
}
OF_NUMBERS: dict[str, list[Any]] = {"stride": [0, -1, 65, 2**62], "epsilon": [-1.0, float("nan"), float("inf")]}
OF_CELLS: dict[str, list[Any]] = {
    "xs": [[], [Y, X], *([each] for each in SHAPES[3:]), [Y.expand(2, 4, 6, 6)[:, :3]], [X[:, :4]], [DOUBLE]],
    "matrices": [
        *([], [torch.ones(4, 4, 3, 3)], [torch.ones(4, 4, 5, 5), torch.ones(4, 4, 1, 1)]),
        *([torch.ones(4, 4, 3, 1), MATRIX], [torch.ones(4, 5, 3, 3), MATRIX], [torch.ones(5, 4, 3, 3), MATRIX]),
        *([torch.ones(4, 4, 3, 3), torch.ones(4, 4)], [torch.ones(4, 4, 3, 3).double(), torch.ones(4, 4, 1, 1)]),
    ],
    "weights": [torch.ones(3), torch.ones(5), torch.ones(1, 4), torch.ones(8)[::2], torch.ones(4).double()],
    "terms": [
        *([], [0, 1], [0, 1, 0, 0, 1, 1, 0, 1, -1], [0, 1, 0, 0, 1, 1, 0, 1, -1, 0, 1, -3]),
        *([0, 1, 0, 0, 1, 1, 0, 1, -1, 0, 1, 2], [0, 1, 0, 0, 1, 1, 0, 1, -1, 1, 1, -2]),
        *([0, 1, 0, 0, 1, 1, 0, 1, -1, -1, 1, -2], [0, 1, 0, 0, 1, 1, 0, 1, -1, 0, 2, -2]),
        *([0, 1, 0, 0, 1, 1, 0, 1, -1, 0, 0, -2], [0, 1, 0, 0, 1, 1, 0, 1, -1, 0, 2**62, -2]),
    ],
}
OF_NORMS: list[Any] = [torch.ones(7), torch.ones(1, 8), torch.ones(16)[::2], torch.ones(8).double()]
OF_STATISTICS: list[Any] = [NONE, torch.ones(3, 7), torch.ones(2, 8), torch.ones(8, 3).t(), OF_EIGHT.double()]
OF_RESULTS: list[Any] = [NONE, torch.ones(2, 6, PADDED, 6).transpose(2, 3), torch.ones(1, 6, 6, PADDED)]
OF_STEMS: dict[str, list[Any]] = {
    "x": [*SHAPES[2:], X[:, :4], DOUBLE],
    "matrix": [NONE, torch.ones(8, 4), torch.ones(0, 4, 3, 3), torch.ones(8, 5, 3, 3), torch.ones(8, 4, 1, 1)],
    "scale": OF_NORMS,
    "shift": OF_NORMS,
}
OF_HEADS: dict[str, list[Any]] = {"x": [*SHAPES[2:], X[:, :4], DOUBLE], "scale": OF_NORMS, "shift": OF_NORMS}
OF_REDUCTIONS: dict[str, list[Any]] = {
    "x": [*SHAPES[2:], X[:, :4], DOUBLE],
    "parameters": [
        *([], BODY, [*BODY, torch.ones(8, 8, 1, 1)], [*BODY, torch.ones(8, 4, 3, 3)]),
        *([*BODY[:1], bad, *BODY[2:], torch.ones(8, 4, 1, 1)] for bad in OF_NORMS),
        *([*BODY[:3], bad, *BODY[4:], torch.ones(8, 4, 1, 1)] for bad in (NONE, torch.ones(8, 4, 3, 3))),
        [torch.ones(8, 5, 3, 3), *BODY[1:], torch.ones(8, 4, 1, 1)],
    ],
}
BAD: dict[str, dict[str, list[Any]]] = {
    "units_forward": {**OF_UNITS, "epsilon": OF_NUMBERS["epsilon"]},
    "units_backward": {
        **OF_UNITS,
        "gradients": [[], *([each] for each in SHAPES)],
        "results": [[], *([each] for each in SHAPES)],
        "coefficients": [
            *(
                [],
                [torch.ones(4, 3)],
                [torch.ones(4, 5)],
                [torch.ones(3, 4)],
                [torch.ones(4)],
                [torch.ones(4, 8)[:, ::2]],
            ),
            [torch.ones(4, 4).double()],
        ],
        "weights": [[], [torch.ones(3)], [torch.ones(0)], [torch.ones(4)[::2]], [torch.ones(1).double()]],
    },
    "pool_forward": {"x": SHAPES[3:5], **OF_NUMBERS},
    "pool_backward": {
        "dy": SHAPES,
        "x": SHAPES[:5],
        "stride": [*OF_NUMBERS["stride"], 2],
        "chosen": [
            *(CHOSEN[:1], CHOSEN.int(), CHOSEN.transpose(1, 2)[:, :, ::1].permute(0, 3, 1, 2), CHOSEN.flatten()),
            *(torch.full_like(CHOSEN, tap) for tap in (0, 8, 9, 255)),  # 0 and 8 lie outside at the border
        ],
    },
    "mix_forward": OF_MIXTURES,
    "mix_into": {**OF_MIXTURES, "out": [*SHAPES, torch.ones(2, 4, 1, 1).expand(2, 4, 6, 6)]},
    "mix_backward": {**OF_MIXTURES, "gradient": SHAPES, "wanted": [[], [1, 1]]},
    "statistics": {"y": SHAPES[3:5], "epsilon": OF_NUMBERS["epsilon"]},
    "cell_forward": {**OF_CELLS, "nodes": [0, -1, 64, 2**62], "epsilon": OF_NUMBERS["epsilon"]},
    "cell_backward": {
        **OF_CELLS,
        "gradients": [[], [Y, Y], *([each] for each in SHAPES)],
        "nodes": [[], [Y, Y], [NONE], *([each] for each in SHAPES)],
        "results": [
            *([], CALLS["cell_backward"]["results"][:1], [NONE, NONE], [torch.ones(1, 6, 6, PADDED), NONE]),
            *([torch.ones(2, 6, 6, PADDED + 1), torch.ones(0, 6, 6, 0)],),
            *([torch.ones(2, 6, PADDED, 6).transpose(2, 3), torch.ones(0, 6, 6, 0)],),
        ],
        "averages": [[], [Y], [NONE, NONE], *([each, NONE] for each in SHAPES)],
        "statistics": [
            *([], [torch.ones(3, 8)], [torch.ones(3, 7), torch.ones(3, 0)], [torch.ones(8, 3).t(), torch.ones(3, 0)]),
        ],
        "wanted": [[], [1, 1]],
    },
    "stem_forward": {**OF_STEMS, "epsilon": OF_NUMBERS["epsilon"]},
    "stem_backward": {
        **OF_STEMS,
        "gradient": [*SHAPES, torch.ones(2, 8, 6, 6), images(1, 8, 6, 6)],
        "y": OF_RESULTS,
        "statistics": OF_STATISTICS,
    },
    "head_forward": {**OF_HEADS, "epsilon": OF_NUMBERS["epsilon"]},
    "head_backward": {
        **OF_HEADS,
        "gradient": [NONE, torch.ones(4), torch.ones(4, 2).t(), torch.ones(1, 4), torch.ones(2, 4).double()],
        "statistics": OF_STATISTICS,
    },
    "reduction_forward": {**OF_REDUCTIONS, "epsilon": OF_NUMBERS["epsilon"]},
    "reduction_backward": {
        **OF_REDUCTIONS,
        "gradient": [*SHAPES, torch.ones(2, 8, 3, 3), images(1, 8, 3, 3)],
        "kept": [
            *([], HALVED[:2]),
            *([bad, *HALVED[1:]] for bad in OF_RESULTS),
            *([*HALVED[:3], bad] for bad in OF_STATISTICS),
        ],
    },
}


def kernel(name: str) -> Callable[..., object]:
    found: Callable[..., object] = getattr(torch.ops.smallgroup, name)
    return found


@pytest.mark.parametrize("name", CALLS)
def test_sound_arguments_are_taken(name: str) -> None:
    kernel(name)(**CALLS[name])


@pytest.mark.parametrize(("name", "argument"), [(name, argument) for name, bad in BAD.items() for argument in bad])
def test_bad_arguments_are_refused(name: str, argument: str) -> None:
    for value in BAD[name][argument]:
        with pytest.raises((RuntimeError, NotImplementedError)):  # another one for tensors without memory
            kernel(name)(**{**CALLS[name], argument: value})


def test_every_kernel_is_here() -> None:
    names = {
        each.removeprefix("smallgroup::") for each in torch._C._dispatch_get_all_op_names() if "smallgroup" in each
    }
    assert names == set(CALLS) == set(BAD)


@pytest.mark.parametrize(
    ("name", "argument", "value", "said"),
    [
        ("units_forward", "dilations", [65], "a dilation must be from 1 to 64, but it is 65"),
        ("units_backward", "coefficients", [torch.ones(4, 3)], r"coefficients must be \[4, channels\] = \[4, 4\]"),
        ("pool_backward", "chosen", torch.full_like(CHOSEN, 9), "chosen must be taps inside the image, but one is 9"),
        ("pool_forward", "stride", 0, "a stride must be from 1 to 64, but it is 0"),
    ],
)
def test_the_rule_and_the_value_are_named(name: str, argument: str, value: object, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        kernel(name)(**{**CALLS[name], argument: value})
