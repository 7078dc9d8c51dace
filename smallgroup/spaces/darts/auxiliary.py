"""The auxiliary head: a second classifier two thirds up the stack, which helps to train what lies below it."""

from torch import Tensor, nn
from torch.nn import functional

from smallgroup.runtime.checks import check_choice
from smallgroup.spaces.darts.names import AUXILIARIES
from smallgroup.spaces.layers import FULL, batch_norm

MIDDLE, WIDE = 128, 768


class AuxiliaryHead(nn.Module):
    """ReLU, average to 2x2, 1x1 convolution, 2x2 convolution, linear layer.

    The average is over two windows that reach from border to border. On maps of 8x8 and 7x7, those of CIFAR and
    ImageNet, that is what papers write as a pool of 5 with stride 3 and 2; other maps get the same rule.
    """

    def __init__(self, channels: int, classes: int, *, second_norm: bool) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, MIDDLE, 1, bias=False),
            batch_norm(MIDDLE, FULL),
            nn.ReLU(),
            nn.Conv2d(MIDDLE, WIDE, 2, bias=False),
            batch_norm(WIDE, FULL) if second_norm else nn.Identity(),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(WIDE, classes)

    def forward(self, maps: Tensor) -> Tensor:
        """Compute logits [n, classes] from maps [n, channels, height, width], each side at least 2."""
        sides = maps.shape[-2], maps.shape[-1]
        check_map(*sides)
        windows = tuple(window(side) for side in sides)
        strides = tuple(side - width for side, width in zip(sides, windows, strict=True))
        pooled = functional.avg_pool2d(functional.relu(maps), windows, strides)
        logits: Tensor = self.classifier(self.features(pooled).flatten(1))
        return logits


def window(side: int) -> int:
    """Return the width of each of two windows over a side: 5 if that leaves no gap between them, else more."""
    return max((side + 1) // 2, min(5, side - 1))


def check_map(height: int, width: int) -> None:
    """Refuse a map with no room for two windows."""
    if min(height, width) < 2:
        raise ValueError(
            "an auxiliary head needs at least 2x2 pixels after the second reduction, "
            f"but the images are so small that {height}x{width} are left"
        )


def build_auxiliary(kind: str, channels: int, classes: int) -> AuxiliaryHead | None:
    """Build the auxiliary head of a kind, on maps of so many channels."""
    check_choice("auxiliary", kind, AUXILIARIES)
    return None if kind == "none" else AuxiliaryHead(channels, classes, second_norm=kind == "two-norms")
