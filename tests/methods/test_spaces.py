"""Every method takes a real step in every space, or is refused there in a sentence."""

import pytest
import torch

from smallgroup.methods import METHODS
from smallgroup.spaces import SPACES
from smallgroup.testing.groups import batches_for, group_of, relaxed_of
from smallgroup.testing.small import small_network, small_space

REFUSED = {
    ("pc-darts", "proxyless"): "keep the number of channels",
    ("p-darts", "nas-bench-201"): "has a network of given depth",
    ("p-darts", "proxyless"): "has a network of given depth",
}
"""What the refusal says."""
OPTIONS = {"parsec": {"children": 2}, "pc-darts": {"part": 2}}


@pytest.mark.slow  # the contract takes steps of every method in NAS-Bench-201
@pytest.mark.parametrize("space_name", SPACES.built_in)
@pytest.mark.parametrize("name", METHODS.built_in)
def test_a_step_and_a_network(name: str, space_name: str) -> None:
    space = small_space(space_name)
    options = OPTIONS.get(name, {})
    if (name, space_name) in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[name, space_name]):
            group_of(space, [METHODS[name](**options)], torch.float32, hypergradient="first-order")
        return
    group = group_of(space, [METHODS[name](**options)], torch.float32, hypergradient="first-order")
    (learner,) = group.learners
    before = {key: tensor.clone() for key, tensor in learner.architecture.items()}
    group.step(*batches_for(space, torch.float32))
    assert any(not torch.equal(tensor, before[key]) for key, tensor in learner.architecture.items())
    assert all(bool(tensor.isfinite().all()) for tensor in (*learner.w.values(), *learner.architecture.values()))
    small_network(relaxed_of(learner).derive(learner.architecture))
