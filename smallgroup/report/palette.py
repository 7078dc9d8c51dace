"""Colors that the color-blind tell apart (after Okabe and Ito), each in a dress for light and one for dark paper."""

import zlib

NEUTRAL = {
    "ink": ("#1b1f24", "#e8eaed"),
    "muted": ("#57606a", "#a3adb8"),
    "grid": ("#d0d7de", "#3a424c"),
    "paper": ("#ffffff", "#14181d"),
    "card": ("#f6f8fa", "#1c2229"),
    "accent": ("#00588a", "#7cc7f2"),
    "warn": ("#8f3f00", "#f5a623"),
    "good": ("#0b6b3a", "#4cd08a"),
}
LEARNERS = (
    ("#0072b2", "#56b4e9"),
    ("#bf4c00", "#f08a3c"),
    ("#007a58", "#2cc79a"),
    ("#a84e86", "#e8a3cb"),
    ("#7a5c00", "#e6b422"),
    ("#3d5a98", "#9fb8f0"),
    ("#444b54", "#c9d1d9"),
)
"""At least 4.5 to 1 against the paper, so that they serve for text as well."""
DASHES = ("", "6 3", "2 3", "8 3 2 3")

OPERATIONS = {
    "none": "#8c959f",
    "skip_connect": "#cc79a7",
    "max_pool_3x3": "#d55e00",
    "avg_pool_3x3": "#e69f00",
    "sep_conv_3x3": "#0072b2",
    "sep_conv_5x5": "#56b4e9",
    "sep_conv_7x7": "#9ad0f5",
    "dil_conv_3x3": "#009e73",
    "dil_conv_5x5": "#f0e442",
    "conv_7x1_1x7": "#b39ddb",
    "nor_conv_1x1": "#56b4e9",
    "nor_conv_3x3": "#0072b2",
}
_SPARE = ("#0072b2", "#56b4e9", "#009e73", "#f0e442", "#e69f00", "#d55e00", "#cc79a7")
_SCALE = ((0, 32, 77), (66, 78, 108), (124, 123, 120), (186, 173, 104), (255, 234, 70))
"""Cividis at five places: dark blue to yellow, and even to every eye."""


def series(index: int) -> str:
    """Return the name of the color of a learner or a run."""
    return f"l{index % len(LEARNERS)}"


def dash(index: int) -> str:
    """Return the dash pattern of a line; the first ones are distinct."""
    return DASHES[index % len(DASHES)]


def paint(name: str, *, standalone: bool) -> str:
    """Return a color by name, as a variable of the page or, in a separate file, as on light paper."""
    if name.startswith("#") or name == "none":
        return name
    if not standalone:
        return f"var(--{name})"
    return LEARNERS[int(name[1:])][0] if name[0] == "l" and name[1:].isdigit() else NEUTRAL[name][0]


def operation(name: str) -> str:
    """Return the color of an operation; that of one that is not built in is a function of its name."""
    return OPERATIONS.get(name) or _SPARE[zlib.crc32(name.encode()) % len(_SPARE)]


def on(color: str) -> str:
    """Return black or white, whichever is easier to read on a color."""
    return "#000000" if (luminance(color) + 0.05) / 0.05 >= 1.05 / (luminance(color) + 0.05) else "#ffffff"


def luminance(color: str) -> float:
    """Return the relative luminance of a color, as WCAG defines it."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def scaled(share: float) -> tuple[int, int, int]:
    """Return a share from 0 to 1 as a color."""
    place = min(max(share, 0.0), 1.0) * (len(_SCALE) - 1)
    low = min(int(place), len(_SCALE) - 2)
    part = place - low
    red, green, blue = (round(a + part * (b - a)) for a, b in zip(_SCALE[low], _SCALE[low + 1], strict=True))
    return red, green, blue


def hexed(color: tuple[int, int, int]) -> str:
    """Return a color in hexadecimal, as style sheets write it."""
    return "#" + "".join(f"{part:02x}" for part in color)


def shade(share: float) -> str:
    """Return the CSS class of a field with the color of a share from 0 to 1, in whole percent."""
    return f"s{round(100 * min(max(share, 0.0), 1.0))}"


def shades() -> str:
    """Return the CSS of the classes of shares: as the background of a field, as a bar, and the colors of learners.

    They are in the style sheet because the page's content security policy forbids style attributes.
    """
    colors = [hexed(scaled(share / 100)) for share in range(101)]
    fields = "".join(f".shaded.s{i}{{background:{one};color:{on(one)}}}" for i, one in enumerate(colors))
    bars = "".join(f".bars .s{i}{{--share:{i}%}}" for i in range(101))
    learners = "".join(f".of-l{i}{{--bar:var(--l{i})}}" for i in range(len(LEARNERS)))
    return fields + bars + learners


def variables() -> str:
    """Return every color as a CSS variable, for light mode, for dark mode, and again light for printing."""
    every = {**NEUTRAL, **{f"l{i}": pair for i, pair in enumerate(LEARNERS)}}
    light, dark = ("".join(f"--{name}:{pair[i]};" for name, pair in every.items()) for i in (0, 1))
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"@media print{{:root{{color-scheme:light;{light}}}}}"
    )
