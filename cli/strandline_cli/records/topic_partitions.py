"""`TOPIC` and `TOPIC:0,2-4`: topics and partitions as a command line names them."""

from collections.abc import Iterable
from typing import Final

from strandline_cli.errors import UsageMistake

_PARTITION_MAX: Final = 2**31 - 1
_PARTITIONS_MAX: Final = 100_000
"""Limit of one range; no topic has more partitions."""


def parse_topics(texts: Iterable[str], what: str = "--topic ") -> list[tuple[str, int | None]]:
    """(topic, partition); None stands for all of its partitions. `what` names the option."""
    found: list[tuple[str, int | None]] = []
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic:
            raise UsageMistake(f"{what}{text!r} names no topic: use TOPIC or TOPIC:0,1")
        if not colon:
            found.append((topic, None))
            continue
        for part in numbers.split(","):
            found += [(topic, number) for number in _numbers(part, text, what)]
    return found


def parse_partition(text: str, what: str = "") -> tuple[str, int]:
    """The one partition of `TOPIC:P`. Raises UsageMistake for anything else."""
    found = parse_topics([text], what)
    topic, number = found[0]
    if len(found) > 1 or number is None:
        raise UsageMistake(f"{what}{text!r} names no single partition: use TOPIC:P, as in orders:0")
    return topic, number


def _numbers(part: str, text: str, what: str) -> range:
    first, dash, last = part.partition("-")
    ends = [first, last] if dash else [first]
    if all(end.isascii() and end.isdecimal() and len(end) < 11 for end in ends):
        start, stop = int(ends[0]), int(ends[-1])
        if start <= stop <= _PARTITION_MAX and stop - start < _PARTITIONS_MAX:
            return range(start, stop + 1)
    raise UsageMistake(f"{what}{text!r}: {part!r} is not a partition: use TOPIC or TOPIC:0,2-4")
