"""Registration of incarnations: who is refused, what leaves the ISRs, what must not run at all."""

from dataclasses import replace

import pytest

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.compatibility import UNNAMED, Levels, Server
from strandline_broker.core.controller.brokers.registration import (
    StoreMismatch,
    check_registered,
    check_running,
    decide_registration,
)
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import RECOVERED, RegisterBrokerRecord
from strandline_proto.errors import (
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRequest,
    UnsupportedVersion,
)
from strandline_proto.ids import NO_LEADER, BrokerEpoch, BrokerId, ControllerEpoch
from support.controller_cluster import (
    B1,
    B2,
    B3,
    CLUSTER,
    SESSION_MS,
    STORE,
    Cluster,
    registration,
)


def test_the_same_incarnation_keeps_its_epoch_and_writes_nothing() -> None:
    cluster = Cluster()
    request = registration(B1, "one")
    epoch = cluster.commit(cluster.decide_registration(request))
    again = cluster.decide_registration(request)
    assert again.answer == epoch
    assert again.records == ()


def test_another_directory_is_refused_while_the_first_process_lives() -> None:
    cluster = Cluster([B1])
    with pytest.raises(DuplicateBrokerRegistration, match="pid 101"):
        cluster.register(B1, directory_id="elsewhere")
    cluster.now_ms = SESSION_MS
    assert cluster.register(B1, directory_id="elsewhere") > 0


def test_the_same_directory_takes_over_at_once_because_its_lock_was_free() -> None:
    cluster = Cluster([B1])
    first = cluster.state.brokers[B1].epoch
    assert cluster.register(B1) > first


def test_the_late_word_of_a_dead_process_does_not_end_its_successor() -> None:
    """A request may outlive its sender, on the way."""
    cluster = Cluster()
    late = registration(B1, "dead", **cluster.memory())
    cluster.register(B1)
    assert cluster.decide_registration(late).records, "nothing says which began later"
    cluster.up(B1)
    with pytest.raises(DuplicateBrokerRegistration, match="older copy of its data directory"):
        cluster.decide_registration(late)
    cluster.fence(B1)
    with pytest.raises(DuplicateBrokerRegistration, match="older copy of its data directory"):
        cluster.decide_registration(late)
    assert cluster.register(B1), "who knows of it"
    cluster.up(B1)
    cluster.now_ms += SESSION_MS
    assert cluster.decide_registration(late).records


def test_a_stopping_broker_may_be_replaced_at_once() -> None:
    cluster = Cluster([B1, B2])
    cluster.shut_down(B1)
    assert cluster.register(B1, directory_id="elsewhere")
    assert not cluster.state.brokers[B1].in_controlled_shutdown


def test_a_session_inherited_and_never_heard_from_refuses_nobody() -> None:
    cluster = Cluster([B1])
    cluster.sessions.inherit(B1, cluster.state.brokers[B1].epoch, cluster.now_ms)
    assert cluster.register(B1, directory_id="elsewhere")


def test_a_broker_of_another_cluster_is_refused() -> None:
    cluster = Cluster()
    with pytest.raises(InconsistentClusterId, match="other-cluster"):
        cluster.register(B1, cluster_id="other-cluster")
    assert cluster.register(B1, cluster_id=CLUSTER)


@pytest.mark.parametrize(
    "fields",
    [
        {"broker_id": BrokerId(-1)},
        {"incarnation_id": ""},
        {"directory_id": ""},
        {"flush_policy": "sometimes"},
        {"inter_broker_listener": "NOWHERE"},
        {"listeners": (Endpoint("INTERNAL", "a", 1), Endpoint("INTERNAL", "b", 2))},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_registration_that_contradicts_itself_is_refused(fields: dict[str, object]) -> None:
    cluster = Cluster()
    request = registration(B1, "one")
    with pytest.raises(InvalidRequest):
        cluster.decide_registration(replace(request, **fields))  # type: ignore[arg-type]
    assert cluster.decide_registration(request).records


def test_an_unclean_restart_leaves_every_isr_and_raises_the_leader_epoch_where_it_was_in() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2), (B2, B1), (B3, B2), (B1, B3))
    cluster.register(B2)
    led_by_other, led, follower, without = (cluster.partition(topic, i) for i in range(4))
    assert (led_by_other.leader, led_by_other.isr, led_by_other.leader_epoch) == (B1, (B1,), 1)
    assert (led.leader, led.isr, led.leader_epoch) == (B1, (B1,), 1)
    assert (follower.leader, follower.isr, follower.leader_epoch) == (B3, (B3,), 1)
    assert (without.partition_epoch, without.leader_epoch) == (0, 0)


def test_a_clean_restart_leaves_the_isrs_without_a_new_leader_epoch_for_others() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2), (B2, B1))
    cluster.register(B2, previous_broker_epoch=cluster.state.brokers[B2].epoch)
    follower, led = cluster.partition(topic, 0), cluster.partition(topic, 1)
    assert (follower.isr, follower.leader_epoch, follower.partition_epoch) == ((B1,), 0, 1)
    assert (led.leader, led.leader_epoch) == (B1, 1)


def test_an_always_flushed_disk_proves_that_nothing_is_lost() -> None:
    for old, new, same_disk, bumped in [
        ("always", "always", True, 0),
        ("replicated", "always", True, 1),
        ("always", "replicated", True, 1),
        ("always", "always", False, 1),
    ]:
        cluster = Cluster([B1])
        cluster.up(B2, flush_policy=old)
        topic = cluster.topic("t", (B1, B2))
        cluster.now_ms += SESSION_MS
        disk = "dir-2" if same_disk else "another"
        cluster.register(B2, flush_policy=new, directory_id=disk)
        assert cluster.partition(topic).leader_epoch == bumped, (old, new, same_disk)


def test_an_always_flushed_disk_at_another_address_may_be_a_copy() -> None:
    """P-71: what the machine that it was copied from has written since is not in it."""
    elsewhere = (Endpoint("INTERNAL", "10.0.0.9", 9002),)
    for moved, clean, bumped in [(False, False, 0), (True, False, 1), (True, True, 0)]:
        cluster = Cluster([B1])
        cluster.up(B2, flush_policy="always")
        topic = cluster.topic("t", (B1, B2))
        fields: dict[str, object] = {"flush_policy": "always"}
        if clean:
            fields["previous_broker_epoch"] = cluster.state.brokers[B2].epoch
        if moved:
            fields["listeners"] = elsewhere
        cluster.register(B2, **fields)
        assert cluster.partition(topic).leader_epoch == bumped, (moved, clean)


def test_a_marker_of_the_right_epoch_on_another_disk_proves_nothing() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    cluster.now_ms += SESSION_MS
    epoch = cluster.state.brokers[B2].epoch
    cluster.register(B2, directory_id="another", previous_broker_epoch=epoch)
    assert cluster.partition(topic).leader_epoch == 1


def test_the_last_member_leads_again_after_a_clean_stop() -> None:
    cluster = Cluster([B1])
    topic = cluster.topic("t", (B1,))
    cluster.register(B1, previous_broker_epoch=cluster.state.brokers[B1].epoch)
    partition = cluster.partition(topic)
    assert (partition.isr, partition.elr, partition.leader) == ((), (B1,), NO_LEADER)
    assert partition.leader_epoch == 1
    cluster.unfence(B1)
    assert (cluster.partition(topic).leader, cluster.partition(topic).leader_epoch) == (B1, 2)
    assert cluster.partition(topic).leader_recovery_state == RECOVERED


def test_an_unclean_restart_leaves_the_elr_too_and_is_remembered() -> None:
    """I-51, P-9: what it lost may be what only the ISR had."""
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    for broker in (B3, B2):
        cluster.fence(broker)
        cluster.all_apply()
    assert cluster.partition(topic).elr == (B2,)
    epoch = cluster.partition(topic).leader_epoch
    cluster.up(B2)
    partition = cluster.partition(topic)
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((B1,), (), (B2,))
    assert partition.leader_epoch == epoch + 1, "P-73"
    cluster.register(B1)
    partition = cluster.partition(topic)
    assert (partition.leader, partition.isr, partition.elr) == (NO_LEADER, (), ())
    assert partition.last_known_elr == (B1, B2)


def test_a_member_on_another_disk_is_neither_in_sync_nor_eligible() -> None:
    """P-21, and its own disk proves nothing either once it was away from it."""
    cluster = Cluster([B1])
    topic = cluster.topic("t", (B1,))
    cluster.fence(B1)
    for directory in ("another", "dir-1"):
        cluster.sessions.forget(B1, cluster.state.brokers[B1].epoch)
        cluster.up(B1, directory_id=directory)
        partition = cluster.partition(topic)
        assert (partition.isr, partition.elr, partition.last_known_elr) == ((), (), (B1,))
        assert partition.leader == NO_LEADER


def test_an_eligible_replica_leads_at_once_where_the_leader_comes_back_unclean() -> None:
    """P-28: the same way for every path."""
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    cluster.fence(B3)
    cluster.all_apply()
    cluster.fence(B2)
    cluster.unfence(B2)
    assert (cluster.partition(topic).leader, cluster.partition(topic).elr) == (B1, (B2,))
    cluster.register(B1)
    partition = cluster.partition(topic)
    assert (partition.leader, partition.isr, partition.elr) == (B2, (B2,), ())
    assert partition.last_known_elr == (B1,)


def test_registration_and_its_elections_are_one_batch_whose_last_offset_is_the_epoch() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1, B2), (B2, B1))
    before = len(cluster.envelopes)
    epoch = cluster.register(B1)
    assert len(cluster.envelopes) == before + 1
    assert int(cluster.envelopes[-1].metadata_offset) == epoch


def remembers(store: str, epoch: int, offset: int) -> dict[str, object]:
    return {
        "store_id": store,
        "controller_epoch": ControllerEpoch(epoch),
        "metadata_offset": BrokerEpoch(offset),
    }


def test_a_broker_that_remembers_a_record_of_this_log_is_welcome() -> None:
    cluster = Cluster([B2])
    last = cluster.state.last_offset
    assert cluster.register(B1, **remembers(STORE, 1, last)) > 0


@pytest.mark.parametrize(
    ("store", "epoch", "ahead", "why"),
    [
        (STORE, 1, 1, "older copy"),
        (STORE, 2, 0, "of epoch 1"),
        (STORE, 0, 0, "of epoch 1"),
        ("lost-store", 1, 0, "was replaced"),
    ],
)
def test_a_broker_that_remembers_what_the_log_lacks_stops_the_controller(
    store: str, epoch: int, ahead: int, why: str
) -> None:
    cluster = Cluster([B2])
    memory = remembers(store, epoch, cluster.state.last_offset + ahead)
    decision = cluster.decide_registration(registration(B1, "one", **memory))
    assert decision.records == ()
    assert isinstance(decision.answer, StoreMismatch)
    assert why in decision.answer.why


def test_an_empty_store_in_the_place_of_a_lost_one_stops_whatever_its_cluster_id() -> None:
    """It has drawn a cluster id of its own; the brokers are right, and they go on."""
    cluster = Cluster()
    memory = remembers("lost-store", 3, 40)
    decision = cluster.decide_registration(registration(B1, "one", cluster_id="older", **memory))
    assert isinstance(decision.answer, StoreMismatch)
    assert "strandline controller restore" in decision.answer.why
    with pytest.raises(InconsistentClusterId):
        cluster.decide_registration(registration(B1, "one", cluster_id="older"))
    cluster.up(B2)
    with pytest.raises(InconsistentClusterId):
        cluster.decide_registration(registration(B1, "one", cluster_id="older", **memory))


def test_a_directory_that_has_applied_nothing_proves_nothing() -> None:
    cluster = Cluster()
    assert cluster.register(B1, **remembers("", 9, 9)) > 0
    assert cluster.register(B2, **remembers("lost-store", 9, -1)) > 0


@pytest.mark.parametrize(
    ("host", "port", "said"),
    [
        ("broker..1", 9092, "host 'broker..1' has an empty part"),
        ("", 9092, "the host is empty"),
        ("x" * 64, 9092, "a part of 64 characters"),
        (".".join(["x" * 63] * 5), 9092, "has 319 characters"),
        ("a\0b", 9092, "is not of letters"),
        ("büro", 9092, "write it as xn--"),
        ("1:2", 9092, "no IPv6 address"),
        ("broker-1", 0, "port 0 is not one from 1 to 65535"),
        ("broker-1", 65536, "port 65536"),
        ("broker-1", -1, "port -1"),
    ],
)
def test_a_broker_that_nobody_can_dial_is_refused(host: str, port: int, said: str) -> None:
    cluster = Cluster()
    with pytest.raises(InvalidRequest) as refused:
        cluster.register(B1, listeners=(Endpoint("INTERNAL", host, port),))
    assert said in str(refused.value)
    assert "INTERNAL" in str(refused.value)
    assert "correct advertised.listeners" in str(refused.value)


@pytest.mark.parametrize("host", ["::1", "10.0.0.1", "broker_1", "b-1.example.", "xn--bro-hoa"])
def test_a_broker_may_be_named_as_resolvers_want_it(host: str) -> None:
    cluster = Cluster()
    assert cluster.register(B1, listeners=(Endpoint("INTERNAL", host, 65535),)) > 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rack": "x" * 4097}, "4097 characters"),
        ({"log_dirs": ("/d",) * 1001}, "1001 log.dirs"),
        ({"features": ("x" * 4097,)}, "1 features"),
    ],
)
def test_a_registration_too_large_to_tell_everybody_is_refused(
    fields: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        Cluster().register(B1, **fields)


NEW = Server("this controller", "0.3.0+bbb", Levels(2, 3))


def decided(cluster: Cluster, here: Server, **fields: object) -> Decision[object]:
    decision = decide_registration(
        cluster.state,
        cluster.sessions,
        registration(B1, "one", **fields),
        cluster_id=CLUSTER,
        store_id=STORE,
        now_ms=0,
        here=here,
    )
    return Decision(decision.records, decision.answer)


@pytest.mark.parametrize(
    "levels", [None, Levels(0, 1), Levels(4, 9)], ids=["of before", "too old", "too new"]
)
def test_a_broker_that_does_not_fit_is_refused_by_the_names_of_both(levels: Levels | None) -> None:
    features = () if levels is None else levels.features
    with pytest.raises(UnsupportedVersion) as refused:
        decided(Cluster(), NEW, version="0.1.0+aaa", features=features)
    assert "broker 1 runs build 0.1.0+aaa and speaks" in str(refused.value)
    assert "this controller runs build 0.3.0+bbb and speaks" in str(refused.value)


@pytest.mark.parametrize("levels", [Levels(0, 2), Levels(3, 9), Levels(2, 3)])
def test_a_broker_that_fits_is_kept_with_what_it_speaks(levels: Levels) -> None:
    (*_, record) = decided(Cluster(), NEW, features=("x", *levels.features)).records
    assert isinstance(record, RegisterBrokerRecord)
    assert record.features == ("x", *levels.features)


def test_a_controller_does_not_take_over_brokers_that_cannot_follow_it() -> None:
    cluster = Cluster([B1, B2])
    check_running(cluster.state, UNNAMED)
    with pytest.raises(UnsupportedVersion, match="broker 1 runs build test"):
        check_running(cluster.state, NEW)
    cluster.fence(B1)
    with pytest.raises(UnsupportedVersion, match="broker 2 runs build test"):
        check_running(cluster.state, NEW)
    cluster.fence(B2)
    check_running(cluster.state, NEW)
    with pytest.raises(UnsupportedVersion, match="broker 1 runs build test"):
        check_registered(cluster.state.brokers[B1], NEW)
    check_registered(None, NEW)
