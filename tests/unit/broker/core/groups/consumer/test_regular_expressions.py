"""Regular expressions of subscriptions: whole names, linear time, clear refusals."""

import pytest

from strandline_broker.core.groups.consumer.regular_expressions import LENGTH_MAX, Re2Matcher
from strandline_proto.errors import InvalidRegularExpression


def test_an_expression_matches_whole_names_in_the_order_given() -> None:
    names = ["orders", "orders-eu", "my-orders", "Orders"]
    assert Re2Matcher().matching("orders(-.*)?", names) == ("orders", "orders-eu")
    assert Re2Matcher().matching("(?i)orders", names) == ("orders", "Orders")
    assert Re2Matcher().matching("", names) == ()


def test_an_expression_that_backtracks_elsewhere_takes_linear_time_here() -> None:
    # Engines that backtrack take 2^249 steps for this one.
    assert Re2Matcher().matching("(a+)+b", ["a" * 249, "a" * 248 + "b"]) == ("a" * 248 + "b",)


@pytest.mark.parametrize(
    ("regex", "why"),
    [
        ("(", "missing )"),
        ("a(?=b)", "(?="),
        (r"(a)\1", r"\1"),
        ("a{2000}", "repetition"),
        ("(" * 400 + "a" + "{9})" * 400, "(("),
    ],
)
def test_what_re2_cannot_match_is_refused_with_the_reason(regex: str, why: str) -> None:
    with pytest.raises(InvalidRegularExpression) as caught:
        Re2Matcher().check(regex)
    assert why in str(caught.value)
    assert "RE2" in str(caught.value)


def test_an_expression_has_a_longest_length() -> None:
    Re2Matcher().check("a" * LENGTH_MAX)
    with pytest.raises(InvalidRegularExpression, match=f"{LENGTH_MAX} are the most"):
        Re2Matcher().check("a" * (LENGTH_MAX + 1))
