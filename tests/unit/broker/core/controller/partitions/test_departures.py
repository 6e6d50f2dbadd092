"""Whoever leaves an ISR is known until its leader has applied that (I-53)."""

import pytest

from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.controller.partitions.departures import (
    decide_departures,
    departures_applied,
)
from strandline_broker.core.controller.partitions.log_ends import LogEnds
from strandline_broker.core.controller.partitions.recovery import decide_recoveries
from strandline_broker.core.push_answer import LogEnd
from strandline_proto.ids import NO_LEADER, BrokerId, TopicId
from support.controller_cluster import B1, B2, B3, Cluster


class Dark:
    """Three brokers in sync, 1 leads, two of them commit; then all lose power."""

    def __init__(self) -> None:
        self.cluster = Cluster([B1, B2, B3])
        self.topic: TopicId = self.cluster.topic("t", (B1, B2, B3))
        self.ends = LogEnds()

    def tell(self, broker: BrokerId, offset: int) -> None:
        partition = self.cluster.partition(self.topic)
        self.ends.on_told(
            self.cluster.state.brokers[broker],
            partition,
            leader_epoch=partition.leader_epoch,
            end=LogEnd(0, offset),
        )

    def leader(self) -> BrokerId:
        self.cluster.commit(decide_recoveries(self.cluster.state, self.ends))
        return self.cluster.partition(self.topic).leader

    def known(self) -> tuple[BrokerId, ...]:
        return self.cluster.partition(self.topic).last_known_elr


def test_who_registers_first_is_waited_for() -> None:
    """Nobody has committed anything since, as nobody has heard that it left."""
    dark = Dark()
    dark.cluster.up(B1)
    assert dark.known() == (B1,)
    dark.cluster.fence(B1)
    dark.cluster.up(B2)
    dark.cluster.up(B3)
    dark.tell(B2, 900)
    dark.tell(B3, 800)
    assert dark.leader() == NO_LEADER, "broker 1 holds 1000, and is away"
    dark.cluster.unfence(B1)
    assert dark.leader() == NO_LEADER, "it has not said where its log ends"
    dark.tell(B1, 1000)
    assert dark.leader() == B1


def test_who_is_fenced_first_is_waited_for() -> None:
    dark = Dark()
    for broker in (B1, B2, B3):
        dark.cluster.fence(broker)
    assert dark.known() == (B1,)
    for broker in (B2, B3):
        dark.cluster.up(broker)
        dark.tell(broker, 900)
    assert dark.leader() == NO_LEADER, "broker 1 holds 1000, and is away"
    dark.cluster.up(B1)
    for broker, end in ((B1, 1000), (B2, 900), (B3, 900)):
        dark.tell(broker, end)
    assert dark.leader() == B1


@pytest.mark.parametrize("applied_by", [B2, B3])
def test_who_left_is_forgotten_once_the_leader_has_applied_it(applied_by: BrokerId) -> None:
    """The one that leads now, by which the ISR has the minimum; nobody else will do."""
    dark, applied = Dark(), Applied()
    dark.cluster.fence(B1)
    state = dark.cluster.state
    assert dark.cluster.partition(dark.topic).leader == B2
    for broker in state.brokers.values():
        applied.on_registered(broker.broker_id, broker.epoch)
    applied.on_answered(
        applied_by,
        state.brokers[applied_by].epoch,
        state.last_offset,
        failed=frozenset(),
        full=False,
    )
    assert list(departures_applied(state, Applied())) == [], "what nobody has said is not so"
    dark.cluster.commit(decide_departures(state, applied, limit=9))
    assert dark.known() == (() if applied_by == B2 else (B1,))


def test_below_the_minimum_nobody_is_forgotten() -> None:
    dark = Dark()
    dark.cluster.fence(B3)
    dark.cluster.fence(B2)
    dark.cluster.all_apply()
    partition = dark.cluster.partition(dark.topic)
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((B1,), (B2,), (B3,))


def test_who_was_waited_for_once_is_waited_for_until_the_minimum_is_in_sync_again() -> None:
    """The leader that all of them have given may lose its tail before anybody has copied it."""
    dark = Dark()
    for broker in (B1, B2, B3):
        dark.cluster.up(broker)
    for broker, end in ((B1, 1000), (B2, 1000), (B3, 900)):
        dark.tell(broker, end)
    assert dark.leader() == B1
    dark.cluster.all_apply()
    assert dark.known() == (B2, B3)
    dark.cluster.fence(B2)
    dark.cluster.up(B1)
    dark.tell(B1, 900)
    dark.tell(B3, 900)
    assert dark.leader() == NO_LEADER, "broker 2 holds 1000, and is away"
