"""Heartbeats: what they ask for, and what they are told."""

from dataclasses import replace
from typing import Any

import pytest

from strandline_broker.core.controller.brokers.heartbeat import (
    TOLD_MAX,
    Heartbeat,
    HeartbeatAnswer,
    answer_heartbeat,
    asks_for_change,
    check_told,
    decide_heartbeat,
)
from strandline_broker.core.controller.brokers.registration import ENTRIES_MAX, TEXT_LENGTH_MAX
from strandline_broker.core.controller.log.records import OfflineReplica
from strandline_broker.core.replication.replica_condition import RefusedTruncation
from strandline_proto.errors import BrokerIdNotRegistered, InvalidRequest, StaleBrokerEpoch
from strandline_proto.ids import BrokerEpoch, LeaderEpoch, MetadataOffset, Offset, TopicId
from support.controller_cluster import B1, B2, Cluster


def beat(
    cluster: Cluster,
    *,
    applied: int | None = None,
    want_fence: bool = False,
    want_shut_down: bool = False,
) -> tuple[bool, HeartbeatAnswer]:
    """Broker 1's heartbeat: whether it changed anything, and its answer."""
    offset = cluster.state.last_offset if applied is None else MetadataOffset(applied)
    heartbeat = Heartbeat(B1, cluster.state.brokers[B1].epoch, offset, want_fence, want_shut_down)
    asked = asks_for_change(cluster.state, heartbeat)
    done = cluster.commit(decide_heartbeat(cluster.state, heartbeat))
    assert done is asked
    return done, answer_heartbeat(cluster.state, heartbeat, {B1: offset, B2: offset})


def test_a_registered_broker_is_unfenced_once_it_is_caught_up_and_wants_to() -> None:
    cluster = Cluster()
    epoch = cluster.register(B1)
    assert beat(cluster, want_fence=True) == (False, HeartbeatAnswer(True, True, False))
    assert beat(cluster, applied=epoch - 1) == (False, HeartbeatAnswer(False, True, False))
    assert beat(cluster) == (True, HeartbeatAnswer(True, False, False))
    assert beat(cluster) == (False, HeartbeatAnswer(True, False, False))


def test_a_broker_that_wants_to_be_fenced_is() -> None:
    cluster = Cluster([B1])
    assert beat(cluster, want_fence=True) == (True, HeartbeatAnswer(True, True, False))


def test_a_wish_to_shut_down_is_granted_when_all_have_applied_it() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1, B2))
    changed, answer = beat(cluster, want_shut_down=True)
    assert changed
    assert not answer.should_shut_down, "the heartbeat came before the offset to be reached"
    assert beat(cluster, want_shut_down=True) == (False, HeartbeatAnswer(True, False, True))
    assert beat(cluster) == (False, HeartbeatAnswer(True, False, False)), "it has to ask"


def test_a_fenced_broker_that_wants_to_stop_may_do_so_and_is_not_unfenced() -> None:
    cluster = Cluster()
    cluster.register(B1)
    assert beat(cluster, want_shut_down=True) == (False, HeartbeatAnswer(True, True, True))


def test_another_incarnation_and_a_stranger_are_refused() -> None:
    cluster = Cluster([B1])
    stale = Heartbeat(B1, BrokerEpoch(1), MetadataOffset(0), False, False)
    stranger = Heartbeat(B2, BrokerEpoch(1), MetadataOffset(0), False, False)
    # No epoch that this store has given out: it may be an old copy, and must end no broker (P-76).
    newer = Heartbeat(B1, BrokerEpoch(4194306), MetadataOffset(0), False, False)
    for heartbeat, error in (
        (stale, StaleBrokerEpoch),
        (stranger, BrokerIdNotRegistered),
        (newer, BrokerIdNotRegistered),
    ):
        with pytest.raises(error):
            asks_for_change(cluster.state, heartbeat)
        with pytest.raises(error):
            answer_heartbeat(cluster.state, heartbeat, {})


def test_lists_that_no_broker_has_are_refused() -> None:
    told = Heartbeat(B1, BrokerEpoch(1), MetadataOffset(1), want_fence=False, want_shut_down=False)
    check_told(told)
    topic_id = TopicId(bytes(16))
    many = frozenset(OfflineReplica(topic_id, n) for n in range(TOLD_MAX + 1))
    with pytest.raises(InvalidRequest, match="100001 replicas"):
        check_told(replace(told, offline_replicas=many))
    short = frozenset([OfflineReplica(TopicId(bytes(15)), 0)])
    with pytest.raises(InvalidRequest, match="by 15 bytes"):
        check_told(replace(told, offline_replicas=short))
    refusal = RefusedTruncation(topic_id, 0, B2, LeaderEpoch(1), Offset(1), Offset(2), Offset(3))
    check_told(replace(told, refused=(refusal,) * TOLD_MAX))
    with pytest.raises(InvalidRequest, match="100001 replicas"):
        check_told(replace(told, refused=(refusal,) * (TOLD_MAX + 1)))
    with pytest.raises(InvalidRequest, match="by 17 bytes"):
        check_told(replace(told, refused=(replace(refusal, topic_id=TopicId(bytes(17))),)))


@pytest.mark.parametrize("field", ["offline_log_dirs", "full_log_dirs", "stray_dirs"])
def test_directories_that_no_broker_has_are_refused(field: str) -> None:
    told = Heartbeat(B1, BrokerEpoch(1), MetadataOffset(1), want_fence=False, want_shut_down=False)
    fields: dict[str, Any] = {field: ("d" * TEXT_LENGTH_MAX,) * ENTRIES_MAX}
    check_told(replace(told, **fields))
    for paths in (("d",) * (ENTRIES_MAX + 1), ("d" * (TEXT_LENGTH_MAX + 1),)):
        fields = {field: paths}
        with pytest.raises(InvalidRequest, match="1000 are possible, each of at most 4096"):
            check_told(replace(told, **fields))
