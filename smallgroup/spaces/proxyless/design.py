"""Networks of the chain space: their size."""

from dataclasses import dataclass

from smallgroup.runtime.checks import check_choice
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.proxyless.names import STRIDES, form_for


@dataclass(frozen=True, kw_only=True)
class ProxylessDesign(NetworkDesign):
    """A network of the chain space; `channels` are those of the first block."""

    channels: int = 16
    form: str = "auto"
    """imagenet, cifar, small, or auto, by the size of the images as in a search."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("form", self.form, ("auto", *STRIDES))
        if self.channels % 2:
            raise ValueError(f"channels of networks of proxyless must be even, but got {self.channels}")

    @property
    def strides(self) -> str:
        """The form that `auto` means."""
        return form_for(self.images.size) if self.form == "auto" else self.form
