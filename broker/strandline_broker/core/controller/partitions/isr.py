"""The effects of an ISR change on the rest of a partition: one function for all paths (I-50, P-28).

While the ISR is below the minimum, its leader commits nothing. A replica that leaves the ISR then,
or has left it for that reason, still holds every committed record: these are the eligible leader
replicas. From the minimum on there are none, because the leader may commit without them. A replica
that may have lost records is in neither set.

A replica that has left both is kept among the last known ones, in case no other is left (I-53). Its
leader counts it until the leader has applied the record that removed it, so it may be the only
holder of a record. It is forgotten once the leader has confirmed that record (`departures`).
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
    """ELR and last known ELR after the ISR is `isr`; members of `lost` may lack records that they
    held.
    """
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
    """The change for a partition with a new minimum of in-sync replicas (I-91, KAFKA-16540).

    Replicas that were eligible by the old minimum no longer are, unless the partition has no
    leader. In that case nothing can have been committed by the new minimum, and only these replicas
    can lead. They are kept as last known, as the leader may not know the new minimum yet.
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
