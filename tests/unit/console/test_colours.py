"""The colours of consecutive leader epochs differ for people with each kind of colour blindness.

The matrices are those of Machado, Oliveira and Fernandes (2009) for a complete deficiency, in
linear RGB. The distance is that of CIE 1976 in L*a*b*.
"""

import itertools
import re
from pathlib import Path

import pytest

WEB = Path(__file__).parents[3] / "console" / "web" / "src"
SEEN = {
    "all": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "without red": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "without green": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "without blue": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)
LEAST = 10.0


def times(matrix: tuple[tuple[float, ...], ...], vector: list[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def lab(colour: str, seen: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    shown = [min(1.0, max(0.0, c)) for c in times(SEEN[seen], linear)]
    ratios = [c / w for c, w in zip(times(TO_XYZ, shown), WHITE, strict=True)]
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in ratios)
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


def themes() -> dict[str, list[str]]:
    """The epochs' colours of each theme; the dark one changes some of the light one's."""
    text = (WEB / "style" / "theme.css").read_text()
    light, dark = text.split(':root[data-theme="dark"]')[0], text.split("@media")[0]
    found = {}
    for name, part in (("light", light), ("dark", dark)):
        colours = dict(re.findall(r"--e(\d): (#[0-9a-f]{6})", part))
        found[name] = [colours[n] for n in sorted(colours)]
    return found


def test_there_are_as_many_colours_as_the_pages_take() -> None:
    count = re.search(r"EPOCH_COLOURS = (\d+)", (WEB / "draw" / "palette.ts").read_text())
    assert count is not None
    assert {len(colours) for colours in themes().values()} == {int(count[1])}


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_epoch_and_the_next_have_colours_that_differ(theme: str, seen: str) -> None:
    colours = themes()[theme]
    for one, following in itertools.pairwise([*colours, colours[0]]):
        pairs = zip(lab(one, seen), lab(following, seen), strict=True)
        distance = sum((a - b) ** 2 for a, b in pairs) ** 0.5
        assert distance >= LEAST, (one, following, distance)
