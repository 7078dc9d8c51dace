"""The relative error of every term against the unrolled problem: `python -m tests.group.error_table`."""

import torch

from tests.group.checks import expected_terms, group_of, term_errors
from tests.group.networks import make_batches, make_learners


def main() -> None:
    print("Largest relative error over the learners, each term in units of its own norm; xi = 0.3, lambda = 1")
    print(f"{'K':<3}{'mode':<20}{'dtype':<10}" + "".join(f"{t:>10}" for t in ("direct", "own", "cross", "label")))
    for count in (1, 2, 3):
        expected = expected_terms(make_learners(count))
        for mode in ("first-order", "exact", "finite-difference"):
            for dtype in (torch.float64, torch.float32):
                group = group_of(make_learners(count, dtype), hypergradient=mode)
                if mode == "first-order":
                    expected_here = [
                        {t: v if t == "direct" else {n: 0 * x for n, x in v.items()} for t, v in terms.items()}
                        for terms in expected
                    ]
                else:
                    expected_here = expected
                errors = term_errors(group.architecture_gradients(*make_batches(dtype), parts=True), expected_here)
                row = [[e for (_, name), e in errors.items() if name == t] for t in ("direct", "own", "cross", "label")]
                cells = "".join(f"{max(values):>10.1e}" if values else f"{'none':>10}" for values in row)
                print(f"{count:<3}{mode:<20}{str(dtype).removeprefix('torch.'):<10}{cells}")


if __name__ == "__main__":
    main()
