"""Partitions in the command line's words: `TOPIC:P` for one, `TOPIC:0-3,7` for several of a topic.

The options of commands take the same spelling.
"""

from collections.abc import Iterable, Sequence
from typing import Final

_TOPICS_MAX: Final = 5
_RUNS_MAX: Final = 8


def partition_text(topic: str, partition: int) -> str:
    """The one spelling of a partition."""
    return f"{topic}:{partition}"


def ranges(numbers: Sequence[int]) -> str:
    """Rising numbers as `0-3,7,9-12`."""
    return ",".join(_runs(numbers))


def partitions_text(partitions: Iterable[tuple[str, int]]) -> str:
    """Partitions as `orders:0-3,7 flights:0`; a long list ends with the number of the rest."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    words = []
    for topic, numbers in list(by_topic.items())[:_TOPICS_MAX]:
        runs = _runs(sorted(numbers))
        rest = ",..." if len(runs) > _RUNS_MAX else ""
        words.append(f"{topic}:{','.join(runs[:_RUNS_MAX])}{rest}")
    more = len(by_topic) - _TOPICS_MAX
    if more > 0:
        words.append(f"and {more} more topic{'' if more == 1 else 's'}")
    return " ".join(words)


def _runs(numbers: Sequence[int]) -> list[str]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [str(a) if a == b else f"{a}-{b}" for a, b in runs]
