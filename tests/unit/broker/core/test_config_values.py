"""Texts of configuration values, and what is said of those that are not accepted."""

from collections.abc import Callable
from typing import Any

import pytest

from strandline_broker.core.config_values import boolean, integer, one_of, shown, suggestion, text


def refusal(parse: Callable[[str], Any], value: str) -> str:
    with pytest.raises(ValueError, match="expected") as caught:
        parse(value)
    return str(caught.value)


def test_a_whole_number_is_accepted_with_both_bounds() -> None:
    parse = integer(-1, 5)
    assert [parse(value) for value in ("-1", "0", "5", " 3 ")] == [-1, 0, 5, 3]
    assert refusal(parse, "6") == "expected a whole number from -1 to 5"
    assert refusal(parse, "-2") == "expected a whole number from -1 to 5"


@pytest.mark.parametrize(
    ("unit", "value", "amount"),
    [
        ("bytes", "1k", 1024),
        ("bytes", "3 MiB", 3 << 20),
        ("bytes", "2GB", 2 << 30),
        ("milliseconds", "5s", 5000),
        ("milliseconds", "2min", 120_000),
        ("milliseconds", "1h", 3_600_000),
        ("milliseconds", "7d", 604_800_000),
    ],
)
def test_a_value_with_a_unit_is_refused_with_the_number_to_write(
    unit: str, value: str, amount: int
) -> None:
    assert refusal(integer(0, 2**31 - 1, unit), value).endswith(f", without a unit: write {amount}")


def test_a_unit_that_is_not_known_or_not_asked_for_gets_no_number() -> None:
    assert refusal(integer(0, 9, "bytes"), "5 parsecs").endswith(", without a unit")
    assert refusal(integer(0, 9), "5s") == "expected a whole number from 0 to 9"
    assert refusal(integer(0, 9, "bytes"), "") == "expected a whole number of bytes from 0 to 9"


def test_booleans_and_choices_are_words() -> None:
    assert (boolean("true"), boolean("FALSE")) == (True, False)
    assert refusal(boolean, "1") == "expected true or false"
    choice = one_of("replicated", "always")
    assert choice("always") == "always"
    assert refusal(choice, "Always") == "expected one of: replicated, always"


def test_text_is_stripped() -> None:
    assert text("  rack 1 ") == "rack 1"


def test_a_suggestion_is_made_only_for_something_that_looks_alike() -> None:
    known = ("segment.bytes", "max.message.bytes")
    assert suggestion("segment.byte", known) == "; did you mean segment.bytes?"
    assert suggestion("zzz", known) == ""


def test_what_was_given_is_shown_in_part_if_it_is_long() -> None:
    assert shown("a'b") == repr("a'b")
    assert shown("x" * 100) == repr("x" * 100)
    assert shown("x" * 101) == f"{'x' * 100!r}... (101 characters)"


def test_a_key_that_is_too_long_to_be_a_slip_is_not_compared() -> None:
    assert suggestion("k" * 201, ["k" * 201]) == ""
    assert suggestion("k" * 200, ["k" * 200]) != ""
