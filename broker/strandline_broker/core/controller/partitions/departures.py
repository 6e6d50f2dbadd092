"""Former ISR members are forgotten once the leader is known to count them no more (I-53).

A decision that removes a broker from an ISR, or from the ELR, affects commits only after the leader
has applied it. Until then the removed broker held every committed record too, and after a loss of
power it may be the only holder. It therefore stays among the last known members until a leader with
the minimum in sync has confirmed the last change of the partition. A change without a report counts
as not applied, for instance after a restart of this controller.
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
    """Forget former members in at most `limit` partitions."""
    changes = tuple(islice(departures_applied(state, applied), limit))
    return Decision(changes, answer=changes)
