"""What a change of an ISR does to the rest of a partition: the one function for all paths (I-50,
P-28).

While the ISR is below the minimum its leader commits nothing, so whoever leaves it then, or has
left it for that, holds every committed record still: these are the eligible leader replicas. From
the minimum on there are none, as the leader may commit without them. A replica that may have lost
something is in neither.

Whoever has left both is remembered among the last known ones, for a day when nobody is left (I-53):
its leader counts it until it has applied the record by which it left, so it may hold what nobody
else holds. It is forgotten once that leader has said so (`departures`).
"""

from collections.abc import Collection
from typing import Any

from strandline_broker.core.controller.log.records import PartitionChangeRecord
from strandline_broker.core.controller.log.state import ControllerState, PartitionRegistration
from strandline_proto.ids import BrokerId

Members = tuple[BrokerId, ...]


def elr_after(
    partition: PartitionRegistration,
    isr: Collection[BrokerId],
    *,
    min_isr: int,
    lost: Collection[BrokerId],
) -> tuple[Members, Members]:
    """ELR and last known ELR once the ISR is `isr`; `lost` may lack records that they held."""
    known = {*partition.isr, *partition.elr, *partition.last_known_elr} - {*isr}
    complete = set[BrokerId]()
    if len(isr) < min_isr:
        complete = {*partition.isr, *partition.elr} - {*isr} - {*lost}
    known -= complete
    return (
        tuple(b for b in partition.replicas if b in complete),
        tuple(b for b in partition.replicas if b in known),
    )


def isr_change(
    state: ControllerState,
    partition: PartitionRegistration,
    isr: Collection[BrokerId],
    *,
    lost: Collection[BrokerId] = (),
    **others: Any,
) -> PartitionChangeRecord:
    """The record that makes `isr` the ISR, in the order of the assignment; `others` are its other
    fields.
    """
    min_isr = state.effective_min_isr(state.topics[partition.topic_id], partition)
    elr, last_known = elr_after(partition, isr, min_isr=min_isr, lost=lost)
    ordered = tuple(b for b in partition.replicas if b in isr)
    return PartitionChangeRecord(
        topic_id=partition.topic_id,
        partition=partition.index,
        isr=None if ordered == partition.isr else ordered,
        elr=None if elr == partition.elr else elr,
        last_known_elr=None if last_known == partition.last_known_elr else last_known,
        **others,
    )


def minimum_change(partition: PartitionRegistration) -> PartitionChangeRecord:
    """The partition counts by another minimum from now on (I-91, KAFKA-16540).

    Who was eligible by the old one is so no more, unless nobody leads: then nothing can have been
    committed by the new one, and they are the only ones who can lead. They are remembered, as the
    leader may not have heard of it yet.
    """
    elr: Members | None = None
    last_known: Members | None = None
    if partition.isr and partition.elr:
        elr = ()
        remembered = {*partition.elr, *partition.last_known_elr}
        last_known = tuple(b for b in partition.replicas if b in remembered)
    return PartitionChangeRecord(
        topic_id=partition.topic_id, partition=partition.index, elr=elr, last_known_elr=last_known
    )
