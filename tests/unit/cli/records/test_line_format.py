"""The format language of `strandline consume -f`."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_cli.records.line_format import DIRECTIVES, FormatError, compile_format, unescape


@dataclass(frozen=True)
class _Record:
    topic: str = "flights"
    partition: int = 2
    offset: int = 41
    leader_epoch: int = 6
    timestamp: int = 1_700_000_000_123
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def test_every_directive_prints_its_part() -> None:
    record = _Record(headers=[("a", b"1"), ("b", None)])
    text = r"%t[%p]@%o %k=%v %s %T/%e {%h} %K/%S 100%%\n"
    expected = b"flights[2]@41 key=value value 1700000000123/6 {a=1,b=} 3/5 100%\n"
    assert compile_format(text)(record) == expected


def test_null_key_and_value_print_as_nothing_and_have_length_minus_one() -> None:
    assert compile_format("%k|%v|%K|%S")(_Record(key=None, value=None)) == b"||-1|-1"


def test_empty_key_has_length_zero() -> None:
    assert compile_format("%K")(_Record(key=b"")) == b"0"


def test_bytes_that_are_no_text_pass_through() -> None:
    assert compile_format("%v\n")(_Record(value=b"\xff\x00\xfe")) == b"\xff\x00\xfe\n"


def test_escapes_become_their_bytes() -> None:
    assert compile_format(r"\n\t\r\0\a\\\x1f\xFF")(_Record()) == b"\n\t\r\0\a\\\x1f\xff"


def test_text_outside_ascii_is_printed_as_utf8() -> None:
    assert compile_format("é %o ☃")(_Record()) == "é 41 ☃".encode()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("%q", "%q at position 0"),
        ("ab%", "% at position 2"),
        (r"\q", r"\q at position 0"),
        ("\\", "\\ at position 0"),
        (r"\x1", "two hexadecimal digits"),
        (r"\xzz", "two hexadecimal digits"),
    ],
)
def test_what_is_not_known_is_refused_by_name_and_position(text: str, named: str) -> None:
    with pytest.raises(FormatError) as refused:
        compile_format(text)
    assert named in str(refused.value)


def test_refusal_names_every_directive_there_is() -> None:
    with pytest.raises(FormatError) as refused:
        compile_format("%!")
    assert all(f"%{letter}" in str(refused.value) for letter in DIRECTIVES)


@given(st.text(alphabet=st.characters(exclude_characters="%\\", exclude_categories=["Cs"])))
def test_text_without_signs_prints_as_itself(text: str) -> None:
    assert compile_format(text)(_Record()) == text.encode()


@given(st.lists(st.sampled_from(sorted(DIRECTIVES)), max_size=8))
def test_a_format_is_the_concatenation_of_its_directives(letters: list[str]) -> None:
    whole = compile_format("".join(f"%{letter}" for letter in letters))(_Record())
    assert whole == b"".join(compile_format(f"%{letter}")(_Record()) for letter in letters)


def test_a_separator_may_have_escapes_and_percent_signs() -> None:
    assert unescape(r"\t%\x00%%:") == b"\t%\x00%%:"
