"""Elections without a replica that is known to hold every committed record (I-48, I-53).

Balanced recovery: when the last member of ISR and ELR is lost, the last known ELR lists the
replicas that were in sync before. Once all of them are back, each on its disk, the one with the
greatest (last epoch, log end) leads: no other choice can lose less. Until then the partition waits,
because one of them may be the only holder of a record.

An unclean election does not wait. On the operator's request, or with
`unclean.leader.election.enable`, the best living replica leads.

Both begin a recovery: the ISR is the leader alone until it has reported its recovery (I-49). After
a balanced one the other candidates stay known. If the new leader loses unflushed records with the
power, one of them may still hold these. After an unclean one they are forgotten.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import RECOVERING, PartitionChangeRecord
from strandline_broker.core.controller.log.state import (
    Broker,
    ControllerState,
    PartitionRegistration,
)
from strandline_broker.core.controller.partitions.election import Brokers, elect_again, electable
from strandline_broker.core.controller.partitions.log_ends import LogEnds
from strandline_broker.core.push_answer import LogEnd
from strandline_proto.ids import NO_LEADER, UNKNOWN_EPOCH, BrokerId

UNKNOWN_END: Final = LogEnd(-1, -1)


def begin_recovery(
    state: ControllerState,
    partition: PartitionRegistration,
    leader: BrokerId,
    ends: LogEnds,
    *,
    known: Sequence[BrokerId] = (),
) -> PartitionChangeRecord:
    """Make `leader` the leader, whatever it may lack. Of the other replicas `known` stay known."""
    shared = _shared(state, partition, leader, ends, known)
    directories = tuple(
        state.brokers[b].directory_id if b == leader else directory
        for b, directory in zip(partition.replicas, partition.directories, strict=True)
    )
    return PartitionChangeRecord(
        topic_id=partition.topic_id,
        partition=partition.index,
        isr=(leader,),
        leader=leader,
        elr=(),
        last_known_elr=tuple(b for b in known if b != leader),
        leader_recovery_state=RECOVERING,
        directories=None if directories == partition.directories else directories,
        log_end=shared,
    )


def _shared(
    state: ControllerState,
    partition: PartitionRegistration,
    leader: BrokerId,
    ends: LogEnds,
    known: Sequence[BrokerId],
) -> int | None:
    """The offset from which the leader's log may lack committed records; None: it has not reported
    its end.

    One of `known` held each committed record: they are all replicas that were in sync last. Their
    disks are trusted only if they contain the last leader that has answered.
    """
    end = ends.of(partition, state.brokers[leader])
    if end is None:
        return None
    below = end.shared_below(newest_led(partition))
    surely = ends.led.surely_led(partition)
    if not known or surely is None:
        return below
    holders = [ends.of(partition, state.brokers[b]) for b in known]
    return max(below, end.shared_with(holders, surely_led=surely))


def newest_led(partition: PartitionRegistration) -> int:
    """The last leader epoch in which a record may have been committed, for a partition without a
    leader.
    """
    known = partition.led_epoch != UNKNOWN_EPOCH
    return partition.led_epoch if known else partition.leader_epoch - 1


def balanced_choice(
    partition: PartitionRegistration, brokers: Brokers, ends: LogEnds
) -> tuple[BrokerId, Sequence[BrokerId]]:
    """The leader by balanced recovery, or NO_LEADER and the replicas that it waits for."""
    if partition.isr or partition.elr:
        return NO_LEADER, ()
    awaited = [
        b
        for b in partition.last_known_elr
        if not electable(partition, b, brokers) or ends.of(partition, brokers[b]) is None
    ]
    if awaited or not partition.last_known_elr:
        return NO_LEADER, awaited
    present = [b for b in partition.replicas if electable(partition, b, brokers)]
    return _greatest(partition, present, brokers, ends), ()


def _greatest(
    partition: PartitionRegistration, among: Sequence[BrokerId], brokers: Brokers, ends: LogEnds
) -> BrokerId:
    """The replica with the greatest log; among equals one without damage, then the first."""

    def rank(b: BrokerId) -> tuple[bool, LogEnd, bool]:
        broker = brokers[b]
        end = ends.of(partition, broker)
        condition = broker.condition_of(partition.topic_id, partition.index)
        is_sound = condition is None or condition.is_sound
        return electable(partition, b, brokers), end or UNKNOWN_END, is_sound

    return max(among, key=rank)


def recoveries(state: ControllerState, ends: LogEnds) -> Iterator[PartitionChangeRecord]:
    for partition in state.those(state.index.leaderless):
        if elect_again(state, partition, state.brokers):
            continue  # a replica in sync that cannot lead now is elected by a later event
        leader, _ = balanced_choice(partition, state.brokers, ends)
        known = partition.last_known_elr if leader != NO_LEADER else ()
        if leader == NO_LEADER and state.elects_uncleanly(state.topics[partition.topic_id]):
            leader = unclean_choice(partition, state.brokers, ends)
        if leader != NO_LEADER:
            yield begin_recovery(state, partition, leader, ends, known=known)


def unclean_election(
    state: ControllerState, partition: PartitionRegistration, ends: LogEnds
) -> PartitionChangeRecord | None:
    """The election on the operator's request: a clean one if possible; None if no replica lives."""
    clean = elect_again(state, partition, state.brokers)
    if clean is not None:
        return clean
    leader = unclean_choice(partition, state.brokers, ends)
    return None if leader == NO_LEADER else begin_recovery(state, partition, leader, ends)


def unclean_choice(partition: PartitionRegistration, brokers: Brokers, ends: LogEnds) -> BrokerId:
    """The best living replica, on any disk, or NO_LEADER."""
    alive = [b for b in partition.replicas if _could_lead(partition, brokers.get(b))]
    return _greatest(partition, alive, brokers, ends) if alive else NO_LEADER


def _could_lead(partition: PartitionRegistration, broker: Broker | None) -> bool:
    if broker is None or not broker.eligible:
        return False
    condition = broker.condition_of(partition.topic_id, partition.index)
    return condition is None or condition.can_lead


def decide_recoveries(
    state: ControllerState, ends: LogEnds, *, limit: int | None = None
) -> Decision[tuple[PartitionChangeRecord, ...]]:
    """Elect leaders for at most `limit` partitions that lost all replicas in sync and have them
    back, or need not wait for them. The answer lists the changes.
    """
    changes = tuple(islice(recoveries(state, ends), limit))
    return Decision(changes, answer=changes)
