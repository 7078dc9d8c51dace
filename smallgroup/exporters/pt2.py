"""What torch.export saves.

A file as it is written here has no pickle in it: weights as bytes and everything else as JSON. That is so of ours
alone: `torch.export.load` unpickles whatever a file asks it to, so load untrusted files as ONNX, or not at all.
"""

import io
import json

import torch

from smallgroup.exporters.exporter import Exporter, Forward
from smallgroup.exporters.program import about, program_of
from smallgroup.phases.training.model import TrainedModel
from smallgroup.spaces.network import DerivedNetwork

EXTRA = "smallgroup.json"


class Pt2(Exporter):
    """A program of torch.export, for torch in Python and C++; its extra file smallgroup.json describes the model."""

    name = "pt2"

    def content(self, network: DerivedNetwork, model: TrainedModel) -> bytes:
        """Return the network as an archive of `torch.export`."""
        program = program_of(network, model)
        program.example_inputs = None  # would be pickled
        file = io.BytesIO()
        torch.export.save(program, file, extra_files={EXTRA: json.dumps(about(model))})
        return file.getvalue()

    def runs(self, content: bytes) -> Forward:
        """Return the archived program as a function of images."""
        loaded: Forward = torch.export.load(io.BytesIO(content)).module()
        return loaded
