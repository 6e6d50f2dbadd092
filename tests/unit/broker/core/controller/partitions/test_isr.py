"""Who is eligible, and who is only remembered, after a change of an ISR (I-50)."""

from dataclasses import replace

import pytest

from strandline_broker.core.controller.log.state import PartitionRegistration
from strandline_broker.core.controller.partitions.isr import elr_after, isr_change, minimum_change
from strandline_proto.ids import BrokerId
from support.controller_cluster import B1, B2, B3, Cluster

Members = tuple[BrokerId, ...]


def partition(isr: Members, elr: Members = (), last_known: Members = ()) -> PartitionRegistration:
    cluster = Cluster([B1, B2, B3])
    plain = cluster.partition(cluster.topic("t", (B1, B2, B3)))
    return replace(plain, isr=isr, leader=isr[0], elr=elr, last_known_elr=last_known)


@pytest.mark.parametrize(
    ("before", "isr", "lost", "after"),
    [
        (((B1, B2, B3), (), ()), (B1, B2), (), ((), (B3,))),
        (((B1, B2, B3), (), ()), (B2, B3), (B1,), ((), (B1,))),
        (((B1, B2), (), (B3,)), (B1,), (), ((B2,), (B3,))),
        (((B1, B2), (), ()), (B1,), (), ((B2,), ())),
        (((B1, B2), (), ()), (B1,), (B2,), ((), (B2,))),
        (((B1,), (B2,), (B3,)), (), (), ((B1, B2), (B3,))),
        (((B1,), (B2,), ()), (B2,), (B1,), ((), (B1,))),
        (((B1,), (B2,), ()), (B1,), (B2,), ((), (B2,))),
        (((B1,), (B3,), (B2,)), (B1, B2), (), ((), (B3,))),
        (((B1,), (B2, B3), ()), (B1,), (), ((B2, B3), ())),
    ],
)
def test_with_a_minimum_of_two_nobody_who_was_in_sync_is_forgotten(
    before: tuple[Members, Members, Members],
    isr: Members,
    lost: Members,
    after: tuple[Members, Members],
) -> None:
    assert elr_after(partition(*before), isr, min_isr=2, lost=lost) == after


def test_a_record_says_only_what_changes() -> None:
    cluster = Cluster([B1, B2, B3])
    at = cluster.partition(cluster.topic("t", (B1, B2, B3)))
    change = isr_change(cluster.state, at, {B3, B1})
    assert (change.isr, change.elr, change.last_known_elr) == ((B1, B3), None, (B2,))
    change = isr_change(cluster.state, at, at.isr, leader=B2)
    assert (change.isr, change.leader) == (None, B2)


def test_another_minimum_says_nothing_where_nobody_is_eligible() -> None:
    assert minimum_change(partition((B1, B2))).elr is None
    assert minimum_change(partition((B1,), (), (B3,))).last_known_elr is None


def test_who_was_eligible_by_another_minimum_is_remembered() -> None:
    """The leader commits by the new one once it has heard of it, and not before."""
    change = minimum_change(partition((B1,), (B2,), (B3,)))
    assert (change.elr, change.last_known_elr) == ((), (B2, B3))
