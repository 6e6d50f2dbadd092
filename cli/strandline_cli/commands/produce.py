"""`strandline produce`: lines of standard input, or files, become records."""

import asyncio
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.errors import CliError, UsageMistake
from strandline_cli.options import BootstrapOption, DirOption, Format, FormatOption
from strandline_cli.shown.output import emit_json, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline import Record
    from strandline_cli.records.line_producer import Counts
    from strandline_cli.records.line_records import Headers, LineParser


TRANSACTION_SIZE = 1000


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Input(StrEnum):
    LINES = "lines"
    JSON = "json"


class Codec(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC[:P]", show_default=False)],
    acks: Annotated[
        Acks,
        typer.Option(
            "--acks", help="Replicas that must have a record: none, the leader, all in sync."
        ),
    ] = Acks.ALL,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator", "-K", help=r"Separator of key and value, as in `:` or `\t`."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="KEY", help="Key of every record.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            "-H",
            metavar="NAME=VALUE",
            help="Header of every record; may be repeated.",
        ),
    ] = None,
    null_marker: Annotated[
        str | None,
        typer.Option(
            "--null-marker",
            metavar="TEXT",
            help="A key or value that is this text is null; '': an empty one.",
        ),
    ] = None,
    tombstone: Annotated[
        bool, typer.Option("--tombstone", help="Send one record without a value; needs --key.")
    ] = False,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="Send the file as one record; may be repeated. `-`: all of the input.",
        ),
    ] = None,
    input_format: Annotated[
        Input,
        typer.Option(
            "--input",
            help="json: each line has value, key, headers, as `consume --format json` prints.",
        ),
    ] = Input.LINES,
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=0.001, metavar="N", help="Limit of records a second."),
    ] = None,
    compression: Annotated[
        Codec, typer.Option("--compression", "-z", help="Compression of the batches.")
    ] = Codec.NONE,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="As P in TOPIC:P.")
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--transactional-id", metavar="ID", help="Send the records in transactions of this id."
        ),
    ] = None,
    transaction_size: Annotated[
        int | None,
        typer.Option(
            "--transaction-size",
            min=1,
            metavar="N",
            help="Records of each transaction, 1000 by default; the last has what is left.",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", min=0.1, help="Seconds within which a record must be acknowledged."
        ),
    ] = 120.0,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Send each line of standard input as a record.

    The exit status is 0 only if every record was acknowledged.

    With --input json a line is {"key": "a", "value": "b", "headers": {"c": "d"}}. A null value is a
    tombstone, key_base64 and value_base64 hold bytes that are no text. Fields that say where a
    record was read (topic, partition, offset, leader_epoch) are not used.

    With --transactional-id, readers of committed transactions get N records at a time, or none of
    them. Only one program at a time can use an id: the next one ends the work of the first.

    Example: strandline produce orders --key-separator : < orders.txt
    """
    from strandline_cli.client import run_client
    from strandline_cli.records.line_producer import Counts, LineProducer
    from strandline_cli.records.line_records import parse_headers
    from strandline_cli.records.pace import Pace

    _check(
        {
            "--tombstone": tombstone,
            "--file": bool(file),
            "--input json": input_format is Input.JSON,
            "--key-separator": key_separator is not None,
            "--null-marker": null_marker is not None,
            "--key": key is not None,
        },
        key_separator,
    )
    _check_transaction(transactional_id, transaction_size, acks)
    topic, partition = _place(topic, partition)
    headers = parse_headers(header or [])
    target = find_target(bootstrap=bootstrap, directory=directory)
    given = _given(key, headers, file or [], tombstone=tombstone)
    lines = LineProducer(
        bootstrap=target.bootstrap,
        topic=topic,
        acks=acks.value,
        compression=compression.value,
        partition=partition,
        parse=_parser(input_format, key_separator, null_marker, key, headers),
        given=given,
        pace=None if rate is None else Pace(rate),
        timeout_s=timeout,
        transactional_id=transactional_id,
        transaction_size=transaction_size or TRANSACTION_SIZE,
        counts=Counts("lines" if given is None else "records"),
    )
    is_typed = given is None and os.isatty(0)
    if is_typed:
        note(expectation(input_format, key_separator))
    interrupted = False
    try:
        run_client(lines.run())
    except (KeyboardInterrupt, asyncio.CancelledError):
        interrupted = True
        lines.give_up()
    return _outcome(lines.counts, output, is_typed=is_typed, interrupted=interrupted)


def _outcome(counts: "Counts", output: Format, *, is_typed: bool, interrupted: bool) -> int:
    """Prints what became of the records; returns the exit status."""
    if output is Format.JSON:
        emit_json(counts.document())
    if interrupted:
        note(f"interrupted: {counts.told()}")
        raise KeyboardInterrupt
    if not counts.all_acknowledged:
        note(f"error: {counts.summary()}")
        return 1
    if is_typed:
        note(f"{counts.acknowledged} {counts.unit} were acknowledged")
    return 0


_EXCLUDE = (
    ("--tombstone", "--file"),
    ("--tombstone", "--input json"),
    ("--tombstone", "--key-separator"),
    ("--tombstone", "--null-marker"),
    ("--file", "--input json"),
    ("--file", "--key-separator"),
    ("--file", "--null-marker"),
    ("--input json", "--key-separator"),
    ("--input json", "--null-marker"),
    ("--input json", "--key"),
    ("--key-separator", "--key"),
)


def _check(given: dict[str, bool], separator: str | None) -> None:
    """Raises UsageMistake for options that contradict each other."""
    for one, other in _EXCLUDE:
        if given[one] and given[other]:
            raise UsageMistake(f"{one} and {other} exclude each other: give one of them")
    if given["--tombstone"] and not given["--key"]:
        raise UsageMistake("--tombstone deletes the record of a key: name it with --key")
    if separator == "":
        raise UsageMistake(
            "--key-separator is empty: give what parts key and value, or leave it out to send"
            " values without keys"
        )


def _check_transaction(transactional_id: str | None, size: int | None, acks: Acks) -> None:
    if transactional_id is None:
        if size is not None:
            raise UsageMistake("--transaction-size goes with --transactional-id: name an id")
    elif acks is not Acks.ALL:
        raise UsageMistake("--transactional-id needs all replicas in sync: leave out --acks")


def _place(text: str, number: int | None) -> tuple[str, int | None]:
    """The topic and the partition, named as TOPIC:P or by --partition."""
    from strandline_cli.records.topic_partitions import parse_partition

    if ":" not in text:
        return text, number
    if number is not None:
        raise UsageMistake(f"{text!r} names its partition: leave out --partition")
    return parse_partition(text)


def _parser(
    input_format: Input,
    separator: str | None,
    null_marker: str | None,
    key: str | None,
    headers: "Headers",
) -> "LineParser | Callable[[bytes], Record | None]":
    from strandline_cli.records.line_format import unescape
    from strandline_cli.records.line_records import LineParser

    if input_format is Input.JSON:
        from strandline_cli.records.json_records import JsonParser

        return JsonParser(headers=headers)
    return LineParser(
        separator=None if separator is None else unescape(separator),
        null_marker=None if null_marker is None else null_marker.encode(),
        key=None if key is None else key.encode(),
        headers=headers,
    )


def _given(
    key: str | None, headers: "Headers", files: list[Path], *, tombstone: bool
) -> "list[Record] | None":
    """The records that the options name; None: those of standard input."""
    if not files and not tombstone:
        return None
    from strandline import Record

    values = [None] if tombstone else [_content(path) for path in files]
    key_bytes = None if key is None else key.encode()
    return [Record(value, key_bytes, tuple(headers)) for value in values]


def _content(path: Path) -> bytes:
    """The bytes of a file; no more than show that it is above the largest record."""
    from strandline_cli.records.line_producer import RECORD_BYTES_MAX

    try:
        with open(0 if str(path) == "-" else path, "rb", closefd=str(path) != "-") as file:
            content = file.read(RECORD_BYTES_MAX + 1)
    except OSError as why:
        raise UsageMistake(f"--file {path} cannot be read: {why.strerror}") from None
    if len(content) > RECORD_BYTES_MAX:
        raise CliError(
            f"--file {path} is above the largest record ({RECORD_BYTES_MAX} bytes): nothing was"
            " sent; split it, or send its lines as records with `< FILE`"
        )
    return content


def expectation(input_format: Input, separator: str | None) -> str:
    """The line that a person at a terminal reads before typing records."""
    if input_format is Input.JSON:
        what = 'one record a line, as {"key": "a", "value": "b"}'
    elif separator is None:
        what = "one record a line"
    else:
        what = f"one record a line, as KEY{separator}VALUE"
    return f"type {what}; Ctrl-D on an empty line ends"
