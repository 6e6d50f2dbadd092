"""Who has left an ISR is forgotten once its leader is known to count it no more (I-53).

A decision that takes a broker out of an ISR, or out of the ELR, is not true of what is committed
until the leader has applied it. Until then every committed record was held by whoever has left too,
and a loss of power may leave it with nobody else. So it stays among the last known ones until a
leader with the minimum in sync has answered for the last change of the partition. What nobody has
said, as after a restart of this controller, counts as not applied.
"""

from collections.abc import Iterator
from itertools import islice

from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import PartitionChangeRecord
from strandline_broker.core.controller.log.state import ControllerState


def departures_applied(state: ControllerState, applied: Applied) -> Iterator[PartitionChangeRecord]:
    for partition in state.those(state.index.remembering):
        least = state.effective_min_isr(state.topics[partition.topic_id], partition)
        if partition.isr and len(partition.isr) >= least and applied.by_leader_of(partition):
            yield PartitionChangeRecord(
                topic_id=partition.topic_id, partition=partition.index, last_known_elr=()
            )


def decide_departures(
    state: ControllerState, applied: Applied, *, limit: int
) -> Decision[tuple[PartitionChangeRecord, ...]]:
    """Forget them, in at most `limit` partitions."""
    changes = tuple(islice(departures_applied(state, applied), limit))
    return Decision(changes, answer=changes)
