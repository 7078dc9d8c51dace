"""Colors can be read and told apart."""

import pytest

from smallgroup.report.palette import LEARNERS, NEUTRAL, OPERATIONS, luminance, on, operation, scaled, variables


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("dress", [0, 1])
def test_lines_and_words_can_be_read_on_paper_and_on_cards(dress: int) -> None:
    for ground in (NEUTRAL["paper"][dress], NEUTRAL["card"][dress]):
        for name in ("ink", "muted", "accent", "warn", "good"):
            assert contrast(NEUTRAL[name][dress], ground) >= 4.5, name
        for pair in LEARNERS:
            assert contrast(pair[dress], ground) >= 4.5, pair
    assert contrast(NEUTRAL["accent"][dress], NEUTRAL["paper"][dress]) >= 4.5


def test_operations_can_be_read_and_differ_within_a_space() -> None:
    for name, color in OPERATIONS.items():
        assert contrast(color, on(color)) >= 4.5, name
    darts = [OPERATIONS[name] for name in OPERATIONS if not name.startswith("nor")]
    assert len(set(darts)) == len(darts)
    assert operation("of_somebody") == operation("of_somebody")


def test_the_scale_rises_in_lightness() -> None:
    lights = [luminance("#" + "".join(f"{part:02x}" for part in scaled(share / 20))) for share in range(21)]
    assert lights == sorted(lights)
    assert scaled(-1) == scaled(0)
    assert scaled(2) == scaled(1) == (255, 234, 70)


def test_every_name_is_a_variable_in_both_dresses() -> None:
    made = variables()
    assert made.count("--ink:#1b1f24;") == 2  # light paper, and print
    assert made.count("--ink:#e8eaed;") == 1
    assert "--l6:" in made
