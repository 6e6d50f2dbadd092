"""Small charts as inline SVG. Shapes stretch with the page and words do not. Axis labels are HTML
beside the drawing, so they are as large on a phone as on a desktop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_spark.report import words
from strandline_spark.report.markup import Element, tag
from strandline_spark.report.series import BINS_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strandline_spark.report.series import Bins

_WIDTH: Final = 960.0
_HEIGHT: Final = 200.0
_GAP: Final = 0.18
"""Share of a bar's place that stays free."""


def rows_chart(bins: Bins) -> Element:
    """Returns bars of rows by time."""
    bars = [
        (value, f"{_at(bins, index)}: {words.plural(round(value), 'row')}")
        for index, value in enumerate(bins.values)
    ]
    return _chart("Rows committed", _bars(bars), bars, words.short, _time_axis(bins))


def lag_chart(bins: Bins) -> Element:
    """Returns a filled line of offsets behind by time."""
    points = [
        (value, f"{_at(bins, index)}: {words.plural(round(value), 'offset')} behind")
        for index, value in enumerate(bins.values)
    ]
    return _chart("Offsets behind", _steps(points), points, words.short, _time_axis(bins))


def pace_chart(groups: Sequence[tuple[str, float]]) -> Element:
    """Returns bars of seconds by batch."""
    bars = [(value, f"{name}: {words.duration(value)}") for name, value in groups]
    ends = [groups[0][0], groups[-1][0]] if len(groups) > 1 else [groups[0][0]]
    return _chart("Time between commits", _bars(bars), bars, words.duration, ends)


def share_bars(rows: Sequence[tuple[str, float, str]], *, kind: str = "") -> Element:
    """Returns a list of names with a bar and a figure each; the largest bar fills the width."""
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    items = []
    for name, value, figure in rows:
        # The bar is an SVG, since a style attribute would need a looser content policy.
        bar = tag("rect", width=f"{100 * value / most:.2f}", height=10, class_=f"mark {kind}")
        drawing = tag("svg", bar, viewBox="0 0 100 10", preserveAspectRatio="none", class_="share")
        drawing.set("aria-hidden", "true")
        items.append(
            tag(
                "li",
                tag("span", name, class_="name"),
                tag("span", figure, class_="figure"),
                drawing,
            )
        )
    return tag("ul", *items, class_="shares")


def _chart(
    title: str,
    shapes: Sequence[Element],
    values: Sequence[tuple[float, str]],
    label: Callable[[float], str],
    ends: Sequence[str],
) -> Element:
    most = max((value for value, _ in values), default=0.0)
    drawing = tag(
        "svg",
        *(_grid_line(share) for share in (0.0, 0.5, 1.0)),
        *shapes,
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        preserveAspectRatio="none",
        role="img",
    )
    drawing.set("aria-label", f"{title}, at most {label(most)}")
    scale = tag("div", *(tag("span", label(most * part)) for part in (1.0, 0.5)), tag("span", "0"))
    scale.set("class", "scale")
    axis = tag("div", *(tag("span", end) for end in ends), class_="axis")
    return tag("div", scale, tag("div", drawing, class_="plot"), axis, class_="chart")


def _grid_line(share: float) -> Element:
    y = _HEIGHT * share
    return tag("line", x1=0, x2=_WIDTH, y1=y, y2=y, class_="grid")


def _bars(bars: Sequence[tuple[float, str]]) -> list[Element]:
    most = max((value for value, _ in bars), default=0.0) or 1.0
    place = _WIDTH / max(len(bars), BINS_MIN)
    out = []
    for index, (value, title) in enumerate(bars):
        height = _HEIGHT * value / most
        if value > 0:
            height = max(height, 2.0)
        bar = tag(
            "rect",
            x=round(place * (index + _GAP / 2), 2),
            y=round(_HEIGHT - height, 2),
            width=round(place * (1 - _GAP), 2),
            height=round(height, 2),
            class_="mark",
        )
        out += [bar, _hover(place * index, place, title)]
    return out


def _steps(points: Sequence[tuple[float, str]]) -> list[Element]:
    most = max((value for value, _ in points), default=0.0) or 1.0
    place = _WIDTH / max(len(points), 1)
    line = []
    for index, (value, _) in enumerate(points):
        y = _HEIGHT - _HEIGHT * value / most
        line += [f"{place * index:.2f},{y:.2f}", f"{place * (index + 1):.2f},{y:.2f}"]
    area = [f"0,{_HEIGHT:g}", *line, f"{place * len(points):.2f},{_HEIGHT:g}"]
    return [
        tag("polygon", points=" ".join(area), class_="area"),
        tag("polyline", points=" ".join(line), class_="line"),
        *(_hover(place * index, place, title) for index, (_, title) in enumerate(points)),
    ]


def _hover(x: float, width: float, title: str) -> Element:
    """Returns the element that shows the figure on hover. It is as high as the drawing, so easy to
    hit.
    """
    area = tag("rect", tag("title", title), x=round(x, 2), y=0, height=_HEIGHT, class_="hover")
    area.set("width", f"{width:.2f}")
    return area


def _at(bins: Bins, index: int) -> str:
    return words.moment(bins.start_ms(index))


def _time_axis(bins: Bins) -> list[str]:
    span = bins.end_ms - bins.first_ms
    middle = [bins.start_ms(len(bins.values) // 2)] if len(bins.values) > 2 else []
    return [words.axis_moment(at, span) for at in (bins.first_ms, *middle, bins.end_ms)]
