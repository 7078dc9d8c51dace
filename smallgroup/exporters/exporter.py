"""What stands behind the name of a file format. Nothing here loads torch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from torch import Tensor

    from smallgroup.phases.training.model import TrainedModel
    from smallgroup.runtime.image_spec import ImageSpec
    from smallgroup.spaces.network import DerivedNetwork

Forward = Callable[["Tensor"], "Tensor"]
"""Images, float32 [batch, channels, size, size] and normalized, to logits [batch, classes]."""


class MissingExtraError(ImportError):
    """A package is needed that only an extra installs."""


def require_onnxruntime(what: str) -> None:
    """Refuse to measure latency where nothing can; to import onnxruntime takes a while, so it is looked for alone."""
    for name in ("onnxruntime", "onnx"):
        if find_spec(name) is None:
            raise MissingExtraError(
                f"{what} is measured with the package {name}, which is not installed: pip install 'smallgroup[onnx]'"
            )


class Exporter(ABC):
    """A file format that trained models are written in: what `smallgroup export --format` takes.

    A subclass is registered with `@smallgroup.exporters.register`.
    """

    name: ClassVar[str]
    suffix: ClassVar[str] = ""
    """How a file must end; empty: in a dot and the name."""

    @property
    def ending(self) -> str:
        """Return the ending that names of files in this format need."""
        return self.suffix or f".{self.name}"

    def require(self) -> None:
        """Refuse if something is missing that the format needs, before anything is computed."""
        return

    def script(self) -> str | None:
        """Return a Python program that classifies images with a file of this format; None: there is none.

        It is written beside the file as `predict.py` and needs neither torch nor this package.
        """
        return None

    @abstractmethod
    def content(self, network: "DerivedNetwork", model: "TrainedModel") -> bytes:
        """Return the file of a network in eval mode; `model` says what it is and how its images are normalized."""

    def int8(self, content: bytes, batches: Iterable["Tensor"]) -> bytes:  # noqa: ARG002
        """Return such a file with weights and activations in int8; batches of images say which range they have.

        A format that cannot do so refuses.
        """
        raise ValueError(f"--int8 needs a format that can be quantized, such as onnx, but got {self.name}")

    def latencies(self, contents: "Sequence[bytes]", images: "ImageSpec") -> list[float] | None:  # noqa: ARG002
        """Return the milliseconds of each file for one image, their runs alternating; None: it is not measured."""
        return None

    @abstractmethod
    def runs(self, content: bytes) -> Forward:
        """Return what computes logits with such a file; they are compared with the network's before it is written."""
