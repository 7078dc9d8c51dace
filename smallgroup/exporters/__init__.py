"""Trained models as one file for other programs: formats by name."""

from typing import TYPE_CHECKING

from smallgroup.registry import Registry
from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.exporters.export import Exported, ParityError, export_model
    from smallgroup.exporters.exporter import Exporter, MissingExtraError
    from smallgroup.exporters.program import about
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "export": ["Exported", "ParityError", "export_model"],
            "exporter": ["Exporter", "MissingExtraError"],
            "program": ["about"],
        },
    )

EXPORTERS: "Registry[Exporter]" = Registry(
    "exporter",
    "smallgroup.exporters",
    "smallgroup.exporters.exporter:Exporter",
    {"onnx": "smallgroup.exporters.onnx:Onnx", "pt2": "smallgroup.exporters.pt2:Pt2"},
)
"""File formats by name: the built-in ones, those of installed packages, and those of plugins."""
register = EXPORTERS.register
"""The decorator that registers a format of your own under its `name`."""

__all__ = [
    "EXPORTERS",
    "Exported",
    "Exporter",
    "MissingExtraError",
    "ParityError",
    "about",
    "export_model",
    "register",
]
