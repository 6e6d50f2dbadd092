"""`strandline strays`: replicas without a topic, which brokers have set aside (I-87)."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from strandline_cli.errors import CliError
from strandline_cli.options import Format, FormatOption
from strandline_cli.records.offline_input import CannotRead, readable
from strandline_cli.shown.output import emit_done, emit_table

_STRAY: Final = re.compile(r"(.+?)(?:-(\d+))?\.[0-9a-f]{32}-stray")
_COLUMNS: Final = ("topic", "partition", "topic id", "bytes", "path")


@dataclass(frozen=True, slots=True)
class Stray:
    topic: str
    partition: int | None
    """The partition; None if the name was too long to keep it."""
    topic_id: str
    bytes: int
    path: str


def strays(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Data directories (log.dirs) of a broker."),
    ],
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete all of them, with their records.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> int:
    """List replicas without a topic, and delete them.

    The broker may run meanwhile.

    A broker sets a replica aside when the controller does not assign it: its topic was deleted, or
    recreated, while the broker was down. Nothing uses the replica any more, and no broker deletes
    it.

    Example: strandline strays .strandline/broker-1
    """
    found = [stray for directory in directories for stray in _find(directory)]
    if delete:
        for stray in found:
            _remove(stray)
    total = sum(stray.bytes for stray in found)
    document: dict[str, Any] = {
        "strays": [
            {
                "topic": s.topic,
                "partition": s.partition,
                "topic_id": s.topic_id,
                "bytes": s.bytes,
                "path": s.path,
            }
            for s in found
        ],
        "bytes": total,
        "deleted": delete,
    }
    if output is not Format.JSON and found:
        emit_table(_COLUMNS, [(s.topic, s.partition, s.topic_id, s.bytes, s.path) for s in found])
    if not found:
        line = "no strays"
    else:
        what = f"{len(found)} stray{'s' if len(found) != 1 else ''}, {total} bytes"
        line = f"{what}: deleted" if delete else f"{what}: `--delete` removes them"
    emit_done(output, document, line)
    return 0


def _find(directory: Path) -> list[Stray]:
    with readable(directory) as root:
        names = sorted(os.listdir(root))
        if "meta.properties" not in names:
            raise CannotRead(
                f"{root} is no data directory of a broker (it has no meta.properties): name one of "
                f"its log.dirs"
            )
        matches = [(name, _STRAY.fullmatch(name)) for name in names]
        return [_stray(f"{root}/{name}", match) for name, match in matches if match is not None]


def _stray(path: str, match: re.Match[str]) -> Stray:
    size = 0
    for entry in os.scandir(path):
        size += entry.stat().st_size
    partition = None if match[2] is None else int(match[2])
    return Stray(match[1], partition, _topic_id(path), size, path)


def _topic_id(path: str) -> str:
    try:
        text = Path(path, "partition.metadata").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    found = re.search(r"^topic_id: (.+)$", text, re.MULTILINE)
    return "" if found is None else found[1]


def _remove(stray: Stray) -> None:
    try:
        shutil.rmtree(stray.path)
    except OSError as error:
        why = error.strerror or error
        raise CliError(
            f"{stray.path} could not be deleted ({why}): check its owner, and try again"
        ) from error
