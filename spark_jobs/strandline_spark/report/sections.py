"""A table's section of the page: figures, charts over time, partitions, files, newest ranges."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_spark.gold.watermark import time_text
from strandline_spark.report import charts, series, words
from strandline_spark.report.accounts import Kind
from strandline_spark.report.markup import Content, Element, tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_spark.report.accounts import TableAccount
    from strandline_spark.report.quarantine import Reasons
    from strandline_spark.report.series import Batch, PartitionAccount

_PARTITIONS_OPEN: Final = 16
_PARTITIONS_MAX: Final = 1000
_RANGES_MAX: Final = 50
_DAYS_MAX: Final = 14
_REASONS_MAX: Final = 20
_SIZES: Final = (
    ("below 64 kB", 64_000),
    ("64 kB to 1 MB", 1_000_000),
    ("1 to 16 MB", 16_000_000),
    ("16 to 128 MB", 128_000_000),
)
_LARGEST: Final = "128 MB and more"
_SMALL_FILE: Final = 16_000_000
_MANY_SMALL: Final = 50
"""Number of files below 16 MB from which the page advises to compact."""


@dataclass(slots=True)
class Findings:
    """A table, and its data for the page."""

    table: TableAccount
    reasons: Reasons | None = None
    """The reasons of a quarantine table."""


def name_of(path: str) -> str:
    """Returns the table's folder and its parent, which distinguish the tables of one pipeline."""
    parent, name = os.path.split(path.rstrip(os.sep))
    return os.path.join(os.path.basename(parent), name)


def problems_of(found: Findings) -> list[str]:
    """Returns the problems that a person should look at, each in a sentence."""
    out = []
    for one in series.partitions(found.table.ranges):
        where = f"{one.topic}:{one.partition}"
        if one.lost:
            out.append(
                f"{where}: retention took {words.plural(one.lost, 'offset')} before they were read"
            )
        if one.breaks:
            out.append(
                f"{where}: {words.plural(one.breaks, 'range')} did not begin where the one before"
                " ended; strandline-spark verify says more"
            )
    late = sum(one.late for one in found.table.closed if one.updated is None)
    if late:
        out.append(
            f"{words.plural(late, 'row')} of silver came after their window was closed, and are not"
            " in it"
        )
    return out


def about_table(found: Findings, anchor: str) -> Element:
    table = found.table
    made = series.batches(table.ranges)
    parts = series.partitions(table.ranges)
    content: list[Content] = [_heading(table, made)]
    if table.is_empty:
        content.append(tag("p", "Nothing has been committed to this table yet.", class_="quiet"))
        return tag("section", *content, id=anchor)
    content.append(_figures(table, made, parts))
    if found.reasons is not None:
        content += _about_reasons(found.reasons)
    grid: list[Element] = []
    if made:
        rows = series.rows_over_time(made)
        step = words.duration(rows.step_ms / 1000)
        grid.append(_panel("Throughput", f"rows committed in each {step}", charts.rows_chart(rows)))
        grid.append(_lag_panel(table))
        if pace := series.pace(made):
            grid.append(
                _panel(
                    "Batch times",
                    "from one commit of a job to its next one, pauses between runs included",
                    charts.pace_chart(pace),
                )
            )
    grid.append(_file_panel(table))
    content.append(tag("div", *grid, class_="panels"))
    if table.closed:
        content.append(_newest_closed(table))
    if parts:
        content.append(_partition_table(parts))
        content.append(_newest_ranges(table))
    return tag("section", *content, id=anchor)


def _heading(table: TableAccount, made: Sequence[Batch]) -> Element:
    about = f"{table.path} · version {table.version}"
    if made:
        about += f" · last commit {words.moment(made[-1].committed_at_ms)}"
    return tag(
        "div",
        tag("span", table.kind.value, class_=f"kind {table.kind.value}"),
        tag("h2", name_of(table.path)),
        tag("p", about, class_="quiet path"),
        class_="heading",
    )


def _figures(
    table: TableAccount, made: Sequence[Batch], parts: Sequence[PartitionAccount]
) -> Element:
    tiles = [("rows", words.number(table.rows), "")]
    if made:
        first, last = made[0], made[-1]
        seconds = (last.committed_at_ms - first.committed_at_ms) / 1000
        lag = sum(one.lag or 0 for one in parts)
        known = any(one.lag is not None for one in parts)
        lost = sum(one.lost for one in parts)
        between = [one.since_s for one in made if one.since_s is not None]
        ages = [one.age_s for one in made if one.age_s is not None]
        tiles += [
            ("batches", words.number(len(made)), ""),
            ("behind", words.number(lag) if known else words.UNKNOWN, "warn" if lag else ""),
            ("lost", words.number(lost), "bad" if lost else ""),
            ("median between commits", words.duration(series.quantile(between, 0.5)), ""),
            ("newest record's age, median", words.duration(series.quantile(ages, 0.5)), ""),
        ]
        if seconds > 0:
            rate = sum(one.rows for one in made[1:]) / seconds
            tiles.insert(2, ("rows per second, all in all", words.number(rate), ""))
    if table.closed:
        late = sum(one.late for one in table.closed)
        updates = table.closed[-1].updated is not None
        tiles += [
            ("commits", words.number(len(table.closed)), ""),
            ("watermark", time_text(table.closed[-1].watermark), ""),
            ("late rows", words.number(late), "bad" if late and not updates else ""),
        ]
    items = [
        tag("div", tag("dt", label), tag("dd", figure), class_=f"tile {kind}".strip())
        for label, figure, kind in tiles
    ]
    return tag("dl", *items, class_="tiles")


def _lag_panel(table: TableAccount) -> Element:
    bins = series.lag_over_time(table.ranges)
    about = "offsets between what was committed and the end of the topic, all partitions together"
    if bins is None:
        return _panel("Lag", "the commits do not say how far the topic reached", None)
    if not any(bins.values):
        return _panel("Lag", "none: each commit reached the end of the topic", None)
    return _panel("Lag", about, charts.lag_chart(bins))


def _file_panel(table: TableAccount) -> Element:
    sizes = Counter(_size_class(one.size) for one in table.files)
    labels = [*(label for label, _ in _SIZES), _LARGEST]
    rows = [
        (label, float(sizes[label]), words.number(sizes[label])) for label in labels if sizes[label]
    ]
    content: list[Content] = [charts.share_bars(rows)]
    days: dict[str, list[int]] = {}
    for one in table.files:
        day = days.setdefault(one.day, [0, 0, 0])
        for at, value in enumerate((1, one.rows, one.size)):
            day[at] += value
    if days and set(days) != {""}:
        newest = sorted(days, reverse=True)[:_DAYS_MAX]
        cells = [
            (day, words.number(days[day][0]), words.number(days[day][1]), words.size(days[day][2]))
            for day in newest
        ]
        content.append(_table(("day of ingestion", "files", "rows", "size"), cells))
    small = sum(one.size < _SMALL_FILE for one in table.files)
    if small >= _MANY_SMALL and table.kind is Kind.BRONZE:
        content.append(
            tag(
                "p",
                f"{words.number(small)} files are small; fewer are read faster: ",
                tag("code", f"strandline-spark compact {table.path}"),
                class_="hint",
            )
        )
    mean = table.size / len(table.files) if table.files else None
    panel = _panel("Files", f"by size; {words.size(mean)} on average", None)
    for one_more in content:
        panel.append(one_more if isinstance(one_more, Element) else tag("p", one_more))
    return panel


def _size_class(size: int) -> str:
    return next((label for label, below in _SIZES if size < below), _LARGEST)


def _about_reasons(reasons: Reasons) -> list[Content]:
    total = sum(count for _, _, count in reasons.counts) or 1
    several = len({topic for topic, _, _ in reasons.counts}) > 1
    rows = [
        (
            f"{topic}: {reason}" if several else reason,
            float(count),
            f"{words.number(count)} ({words.percent(count / total)})",
        )
        for topic, reason, count in reasons.counts[:_REASONS_MAX]
    ]
    out: list[Content] = [
        tag("h3", "Why records did not parse"),
        charts.share_bars(rows, kind="poor"),
    ]
    hidden = len(reasons.counts) - _REASONS_MAX
    if hidden > 0:
        out.append(tag("p", f"and {words.plural(hidden, 'more reason')}", class_="quiet"))
    cells = [
        (
            f"{one.topic}:{one.partition}",
            words.number(one.offset),
            one.reason,
            one.detail,
            one.value,
        )
        for one in reasons.samples
    ]
    columns = ("partition", "offset", "reason", "detail", "value")
    shown = _table(columns, cells, text=("reason", "detail", "value"), code=("value",))
    out.append(tag("div", tag("h3", "Some of them"), shown))
    return out


def _partition_table(parts: Sequence[PartitionAccount]) -> Element:
    if len(parts) <= _PARTITIONS_OPEN:
        return tag("div", tag("h3", "Audit by partition"), _partition_rows(parts))
    worst = sorted(parts, key=lambda one: (-one.breaks, -one.lost, -(one.lag or 0)))
    listed = parts[:_PARTITIONS_MAX]
    title = f"All {words.plural(len(parts), 'partition')}"
    if len(listed) < len(parts):
        title = f"The first {len(listed)} of {words.plural(len(parts), 'partition')}"
    return tag(
        "div",
        tag("h3", f"Audit: the {_PARTITIONS_OPEN} partitions that need a look most"),
        _partition_rows(worst[:_PARTITIONS_OPEN]),
        tag("details", tag("summary", title), _partition_rows(listed)),
    )


def _partition_rows(parts: Sequence[PartitionAccount]) -> Element:
    cells = []
    for one in parts:
        where = f"{one.topic}:{one.partition}"
        offsets = f"{words.number(one.start)} to {words.number(one.end)}"
        counts = (one.ranges, one.rows, one.skipped, one.lost, one.breaks)
        cells.append((where, offsets, *map(words.number, counts), words.number(one.lag)))
    columns = ("partition", "offsets", "ranges", "rows", "skipped", "lost", "breaks", "lag")
    return _table(columns, cells, alarming=("lost", "breaks"))


def _newest_ranges(table: TableAccount) -> Element:
    newest = table.ranges[: -_RANGES_MAX - 1 : -1]
    cells = [
        (
            words.moment(one.committed_at_ms),
            words.number(one.batch_id),
            f"{one.topic}:{one.partition}",
            f"{words.number(one.start)} to {words.number(one.end)}",
            words.number(one.rows),
            words.number(one.skipped),
            words.number(one.lost),
            words.size(one.size),
            words.number(one.lag),
        )
        for one in newest
    ]
    columns = (
        *("committed", "batch", "partition", "offsets", "rows", "skipped", "lost", "size", "lag"),
    )
    shown = _table(columns, cells, alarming=("lost",))
    title = f"The newest {len(newest)} of {words.plural(len(table.ranges), 'range')}"
    return tag("details", tag("summary", title), shown)


def _newest_closed(table: TableAccount) -> Element:
    newest = table.closed[: -_RANGES_MAX - 1 : -1]
    cells = [
        (
            words.number(one.version),
            time_text(one.watermark),
            *map(words.number, (one.rows, one.late)),
        )
        for one in newest
    ]
    is_left_out = any(one.updated is None for one in newest)
    alarming = ("late",) if is_left_out else ()
    shown = _table(("version", "watermark", "rows", "late"), cells, alarming=alarming)
    title = f"The newest {len(newest)} of {words.plural(len(table.closed), 'commit')}"
    return tag("details", tag("summary", title), shown)


def _panel(title: str, about: str, chart: Element | None) -> Element:
    panel = tag("div", tag("h3", title), tag("p", about, class_="quiet"), class_="panel")
    if chart is not None:
        panel.append(chart)
    return panel


def _table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    alarming: Sequence[str] = (),
    text: Sequence[str] = (),
    code: Sequence[str] = (),
) -> Element:
    """Returns a table with figures to the right, and names and `text` columns to the left. A figure
    above 0 in an `alarming` column stands out.
    """
    left = {columns[0], *text}
    head = tag("tr", *(tag("th", one, class_="left" if one in left else None) for one in columns))
    body = tag("tbody")
    for row in rows:
        line = tag("tr")
        for column, value in zip(columns, row, strict=True):
            alarm = column in alarming and value not in ("0", words.UNKNOWN)
            kinds = " ".join(
                kind for kind, holds in (("left", column in left), ("alarm", alarm)) if holds
            )
            content: Content = tag("code", value) if column in code else value
            line.append(tag("td", content, class_=kinds or None))
        body.append(line)
    return tag("div", tag("table", tag("thead", head), body), class_="scroll")
