"""Random numbers that are computed where they are needed."""

import torch
from scipy import stats

from smallgroup.runtime import stream
from smallgroup.runtime.fields import draw_normal, draw_uniform, words

CPU = torch.device("cpu")


def test_they_are_those_of_splitmix64() -> None:
    """The numbers that the authors' program prints for this seed."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [word % 2**64 for word in words(4, 1234567, CPU).tolist()] == published
    assert torch.equal(words(4, 1234567 - 2**64, CPU), words(4, 1234567, CPU))


def test_they_are_spread_as_they_should_be() -> None:
    uniform = draw_uniform((200, 501), stream("a"), CPU)
    assert uniform.dtype == torch.float32
    assert 0 <= float(uniform.min()) <= float(uniform.max()) < 1
    assert stats.kstest(uniform.flatten().numpy(), "uniform").pvalue > 0.01
    normal = draw_normal((200, 501), stream("a"), CPU)
    assert stats.kstest(normal.flatten().numpy(), "norm").pvalue > 0.01
    # Neither neighbors nor rows nor numbers of the two halves of a word go together.
    for one, other in ((uniform[:, 1:], uniform[:, :-1]), (uniform[1:], uniform[:-1])):
        assert abs(torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1]) < 0.01


def test_they_are_functions_of_the_generator_and_differ_from_call_to_call() -> None:
    generator = stream("a")
    first, second = (draw_uniform((3, 5), generator, CPU) for _ in range(2))
    assert torch.equal(first, draw_uniform((3, 5), stream("a"), CPU))
    assert not torch.equal(first, second)
    assert torch.equal(first.flatten()[:7], draw_uniform((7,), stream("a"), CPU))
    assert draw_uniform((0, 2), stream("a"), CPU).shape == (0, 2)
