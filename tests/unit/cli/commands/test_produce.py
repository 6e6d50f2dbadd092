"""`strandline produce`: what its options send, and what it says at a terminal."""

import io
import os
from pathlib import Path
from typing import Any

import pytest

from strandline import Record
from strandline_cli.commands import produce as command
from strandline_cli.commands.produce import Input, expectation
from strandline_cli.main import run
from strandline_cli.records import line_producer
from strandline_cli.records.json_records import JsonParser
from strandline_cli.records.line_producer import RECORD_BYTES_MAX, LineProducer
from strandline_cli.records.line_records import LineParser


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[LineProducer]:
    """The runs of producers, none of which connects."""
    runs: list[LineProducer] = []

    async def note_run(self: LineProducer) -> None:
        self.counts.acknowledged = 2
        runs.append(self)

    monkeypatch.setattr(line_producer.LineProducer, "run", note_run)
    monkeypatch.setattr(os, "isatty", lambda _: False)
    return runs


def produce(*options: object) -> int:
    return run(["produce", "orders", "--bootstrap", "a:1", *map(str, options)])


def test_a_file_is_one_record(sent: list[LineProducer], tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"a\nb\n\xff")
    other.write_bytes(b"")
    assert produce("--file", one, "--file", other, "--key", "k", "-H", "a=1") == 0
    headers = (("a", b"1"),)
    assert sent[0].given == [Record(b"a\nb\n\xff", b"k", headers), Record(b"", b"k", headers)]


def test_the_whole_input_can_be_one_record(
    sent: list[LineProducer], monkeypatch: pytest.MonkeyPatch
) -> None:
    readable, writable = os.pipe()
    os.write(writable, b"a\nb\n")
    os.close(writable)
    with open(readable, "rb") as pipe:
        monkeypatch.setattr(
            command, "open", lambda *_, **__: io.BytesIO(pipe.read()), raising=False
        )
        assert produce("--file", "-") == 0
    assert sent[0].given == [Record(b"a\nb\n")]


def test_a_tombstone_is_one_record_without_a_value(sent: list[LineProducer]) -> None:
    assert produce("--tombstone", "-k", "k") == 0
    assert sent[0].given == [Record(None, b"k")]


def test_lines_have_the_options_parser(sent: list[LineProducer]) -> None:
    assert produce("-K", r"\t", "--null-marker", "", "--rate", 5) == 0
    assert sent[0].parse == LineParser(separator=b"\t", null_marker=b"")
    assert (sent[0].given, sent[0].pace is None) == (None, False)
    assert produce("--input", "json", "-H", "a=1") == 0
    assert sent[1].parse == JsonParser(headers=(("a", b"1"),))
    assert produce() == 0
    parse: Any = sent[2].parse
    assert parse.is_plain


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--tombstone",), "name it with --key"),
        (("--tombstone", "-k", "k", "--file", "f"), "--tombstone and --file exclude"),
        (("--file", "f", "--input", "json"), "--file and --input json exclude"),
        (("--input", "json", "-K", ":"), "--input json and --key-separator exclude"),
        (("--input", "json", "-k", "k"), "--input json and --key exclude"),
        (("-K", ":", "-k", "k"), "--key-separator and --key exclude"),
        (("--file", "/nonexistent/f"), "--file /nonexistent/f cannot be read: No such file"),
        (("--file", "/"), "--file / cannot be read: Is a directory"),
        (("-H", "a"), "--header 'a' is not NAME=VALUE"),
        (("--rate", "0"), "--rate"),
        (("-K", ""), "--key-separator is empty"),
        (("--transaction-size", "5"), "goes with --transactional-id"),
        (("--transactional-id", "t", "--acks", "1"), "needs all replicas in sync"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    sent: list[LineProducer],
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    why: str,
) -> None:
    assert produce(*options) == 2
    assert why in capsys.readouterr().err
    assert sent == []


def test_a_file_above_the_largest_record_is_refused(
    sent: list[LineProducer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(RECORD_BYTES_MAX + 1))
    assert produce("--file", large) == 1
    assert f"above the largest record ({RECORD_BYTES_MAX} bytes)" in capsys.readouterr().err
    assert sent == []


def test_at_a_terminal_it_says_what_it_expects_and_what_it_has_sent(
    sent: list[LineProducer],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "isatty", lambda _: True)
    assert produce("-K", ":") == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "type one record a line, as KEY:VALUE; Ctrl-D on an empty line ends",
        "2 lines were acknowledged",
    ]
    assert produce("--tombstone", "-k", "k") == 0
    assert capsys.readouterr().err == "", "nothing is read from the terminal"
    assert len(sent) == 2


def test_the_expectation_shows_the_form_of_a_line() -> None:
    assert expectation(Input.LINES, None).startswith("type one record a line; Ctrl-D")
    assert '{"key": "a", "value": "b"}' in expectation(Input.JSON, None)


def test_nothing_is_said_in_a_pipe(
    sent: list[LineProducer], capsys: pytest.CaptureFixture[str]
) -> None:
    assert produce() == 0
    assert capsys.readouterr().err == ""
    assert len(sent) == 1


def test_transactions_have_an_id_and_a_size(sent: list[LineProducer]) -> None:
    produce("--transactional-id", "t", "--transaction-size", 7)
    produce("--transactional-id", "t")
    assert [(each.transactional_id, each.transaction_size) for each in sent] == [
        ("t", 7),
        ("t", 1000),
    ]
