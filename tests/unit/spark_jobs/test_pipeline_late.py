"""What pipeline.toml says of watermarks, and each mistake there with its key, value and remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_spark.errors import OptionError
from strandline_spark.pipeline.config import parse_pipeline

if TYPE_CHECKING:
    from strandline_spark.pipeline.steps import GoldStep


FILE = """
[pipeline]
name = "clicks"
topics = ["a", "b"]

[silver]
format = "json"
event_time = "timestamp"
[silver.columns]
user = "string"

[[gold]]
name = "per_minute"
window = "1 minute"
{}
sql = "SELECT window_start, window_end, count(*) AS n FROM silver GROUP BY ALL"
"""


def step(lines: str) -> GoldStep:
    (found,) = parse_pipeline(FILE.format(lines), "/srv/pipeline.toml").gold
    return found


def test_a_watermark_is_one_for_all_topics_or_one_for_each() -> None:
    one = step('watermark = "30 seconds"')
    assert (one.watermark, one.delays, one.idle_after) == (30_000_000, (), None)
    more = step('watermark = { a = "30 seconds", b = "1 minute" }\nidle_after = "10 minutes"')
    assert more.delays == (("a", 30_000_000), ("b", 60_000_000))
    assert (more.watermark, more.idle_after) == (60_000_000, 600_000_000)


def test_late_rows_are_left_out_or_change_their_windows() -> None:
    assert not step('watermark = "1 minute"').updates
    assert not step('watermark = "1 minute"\nlate = "drop"').updates
    assert step('watermark = "1 minute"\nlate = "update"').updates


def test_sessions_take_no_late_rows() -> None:
    lines = 'session = "1 minute"\nsession_key = ["user"]\nwatermark = "1 minute"\nlate = "update"'
    text = FILE.replace('window = "1 minute"\n', "").format(lines)
    said = r'\[\[gold\]\] per_minute, late \(line 17\) = "update": a late row may join sessions'
    with pytest.raises(OptionError, match=said):
        parse_pipeline(text, "/srv/pipeline.toml")


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        (
            'watermark = "1 minute"\nlate = "keep"',
            16,
            "late#: Invalid enum value 'keep'",
        ),
        ("watermark = {}", 15, "watermark# = {}: give a duration, or one for each topic"),
        (
            'watermark = { a = "soon", b = "1 minute" }',
            15,
            "watermark# of 'a' = 'soon': give a whole number and second, .* as '5 minutes'",
        ),
        (
            'watermark = { a = "1 minute" }',
            15,
            "watermark#: the topic 'b' of the step's silver table has none; give each topic one",
        ),
        (
            'watermark = { a = "1 minute", b = "1 minute", c = "1 minute" }',
            15,
            "watermark#: 'c' is no topic of the step's silver table, which has a, b; take it out",
        ),
        ("watermark = 5", 15, "watermark#: Expected `str | object`, got `int`"),
        ('watermark = { a = 5, b = "1 minute" }', 15, "watermark#: Expected `str`, got `int`"),
        (
            'watermark = "1 minute"\nidle_after = "0 seconds"',
            16,
            "idle_after# = '0 seconds': give a whole number and second",
        ),
        (
            'watermark = "1 minute"\nidle_after = "1 week"',
            16,
            "idle_after# = '1 week': give 6 days at the most; silver's log",
        ),
    ],
)
def test_a_mistake_is_named_with_its_key_and_line(lines: str, line: int, said: str) -> None:
    said = r"\[\[gold\]\] per_minute, " + said.replace("#", rf" \(line {line}\)").replace(
        "|", r"\|"
    )
    with pytest.raises(OptionError, match=said):
        step(lines)
