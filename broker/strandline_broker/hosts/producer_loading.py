"""Producer state of a log that is opened, or was cut: the newest snapshot of it, and the batches
from there on (I-58).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.producer_state import ProducerStates

if TYPE_CHECKING:
    from strandline_broker.storage.log import Log


def load_producers(log: Log, *, expiration_ms: int, now_ms: int) -> ProducerStates:
    """What the producers have appended up to the log's end; blocking, and nothing may be appended
    meanwhile.

    With a snapshot at the end, as a clean stop leaves it, no batch is looked at. One that is older
    than the first batch here is of no use: what it leaves out is gone.
    """
    producers = ProducerStates(expiration_ms)
    first = log.tail[0][0].base_offset
    newest = log.snapshots.newest(at_least=first, at_most=log.log_end_offset)
    start, entries = newest if newest is not None else (first, ())
    producers.rebuild(log.replay(start), now_ms, entries)
    return producers
