"""Headers are any iterable of pairs, read once; everything else is refused by name."""

from __future__ import annotations

import re
from typing import Any

import pytest

import strandline
from strandline import Record
from strandline._producer.accumulator import NO_HEADERS, as_record, header_pairs
from strandline.errors import ConfigurationError

PAIRS = (("trace", b"7"), ("empty", None))


@pytest.mark.parametrize(
    "given",
    [
        PAIRS,
        list(PAIRS),
        [list(pair) for pair in PAIRS],
        iter(PAIRS),
        (pair for pair in PAIRS),
        dict(PAIRS),
        dict(PAIRS).items(),
    ],
)
def test_pairs_of_any_iterable_become_a_tuple(given: Any) -> None:
    assert header_pairs(given) == PAIRS


def test_one_name_may_have_several_values() -> None:
    assert header_pairs([("a", b"1"), ("a", b"2")]) == (("a", b"1"), ("a", b"2"))


@pytest.mark.parametrize("given", ["ab", b"ab", 7, None, object()])
def test_what_has_no_pairs_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^headers=.* is not an iterable of \(name"):
        header_pairs(given)


@pytest.mark.parametrize("pair", ["ab", ("a",), ("a", "b"), (b"a", b"b"), ("a", b"b", 1), 5])
def test_a_pair_that_is_none_is_refused(pair: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^headers: .* is not \(name, bytes or None\)"):
        header_pairs([("ok", b""), pair])


def test_an_error_of_the_iterable_is_raised_as_it_is() -> None:
    def broken() -> Any:
        yield ("a", b"1")
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        header_pairs(broken())


def test_a_record_of_send_many_takes_them_too() -> None:
    assert as_record(Record(b"v", headers=iter(PAIRS))).headers == PAIRS
    assert as_record(Record(bytearray(b"v"), headers=dict(PAIRS))).headers == PAIRS
    assert as_record(Record(b"v", headers=[])).headers == NO_HEADERS
    plain = Record(b"v")
    assert as_record(plain) is plain
    with pytest.raises(ConfigurationError, match="headers"):
        as_record(Record(b"v", headers="ab"))  # type: ignore[arg-type]


def test_the_library_has_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", strandline.__version__)
    assert "__version__" in dir(strandline)
