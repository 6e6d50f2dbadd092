"""The demo's look at gold: weights, order, and a picture that fits narrow and wide terminals."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from rich.console import Console

from strandline_cli.demo.gold_look import by_carrier, print_delays, print_sessions

MORNING = datetime(2013, 1, 1, 11, tzinfo=UTC)


def delays(*rows: tuple[str, int, int, int, float | None]) -> pa.Table:
    """(carrier, hours after six in New York, flights, cancelled, mean delay)."""
    columns = ("carrier", "flights", "cancelled", "delay_mean")
    return pa.Table.from_pylist(
        [
            dict(zip(columns, (row[0], *row[2:]), strict=True))
            | {"window_start": MORNING + timedelta(hours=row[1])}
            for row in rows
        ]
    )


def drawn(width: int, table: pa.Table) -> list[str]:
    console = Console(file=StringIO(), width=width)
    print_delays(console, table)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


def test_means_are_weighted_by_the_flights_that_left() -> None:
    found = by_carrier(
        delays(
            ("AA", 0, 3, 1, 10.0), ("AA", 1, 6, 0, 2.0), ("UA", 0, 1, 0, 9.0), ("XX", 0, 2, 2, None)
        )
    )
    assert [(name, one.flights, one.cancelled, one.mean) for name, one, _ in found] == [
        ("UA", 1, 0, 9.0),
        ("AA", 9, 1, 4.0),
        ("XX", 2, 2, None),
    ]
    assert {hour: one.mean for hour, one in found[1][2].items()} == {6: 10.0, 7: 2.0}


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_picture_fits_the_terminal(width: int) -> None:
    lines = drawn(width, delays(("AA", 0, 50_000, 100, 20.0), ("UA", 3, 5, 0, -4.0)))
    assert max(map(len, lines)) <= width
    (first,) = (line for line in lines if "AA" in line)
    assert {"50,000", "0.2%", "20.0 min"} <= {cell.strip() for cell in first.split("│")}
    assert "█" in first.split("│")[5]
    # Six o'clock is the second hour of the row.
    assert first.split("│")[6][:4] == "  █ "
    (second,) = (line for line in lines if "UA" in line)
    assert "-4.0 min" in second
    assert "▁" in second


def test_a_carrier_that_never_left_has_a_row() -> None:
    assert any(
        "XX" in line and "100.0%" in line for line in drawn(80, delays(("XX", 0, 2, 2, None)))
    )


def test_the_longest_sessions_come_first() -> None:
    rows = [
        {"window_start": MORNING, "tailnum": f"N{miles}", "flights": 2, "places": 1, "miles": miles}
        for miles in (10, 4000, 30, 20)
    ]
    console = Console(file=StringIO(), width=80)
    print_sessions(console, pa.Table.from_pylist(rows))
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert [text.index(name) for name in ("N4000", "N30", "N20")] == sorted(
        text.index(name) for name in ("N4000", "N30", "N20")
    )
    assert "N10" not in text
    assert "01 Jan 2013, 06:00" in text
    assert "of 4 sessions" in text
