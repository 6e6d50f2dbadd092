"""The producer state of a log that was opened or truncated: from its newest snapshot, and the
batches after it (I-58).
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from strandline_broker.core.replication.producer_state import ProducerStates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.storage.log.log import Log
    from strandline_broker.storage.log.producer_snapshot import ProducerEntry
    from strandline_broker.storage.segment.segment import Segment

_base_of: Final = attrgetter("base_offset")


def load_producers(
    log: Log,
    *,
    expiration_ms: int,
    now_ms: int,
    wall_ms: int,
    high_watermark: int | None = None,
) -> ProducerStates:
    """The producer state up to the log's end; blocking, and nothing may be appended meanwhile.

    With a snapshot at the end, as a clean stop leaves it, no batch is read. A snapshot older than
    the first batch here is useless: the records between are gone. `now_ms` is monotonic, `wall_ms`
    the wall clock. `high_watermark` is that of the checkpoint if None.

    A snapshot does not name the transactions that have ended. Those that ended at or above the high
    watermark hold back the last stable offset, so a snapshot above it only serves without
    transactions (I-159).
    """
    committed = log.checkpointed_high_watermark if high_watermark is None else high_watermark
    committed = min(max(committed, log.log_start_offset), log.log_end_offset)

    def serves(offset: int, entries: tuple[ProducerEntry, ...]) -> bool:
        return offset <= committed or all(entry.coordinator_epoch < 0 for entry in entries)

    producers = ProducerStates(expiration_ms)
    segments = log.segments
    first = segments[0].base_offset
    newest = log.snapshots.newest(at_least=first, at_most=log.log_end_offset, serves=serves)
    start, entries = newest if newest is not None else (first, ())
    idle_ms = _idle_ms(entries, segments, wall_ms)
    used_ms = {producer_id: now_ms - idle for producer_id, idle in idle_ms.items()}
    producers.rebuild(log.replay(start), now_ms, entries, used_ms, high_watermark=committed)
    return producers


def _idle_ms(
    entries: Iterable[ProducerEntry], segments: tuple[Segment, ...], wall_ms: int
) -> dict[int, int]:
    """The minimum time for which each producer has appended nothing: since the last write to the
    segment with its last batch, or to the oldest segment if that one is gone.

    Producers with an end marker are left out: the marker may be in a later segment.
    """
    modified: dict[int, int] = {}
    idle = {}
    for entry in entries:
        if entry.coordinator_epoch >= 0 or entry.last_offset < 0:
            continue
        i = max(bisect_right(segments, entry.last_offset, key=_base_of) - 1, 0)
        if i not in modified:
            modified[i] = segments[i].modified_ms()
        idle[entry.producer_id] = max(wall_ms - modified[i], 0)
    return idle
