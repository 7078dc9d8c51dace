import torch

from smallgroup.runtime import seed_of, stream


def test_a_key_always_gives_the_same_numbers_and_another_key_others() -> None:
    first = torch.rand(8, generator=stream(0, "augment", 3))
    assert torch.equal(first, torch.rand(8, generator=stream(0, "augment", 3)))
    for key in [(1, "augment", 3), (0, "order", 3), (0, "augment", 4), (0, "augment3"), (0, "augment", "3")]:
        assert not torch.equal(first, torch.rand(8, generator=stream(*key)))


def test_seeds_are_what_they_always_were() -> None:
    # Runs made earlier must go on with the same numbers: this value may only change with a note in the changelog.
    assert seed_of(0, "augment", 3) == 4742353640995993520
    assert 0 <= seed_of("anything") < 2**63


def test_global_generators_are_left_alone() -> None:
    before = torch.get_rng_state()
    torch.rand(3, generator=stream(5))
    assert torch.equal(before, torch.get_rng_state())
