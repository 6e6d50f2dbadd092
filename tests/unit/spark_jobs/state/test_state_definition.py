"""Each mistake in a state step's keys is named before a row is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_spark.errors import OptionError
from support.silver_tables import SilverRow, create, take
from support.state_tables import States

if TYPE_CHECKING:
    from pathlib import Path


def refused(tmp_path: Path, **more: object) -> str:
    states = States(tmp_path, **more)  # type: ignore[arg-type]
    create(states.silver)
    with pytest.raises(OptionError) as raised:
        states.run()
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"key": ("kea",)},
            "[[state]] latest, key = 'kea': silver has no such column (did you mea",
        ),
        ({"key": ("Carrier",)}, "no such column (did you mean carrier?); it has topic, partition"),
        ({"order": ("version",)}, "[[state]] latest, order = 'version': silver has no such column"),
        ({"key": ("key", "delay")}, "key = 'delay': a double is no key"),
    ],
)
def test_a_column_that_cannot_be_a_key_is_named(tmp_path: Path, more: object, said: str) -> None:
    assert said in refused(tmp_path, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("op = 'd'", "No field named op"),
        ("carrier = ", "Expected: an expression"),
        ("carrier = 'd' AND", "an expression"),
        ("carrier", "it is of type string, not boolean; compare it with a value, as op = 'd'"),
        ("1", "not boolean"),
        ("max(carrier) = 'd'", "one condition about one row, without aggregates"),
        ("true, false", "not boolean"),
        ("true) AS a, (false", "one condition"),
        ("carrier = 'd') FROM silver; DROP TABLE silver; --", "Expected: an SQL statement"),
        ("carrier IN (SELECT carrier FROM silver)", "leave SELECT out"),
        ("row_number() OVER () = 1", "leave OVER out"),
        ("random() < 0.5", "random gives another result in each run"),
        ("event_time < now()", "now gives another result"),
        ("event_time < current_timestamp", "current_timestamp gives another result"),
        ("unknown(carrier)", "unknown"),
        ("carrier = 'd", "Unterminated string"),
    ],
)
def test_a_condition_that_cannot_be_used_is_named(
    tmp_path: Path, condition: str, said: str
) -> None:
    text = refused(tmp_path, delete_when=condition)
    assert text.startswith("[[state]] latest, delete_when")
    assert said in text


@pytest.mark.parametrize(
    "condition",
    [
        "carrier = 'd'",
        "`carrier` IN ('d', 'x') -- these",
        "lower(carrier) LIKE 'd%' /* or so */ AND delay IS NOT NULL",
        "coalesce(carrier, 'd') = 'd'",
        "CASE WHEN delay > 1 THEN true ELSE false END",
        "event_time < TIMESTAMP '1970-01-01T00:00:00Z'",
        "carrier = 'now() select over ('",
        "false",
        "NULL = carrier",
    ],
)
def test_conditions_of_sql_are_taken(tmp_path: Path, condition: str) -> None:
    states = States(tmp_path, delete_when=condition)
    take(states.silver, [SilverRow(0, 0, 5, key=b"a", carrier="UA")])
    assert states.run().keys == 1
    assert states.verify().sound
