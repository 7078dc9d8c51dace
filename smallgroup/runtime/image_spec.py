"""What a network has to know about the images it is for."""

from dataclasses import dataclass

from smallgroup.runtime.checks import check_counts


@dataclass(frozen=True)
class ImageSpec:
    """The images of a network: classes, channels, and size in pixels. The defaults are those of CIFAR-10."""

    classes: int = 10
    channels: int = 3
    size: int = 32

    def __post_init__(self) -> None:
        check_counts(classes=self.classes, image_channels=self.channels, image_size=self.size)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return channels, height and width of an image."""
        return self.channels, self.size, self.size
