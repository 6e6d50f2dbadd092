"""The goals of `strandline group reset`: the meaning of its options, and the new offsets."""

import csv
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strandline_cli.errors import CliError, UsageMistake

if TYPE_CHECKING:
    from strandline import Consumer
    from strandline.types import TopicPartition

OFFSET_MAX: Final = 2**63 - 1
_DURATION: Final = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_SECONDS: Final = {"weeks": 604_800, "days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}


@dataclass(frozen=True, slots=True)
class Goal:
    """One new position for a group; exactly one field is set."""

    earliest: bool = False
    latest: bool = False
    offset: int | None = None
    shift: int | None = None
    time_ms: int | None = None
    offsets: "Mapping[TopicPartition, int] | None" = None
    """The offsets from a file, by partition."""


@dataclass(frozen=True, slots=True)
class PlannedReset:
    partition: "TopicPartition"
    before: int | None
    """The offset before the reset; None: nothing is committed."""
    wanted: int
    after: int
    """The offset after the reset, within the log."""

    @property
    def is_clamped(self) -> bool:
        return self.after != self.wanted


def goal_of(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    shift_by: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    from_file: Path | None,
    group: str,
) -> Goal:
    """The goal of the options. Raises UsageMistake unless exactly one is given."""
    given = {
        "--to-earliest": to_earliest or None,
        "--to-latest": to_latest or None,
        "--to-offset": to_offset,
        "--shift-by": shift_by,
        "--to-datetime": to_datetime,
        "--by-duration": by_duration,
        "--from-file": from_file,
    }
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        said = f"{' and '.join(named)} exclude each other" if named else "where to is not said"
        raise UsageMistake(f"{said}: give one of {', '.join(given)}")
    if to_datetime is not None:
        return Goal(time_ms=instant_ms("--to-datetime", to_datetime))
    if by_duration is not None:
        return Goal(time_ms=int(time.time() * 1000) - span_ms("--by-duration", by_duration))
    if from_file is not None:
        return Goal(offsets=_offsets_in(from_file, group))
    return Goal(earliest=to_earliest, latest=to_latest, offset=to_offset, shift=shift_by)


def start_ms(option: str, text: str) -> int:
    """The time of an instant, or of a duration back from now. Raises UsageMistake."""
    if text[:1] == "P":
        return max(0, int(time.time() * 1000) - span_ms(option, text))
    return instant_ms(option, text)


def instant_ms(option: str, text: str) -> int:
    """The time in milliseconds since 1970. Raises UsageMistake."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise UsageMistake(
            f"{option} {text!r} is no time: use 2026-05-04T15:30:00, in UTC, or with an offset"
            " as in 2026-05-04T15:30:00+02:00"
        ) from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return max(0, int(instant.timestamp() * 1000))


def span_ms(option: str, text: str) -> int:
    """The length of a duration in milliseconds. Raises UsageMistake."""
    match = _DURATION.fullmatch(text)
    parts = {} if match is None else {k: v for k, v in match.groupdict().items() if v is not None}
    if not parts:
        raise UsageMistake(
            f"{option} {text!r} is no duration: use ISO 8601, as in P1D, PT2H or P1DT30M"
        )
    return int(sum(float(value) * _SECONDS[unit] for unit, value in parts.items()) * 1000)


def _offsets_in(path: Path, group: str) -> "dict[TopicPartition, int]":
    from strandline import TopicPartition

    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as why:
        raise UsageMistake(f"--from-file {path}: {why}") from None
    found: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(lines), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) == 4 and cells[0] == group:
            del cells[0]
        is_whole = len(cells) == 3 and all(c.isascii() and c.isdecimal() for c in cells[1:])
        if not is_whole or int(cells[2]) > OFFSET_MAX:
            raise UsageMistake(
                f"{path}, line {number}: {','.join(row)!r} is not TOPIC,PARTITION,OFFSET"
                f" (or {group},TOPIC,PARTITION,OFFSET)"
            )
        partition = TopicPartition(cells[0], int(cells[1]))
        if partition in found:
            raise UsageMistake(f"{path}, line {number}: {cells[0]}:{cells[1]} for the second time")
        found[partition] = int(cells[2])
    if not found:
        raise UsageMistake(f"{path} has no line TOPIC,PARTITION,OFFSET")
    return found


def chosen(
    topics: Iterable[tuple[str, int | None]],
    exist: "Mapping[str, Iterable[int]]",
) -> "list[TopicPartition]":
    """The partitions that --topic names. Raises CliError for a missing one."""
    from strandline import TopicPartition

    found = set()
    for topic, number in topics:
        numbers = set(exist[topic])
        if number is not None and number not in numbers:
            raise CliError(f"topic {topic!r} has no partition {number}; it has {len(numbers)}")
        found |= {TopicPartition(topic, n) for n in numbers if number in (None, n)}
    return sorted(found)


async def planned(
    goal: Goal,
    partitions: "list[TopicPartition]",
    committed: "Mapping[TopicPartition, int]",
    consumer: "Consumer",
) -> list[PlannedReset]:
    """The planned reset of each partition: offsets outside the log go to its nearer end."""
    starts = await consumer.beginning_offsets(partitions)
    ends = await consumer.end_offsets(partitions)
    at_time: dict[TopicPartition, int] = {}
    if goal.time_ms is not None:
        found = await consumer.offsets_for_times(dict.fromkeys(partitions, goal.time_ms))
        # No record so late: every record from now on is later.
        at_time = {p: ends[p] if at is None else at.offset for p, at in found.items()}
    plans = []
    for partition in partitions:
        before = committed.get(partition)
        if goal.offsets is not None:
            wanted = goal.offsets[partition]
        elif goal.offset is not None:
            wanted = goal.offset
        elif goal.shift is not None:
            if before is None:
                raise CliError(
                    f"{partition.topic}:{partition.partition} has no committed offset that could be"
                    " shifted: choose others with --topic, or use --to-offset"
                )
            wanted = before + goal.shift
        elif goal.time_ms is not None:
            wanted = at_time[partition]
        else:
            wanted = starts[partition] if goal.earliest else ends[partition]
        after = min(max(wanted, starts[partition]), ends[partition])
        plans.append(PlannedReset(partition, before, wanted, after))
    return plans
