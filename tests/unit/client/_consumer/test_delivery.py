"""Whose turn it is when fetched records are handed to the user."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from strandline import TopicPartition
from strandline._consumer.delivery import Delivery
from strandline._core.position import LATEST, Position
from strandline.errors import CorruptRecords
from strandline_proto.batch import build_batch, prefix

if TYPE_CHECKING:
    from strandline._consumer.fetcher import Fetcher
    from strandline._core.cluster_view import PartitionKey

ID = b"i" * 16
VALUES = [(None, b"v")] * 3


class Traffic:
    """A fetcher that always has the next batch of each partition ready, but of one."""

    def __init__(self, silent: Position | None) -> None:
        self._silent = silent
        self._ends: dict[PartitionKey, int] = {}

    def take(self, key: PartitionKey) -> Any:
        if self._silent is not None and key == self._silent.key:
            return None
        at = self._ends.get(key, 0)
        self._ends[key] = at + len(VALUES)
        batch = build_batch(VALUES, timestamp_ms=1)
        return SimpleNamespace(data=prefix(at, len(batch) - 12, 0) + batch[16:], aborted=())

    def moved(self, position: Position) -> None:
        """Nobody fetches."""


def position(number: int) -> Position:
    made = Position(TopicPartition("t", number), ID, LATEST)
    made.seek(0, -1)
    return made


def delivery(silent: Position | None = None) -> Delivery:
    made = Delivery(check_crcs=True, max_decompressed_bytes=1 << 20)
    made.source = cast("Fetcher", Traffic(silent))
    return made


@pytest.mark.parametrize("first", [0, 1, 2])
def test_no_partition_is_starved_by_a_caller_who_asks_for_others_in_between(first: int) -> None:
    asked, others = delivery(), [position(2), position(3)]
    watched = [position(0), position(1)]
    seen: set[int] = set()
    for _ in range(first):
        asked.collect(others, 1)
    for _ in range(4):
        asked.collect(others[:1], 1)
        (found,) = asked.collect(watched, 1)
        seen.add(found.partition)
    assert seen == {0, 1}


@pytest.mark.parametrize("first", [0, 1, 2])
def test_no_error_is_starved_by_a_caller_who_asks_for_others_in_between(first: int) -> None:
    bad, others = position(0), [position(1), position(2)]
    bad.fail(CorruptRecords("t:0 is bad"))
    asked = delivery(silent=bad)
    errors = 0
    for _ in range(first):
        asked.collect(others, 1)
    for _ in range(6):
        asked.collect(others[:1], 1)
        try:
            asked.collect([bad, others[1]], 1)
        except CorruptRecords:
            errors += 1
    assert errors == 3, "every other time, as two share the turns"
