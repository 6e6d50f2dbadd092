"""`strandline log dump`: the contents of a log's file, batch by batch or entry by entry."""

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from strandline_cli.errors import EXIT_FAILED, EXIT_OK
from strandline_cli.options import (
    DECOMPRESSED_BYTES_FLAG,
    Format,
    FormatOption,
    MaxDecompressedBytesOption,
)
from strandline_cli.records.log_text import (
    BATCH_COLUMNS,
    batch_cells,
    batch_fields,
    control_line,
    group_record_line,
    record_fields,
    record_line,
    time_text,
)
from strandline_cli.records.offline_input import CannotRead, readable
from strandline_cli.shown.live_table import LiveTable
from strandline_cli.shown.output import note, write_line
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX, Bound

if TYPE_CHECKING:
    from strandline_broker.offline.batches import Batch
    from strandline_broker.offline.control_records import ControlRecord
    from strandline_broker.offline.disk import Disk, OpenFile
    from strandline_broker.offline.group_records import GroupRecord
    from strandline_broker.offline.layout import SegmentFiles
    from strandline_proto.batch import Record

_FILE: Final = re.compile(
    r"(\d{20})\.(log|index|timeindex|snapshot|txnindex)(?:\.(?:swap|cleaned|deleted))?"
)
_OFFSETS: Final = re.compile(r"[a-z-]+-offset-checkpoint")
_LIMIT: Final = re.compile(r"checkpoint-limit-\d+")


def dump(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A file of a log, or a partition's directory.")
    ],
    deep: Annotated[bool, typer.Option("--deep", help="Show the records of each batch.")] = False,
    offsets_decoder: Annotated[
        bool,
        typer.Option(
            "--offsets-decoder",
            help="Decode the records of __consumer_offsets; with --deep.",
        ),
    ] = False,
    index_sanity: Annotated[
        bool,
        typer.Option("--index-sanity", help="Check the indexes against their log."),
    ] = False,
    max_decompressed_bytes: MaxDecompressedBytesOption = DECOMPRESSED_BYTES_MAX,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show the contents of a file or of a partition's segments.

    Files: .log, .index, .timeindex, .txnindex, .snapshot and checkpoints. Exit status 1 if part of
    it cannot be read or does not match its CRC.

    Example: strandline log dump broker-1/orders-0 --deep
    """
    from strandline_broker.offline.layout import partition_files
    from strandline_runtime.real import RealFileSystem

    disk = RealFileSystem()
    bound = Bound(max_decompressed_bytes, DECOMPRESSED_BYTES_FLAG)
    dumped = _Dump(disk, bound, as_json=output is Format.JSON, deep=deep, groups=offsets_decoder)
    with readable(path) as name:
        if os.path.isdir(name):
            segments = partition_files(disk, name).segments
            if not segments:
                raise CannotRead(f"{name} holds no segment (<20 digits>.log): give a partition's")
            for segment in segments:
                dumped.log(segment.log, names_file=True)
            if index_sanity:
                dumped.check_indexes(segments)
        else:
            dumped.file(name, index_sanity=index_sanity)
    return EXIT_FAILED if dumped.bad else EXIT_OK


class _Dump:
    """One run of the command; `bad` counts what did not read."""

    def __init__(
        self, disk: "Disk", bound: Bound, *, as_json: bool, deep: bool, groups: bool
    ) -> None:
        self.bad = 0
        self._disk = disk
        self._bound = bound
        self._as_json = as_json
        self._deep = deep or groups
        self._groups = groups

    def file(self, path: str, *, index_sanity: bool) -> None:
        """A single file, by what its name says."""
        name = os.path.basename(path)
        match = _FILE.fullmatch(name)
        if name.endswith(".log") or (match is not None and match[2] == "log"):
            self.log(path, names_file=False)
            if index_sanity and match is not None:
                self.check_indexes(_segments_of(self._disk, path, int(match[1])))
        elif match is not None and match[2].endswith("index") and index_sanity:
            if match[2] == "txnindex":
                why = f"{path}: --index-sanity is for .index and .timeindex;"
                raise CannotRead(f"{why} strandline log verify checks a .txnindex")
            self.check_indexes(_segments_of(self._disk, path, int(match[1])), only=path)
        else:
            self._entries(path, name, match)

    def log(self, path: str, *, names_file: bool) -> None:
        from strandline_broker.offline.batches import Stretch, scan
        from strandline_broker.offline.disk import OpenFile

        table = LiveTable(BATCH_COLUMNS, words=("compression", "marks"))
        batches = records = 0
        with OpenFile(self._disk, path) as file:
            if names_file and not self._as_json:
                write_line(f"{path}: {file.size} bytes")
            for found in scan(file):
                if isinstance(found, Stretch):
                    self._complain(f"{path} at byte {found.position}: {found.why}", found.size)
                    continue
                if not found.valid:
                    self._complain(
                        f"{path} at byte {found.position}: the batch does not match its CRC-32C"
                    )
                batches += 1
                records += found.count
                if self._as_json:
                    self._put_json(file, found, path if names_file else None)
                else:
                    table.row(batch_cells(found), alarm=not found.valid)
                    self._put_records(table, file, found)
        if not self._as_json:
            table.flush()
            write_line(f"{batches} batches, {records} records" + ("\n" if names_file else ""))

    def _put_json(self, file: "OpenFile", batch: "Batch", path: str | None) -> None:
        document = batch_fields(batch)
        if path is not None:
            document["file"] = os.path.basename(path)
        if batch.is_control:
            document["control_records"] = [
                {"offset": record.offset} | dataclasses.asdict(told)
                for record, told in self._control_records(file, batch)
            ]
        if self._deep:
            document["records"] = [
                record_fields(record) | self._group_fields(file, batch, record)
                for record in self._records(file, batch)
            ]
        write_line(json.dumps(document))

    def _put_records(self, table: LiveTable, file: "OpenFile", batch: "Batch") -> None:
        if batch.is_control:
            for record, control in self._control_records(file, batch):
                table.line(control_line(record, control))
        elif self._deep:
            for record in self._records(file, batch):
                told = self._group_record(file, batch, record)
                table.line(record_line(record) if told is None else group_record_line(record, told))

    def _control_records(
        self, file: "OpenFile", batch: "Batch"
    ) -> "Iterator[tuple[Record, ControlRecord]]":
        """The records of a control batch, which end transactions; shown without --deep too."""
        from strandline_broker.offline.control_records import control_record

        for record in self._records(file, batch):
            try:
                yield record, control_record(record)
            except ValueError as error:
                self._complain(f"{file.path}, offset {record.offset}: {error}")

    def _group_fields(self, file: "OpenFile", batch: "Batch", record: "Record") -> dict[str, Any]:
        told = self._group_record(file, batch, record)
        return {} if told is None else {"group_record": dataclasses.asdict(told)}

    def _group_record(
        self, file: "OpenFile", batch: "Batch", record: "Record"
    ) -> "GroupRecord | None":
        """The content of a record about a group; None if it was not requested, or the record is
        about no group.
        """
        from strandline_broker.offline.group_records import decode

        if not self._groups or batch.is_control:
            return None
        try:
            return decode(record.key or b"", record.value)
        except ValueError as error:
            where = f"{file.path}, offset {record.offset}"
            self._complain(f"{where}: no record of __consumer_offsets: {error}")
            return None

    def _records(self, file: "OpenFile", batch: "Batch") -> list[Any]:
        from strandline_broker.offline.records import records_of
        from strandline_proto.errors import WireError

        if not batch.valid:
            return []
        try:
            return records_of(file, batch, self._bound)
        except WireError as error:
            self._complain(f"{file.path} at byte {batch.position}: {error}")
            return []

    def _entries(self, path: str, name: str, match: re.Match[str] | None) -> None:
        """A file of entries: an index, a snapshot, a checkpoint."""
        try:
            entries = _read_entries(self._disk, path, name, match)
            columns: tuple[str, ...] = ()
            table = None
            for entry in entries:
                if self._as_json:
                    write_line(json.dumps(entry))
                    continue
                if table is None:
                    columns = tuple(entry)
                    table = LiveTable([*columns, *_added(entry)], words=("topic", "time", "why"))
                table.row([*entry.values(), *_added(entry).values()])
        except ValueError as error:
            self._complain(f"{path} does not read: {error}")
            return
        if table is not None:
            table.flush()
        elif not self._as_json:
            write_line(f"{path} has no entries")

    def check_indexes(self, segments: "Iterable[SegmentFiles]", *, only: str | None = None) -> None:
        """Each index against its segment: a verdict for each, as a finding on stderr beside a log's
        batches, on stdout if that is all that was asked for.
        """
        from strandline_broker.offline.batches import Stretch, scan
        from strandline_broker.offline.disk import OpenFile
        from strandline_broker.offline.index_check import IndexCheck

        for segment in segments:
            check = IndexCheck(self._disk, segment, sealed=False)
            damaged = False
            with OpenFile(self._disk, segment.log) as file:
                for found in scan(file):
                    damaged = damaged or isinstance(found, Stretch) or not found.valid
                    if isinstance(found, Stretch) or damaged:
                        break
                    check.batch(found)
                if not damaged:
                    check.end(file.size)
            for path in (segment.index, segment.timeindex):
                if path is not None and only in (None, path):
                    self._verdict(path, check, damaged=damaged, on_stdout=only is not None)

    def _verdict(self, path: str, check: Any, *, damaged: bool, on_stdout: bool) -> None:
        problems = [(position, what) for name, position, what in check.problems if name == path]
        if damaged and not problems:
            self._complain(f"{path}: its segment has damaged batches, so it cannot be checked")
        for position, what in problems:
            self._complain(f"{path} at byte {position}: {what}")
        sound = not problems and not damaged
        entries = check.entries.get(path, 0)
        if on_stdout and self._as_json:
            document = {"file": os.path.basename(path), "entries": entries, "sound": sound}
            write_line(json.dumps(document))
        elif sound:
            (write_line if on_stdout else note)(f"{path}: {entries} entries, sound")

    def _complain(self, line: str, size: int | None = None) -> None:
        self.bad += 1
        note(f"bad: {line}" + ("" if size is None else f" ({size} bytes are skipped)"))


def _segments_of(disk: "Disk", path: str, base: int) -> "list[SegmentFiles]":
    """The segment that a file belongs to, with the indexes that lie beside it."""
    from strandline_broker.offline.layout import SegmentFiles

    stem = os.path.join(os.path.dirname(path), f"{base:020d}")
    if not disk.exists(f"{stem}.log"):
        raise CannotRead(f"{stem}.log does not exist: an index is checked against its log")
    index, times = (
        f"{stem}.{kind}" if disk.exists(f"{stem}.{kind}") else None
        for kind in ("index", "timeindex")
    )
    return [SegmentFiles(base, f"{stem}.log", index, times)]


def _read_entries(
    disk: "Disk", path: str, name: str, match: re.Match[str] | None
) -> Iterable[dict[str, Any]]:
    from strandline_broker.offline import checkpoints, indexes
    from strandline_broker.offline.layout import DAMAGED_RANGES

    kind = match[2] if match is not None else name
    base = int(match[1]) if match is not None else 0
    if kind == "index":
        return (
            {"offset": e.offset, "position": e.position}
            for e in indexes.offset_entries(disk, path, base)
        )
    if kind == "timeindex":
        return (
            {"timestamp": e.timestamp, "offset": e.offset}
            for e in indexes.time_entries(disk, path, base)
        )
    if kind == "snapshot":
        return map(dataclasses.asdict, indexes.producer_entries(disk, path))
    if kind == "txnindex":
        return map(dataclasses.asdict, indexes.aborted_transactions(disk, path))
    if kind == checkpoints.LEADER_EPOCHS:
        return map(dataclasses.asdict, checkpoints.epochs_of(disk, path))
    if kind == DAMAGED_RANGES:
        return map(dataclasses.asdict, checkpoints.damage_of(disk, path))
    if _OFFSETS.fullmatch(kind):
        found = checkpoints.offsets_of(disk, path).items()
        return ({"topic": t, "partition": p, "offset": offset} for (t, p), offset in found)
    if _LIMIT.fullmatch(kind):
        return [{"offset": checkpoints.number(w[0])} for w in checkpoints.lines_of(disk, path)]
    with readable(Path(path)):
        disk.close(disk.open(path, os.O_RDONLY))
    raise CannotRead(
        f"{path} is no file of a log: its name is not that of a .log, .index, .timeindex, "
        f".txnindex, .snapshot (each <20 digits>.kind) or checkpoint"
    )


def _added(entry: dict[str, Any]) -> dict[str, str]:
    """A column for people: when a timestamp is."""
    return {"time": time_text(entry["timestamp"])} if "timestamp" in entry else {}
