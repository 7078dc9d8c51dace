"""Digits are read without scikit-learn's second of imports, and are the same."""

import subprocess
import sys

import pytest
import torch
from sklearn.datasets import load_digits

from smallgroup.data import digits
from smallgroup.data.images import TensorImages


def test_the_table_is_that_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels, labels = load_digits(return_X_y=True)
    table = digits._table()
    assert (table[:, :-1] == pixels).all()
    assert (table[:, -1] == labels).all()
    own = digits.open_digits()
    monkeypatch.setattr(digits, "find_spec", lambda _: None)  # as where the file is not found
    asked = digits.open_digits()
    for one, other in ((own.train, asked.train), (own.test, asked.test)):
        assert isinstance(one, TensorImages)
        assert isinstance(other, TensorImages)
        assert torch.equal(one.pixels, other.pixels)
        assert one.labels is not None
        assert other.labels is not None
        assert torch.equal(one.labels, other.labels)


def test_opening_digits_does_not_import_scikit_learn() -> None:
    code = (
        "import sys; from smallgroup.data.digits import open_digits; open_digits(); sys.exit('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
