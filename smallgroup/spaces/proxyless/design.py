"""Networks of the chain space: their size."""

from dataclasses import dataclass

from smallgroup.runtime.checks import check_choice
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.proxyless.names import SEARCHED, STRIDES, WIDTHS, form_for


@dataclass(frozen=True, kw_only=True)
class ProxylessDesign(NetworkDesign):
    """A network of the chain space; `channels` are those of the first block."""

    channels: int = 16
    form: str = "auto"
    """imagenet, cifar, small, or auto, by the size of the images as in a search."""
    widths: str = SEARCHED
    """How channels grow from stage to stage: as in the search, or as in a network of the release."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("form", self.form, ("auto", *STRIDES))
        check_choice("widths", self.widths, tuple(WIDTHS))
        if self.channels % 2:
            raise ValueError(f"channels of networks of proxyless must be even, but got {self.channels}")

    @property
    def strides(self) -> str:
        """Return the strides that `auto` means for images of this size."""
        return form_for(self.images.size) if self.form == "auto" else self.form
