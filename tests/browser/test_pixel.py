"""From a record to the pixel, on real processes: broker, console, browser."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from strandline_bench.console.browser import BrowserFailed
from strandline_bench.console.pixel import times_ms, what_is_missing

pytestmark = [pytest.mark.browser, pytest.mark.integration]


def test_the_pixel_follows_the_event(record_property: Callable[[str, object], None]) -> None:
    """Each record is drawn. How soon depends on the machine: the figure is printed, not judged."""
    assert what_is_missing() is None
    program = "from strandline_cli.main import main; main()"
    words = ["bench", "console", "--only", "pixel", "--partitions", "3", "--records", "20"]
    said = subprocess.run(
        [sys.executable, "-c", program, *words, "--format", "json"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    ).stdout
    found = [json.loads(line) for line in said.splitlines()]
    assert [one["measure"] for one in found] == ["environment", "pixel"]
    assert found[1]["records"] == 20
    assert 0 < found[1]["p50_ms"] <= found[1]["p95_ms"] <= found[1]["max_ms"]
    record_property("event to pixel", found[1])
    sys.stdout.write(f"{said.splitlines()[1]}\n")


def test_an_end_that_came_with_a_later_one_counts_then() -> None:
    sent = [(1, 100.0), (2, 150.0), (3, 200.0)]
    assert times_ms(sent, [(1, 120.0), (3, 260.0), (4, 300.0)]) == [20.0, 110.0, 60.0]
    with pytest.raises(BrowserFailed, match="log end 5 was never shown"):
        times_ms([(5, 1.0)], [(4, 2.0)])
