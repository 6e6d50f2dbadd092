"""Configuration altered at run time: one atomic decision a resource; leaders hear of new minima."""

from dataclasses import replace

import pytest

from strandline_broker.core.controller import push
from strandline_broker.core.controller.partitions.alter_partition import (
    Proposal,
    decide_alter_partition,
)
from strandline_broker.core.controller.topics.configs import (
    APPEND,
    BROKER,
    CONFIGURED_GROUPS_MAX,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    Alteration,
    decide_alter_configs,
)
from strandline_proto.errors import (
    BrokerIdNotRegistered,
    InvalidConfig,
    InvalidGroupId,
    InvalidRequest,
    InvalidUpdateVersion,
    PolicyViolation,
    UnknownTopicOrPartition,
    WireError,
)
from support.controller_cluster import B1, B2, B3, SERVER_KEYS, Cluster

MIN_ISR = "min.insync.replicas"


def refusal(cluster: Cluster, broker: str, entries: dict[str, str | None], **kwargs: str) -> str:
    before = (len(cluster.log), dict(cluster.state.dynamic_defaults))
    with pytest.raises(InvalidConfig) as caught:
        cluster.alter(broker, entries, **kwargs)  # type: ignore[arg-type]
    assert (len(cluster.log), cluster.state.dynamic_defaults) == before
    return str(caught.value)


def edit(cluster: Cluster, operation: int, key: str, value: str, *, topic: str = "t") -> None:
    cluster.commit(
        decide_alter_configs(
            cluster.state,
            kind=TOPIC,
            name=topic,
            alterations=[Alteration(key, operation, value)],
            keys=SERVER_KEYS,
            validate_only=False,
        )
    )


def configs(cluster: Cluster, name: str = "t") -> dict[str, str]:
    return cluster.state.topics[cluster.state.topic_ids[name]].configs


def test_a_topic_entry_is_set_replaced_and_deleted_and_brokers_hear_of_it() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2), segment_bytes="1000")
    cluster.alter("", {"segment.bytes": "2000", "retention.ms": " 5 "}, topic="t")
    assert configs(cluster) == {"segment.bytes": "2000", "retention.ms": "5"}
    cluster.alter("", {"segment.bytes": None}, topic="t")
    assert configs(cluster) == {"retention.ms": "5"}
    (pushed,) = cluster.envelopes[-1].topics
    assert (pushed.topic_id, pushed.configs) == (topic, (("retention.ms", "5"),))
    assert pushed.partitions == ()
    assert cluster.envelopes[-1].dynamic is None
    assert cluster.replayed().topics[topic].configs == {"retention.ms": "5"}


def test_what_changes_nothing_writes_nothing() -> None:
    cluster = Cluster([B1])
    cluster.topic("t", (B1,), segment_bytes="1000")
    records = len(cluster.log)
    cluster.alter("", {"segment.bytes": "1000", "retention.ms": None}, topic="t")
    cluster.alter("", {"segment.bytes": "1000", "retention.ms": None}, topic="t")
    cluster.alter("1", {"log.roll.ms": None})
    cluster.alter("", {"segment.bytes": "7000"}, topic="t", validate_only=True)
    assert len(cluster.log) == records
    assert configs(cluster) == {"segment.bytes": "1000"}


def test_a_key_that_is_not_supported_yet_can_be_deleted() -> None:
    """Tools delete throttles whether there are any or not."""
    cluster = Cluster([B1])
    cluster.topic("t", (B1,))
    records = len(cluster.log)
    throttles: dict[str, str | None] = {
        "leader.replication.throttled.replicas": None,
        "follower.replication.throttled.replicas": None,
    }
    cluster.alter("", throttles, topic="t")
    cluster.alter("1", {"replica.alter.log.dirs.io.max.bytes.per.second": None})
    cluster.alter("1", {"leader.replication.throttled.rate": None})
    assert len(cluster.log) == records
    for key in throttles:
        with pytest.raises(InvalidConfig, match="not supported yet"):
            cluster.alter("", {key: "0:1"}, topic="t")
    with pytest.raises(InvalidConfig, match="unknown topic configuration key"):
        cluster.alter("", {"leader.throttled": None}, topic="t")
    with pytest.raises(InvalidConfig, match="unknown broker configuration key"):
        cluster.alter("1", {"leader.throttled": None})


def test_a_resource_is_altered_whole_or_not_at_all() -> None:
    cluster = Cluster([B1])
    cluster.topic("t", (B1,))
    with pytest.raises(InvalidConfig):
        cluster.alter("", {"retention.ms": "5", "segment.bytes": "13"}, topic="t")
    assert configs(cluster) == {}


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("segment.byte", "1", "unknown topic configuration key 'segment.byte'; did you mean"),
        ("segment.bytes", "13", "invalid value '13' for segment.bytes: expected a whole number"),
        ("segment.bytes", "10MB", "write 10485760"),
        ("retention.ms", "-2", "from -1 to"),
        ("cleanup.policy", "compct", "expected delete, compact or compact,delete"),
        ("local.retention.ms", "1", "not supported yet"),
        ("log.roll.ms", "1", "log.roll.ms is a key of brokers; of a topic it is segment.ms"),
        ("segment.byte", None, "unknown topic configuration key 'segment.byte'; did you mean"),
    ],
)
def test_what_a_topic_cannot_have_is_refused_with_a_hint(
    key: str, value: str | None, says: str
) -> None:
    cluster = Cluster([B1])
    cluster.topic("t", (B1,))
    assert says in refusal(cluster, "", {key: value}, topic="t")


@pytest.mark.parametrize(
    ("broker", "key", "value", "says"),
    [
        ("1", "node.id", "2", "node.id needs a restart: set it in the broker's configuration"),
        ("", "delete.topic.enable", "true", "is always true here and cannot be altered"),
        ("", "num.network.threads", "2", "num.network.threads is not supported yet"),
        ("", "log.dirs", None, "log.dirs needs a restart"),
        ("", "num.partitions", "2", "needs a restart: set it in the controller's configuration"),
        ("1", "log.retention.m", "1", "unknown broker configuration key 'log.retention.m'; did"),
        ("", "log.retention.hours", "1", "log.retention.hours is not a key here; use log.ret"),
        ("1", "log.segment.bytes", "1k", "write 1024"),
        ("1", "segment.ms", "1", "segment.ms is a key of topics; of brokers it is log.roll.ms"),
        ("1", MIN_ISR, "1", "cannot be altered for one broker"),
        ("", MIN_ISR, "0", "invalid value '0' for min.insync.replicas"),
        ("", "log.cleaner.backoff.ms", "0", "from 10 to"),  # 0 would keep the loop busy
    ],
)
def test_what_no_broker_can_be_given_at_run_time_is_refused_with_the_remedy(
    broker: str, key: str, value: str | None, says: str
) -> None:
    assert says in refusal(Cluster([B1]), broker, {key: value})


def test_a_record_cannot_be_too_young_and_too_old_to_be_compacted() -> None:
    cluster = Cluster([B1])
    cluster.topic("t", (B1,), min_compaction_lag_ms="100")
    message = refusal(cluster, "", {"max.compaction.lag.ms": "99"}, topic="t")
    assert message.startswith("min.compaction.lag.ms=100 is above max.compaction.lag.ms=99")
    cluster.alter("", {"max.compaction.lag.ms": "100"}, topic="t")
    cluster.alter("", {"log.cleaner.min.compaction.lag.ms": "100"})
    assert "is above" in refusal(cluster, "1", {"log.cleaner.max.compaction.lag.ms": "99"})
    assert "is above" in refusal(cluster, "", {"log.cleaner.max.compaction.lag.ms": "99"})
    cluster.alter("", {"log.cleaner.min.compaction.lag.ms": None})
    cluster.alter("1", {"log.cleaner.max.compaction.lag.ms": "99"})
    assert "is above" in refusal(cluster, "", {"log.cleaner.min.compaction.lag.ms": "100"})


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "none", UnknownTopicOrPartition),
        (BROKER, "9", BrokerIdNotRegistered),
        (BROKER, "-1", BrokerIdNotRegistered),
        (BROKER, "one", BrokerIdNotRegistered),
        (8, "1", InvalidRequest),
    ],
)
def test_an_unknown_resource_is_refused(kind: int, name: str, error: type[WireError]) -> None:
    with pytest.raises(error):
        decide_alter_configs(
            Cluster([B1]).state,
            kind=kind,
            name=name,
            alterations=[],
            keys=SERVER_KEYS,
            validate_only=False,
        )


def test_a_list_grows_and_shrinks() -> None:
    cluster = Cluster([B1])
    cluster.topic("t", (B1,))
    edit(cluster, APPEND, "cleanup.policy", "compact")
    assert configs(cluster) == {"cleanup.policy": "delete,compact"}
    edit(cluster, APPEND, "cleanup.policy", "compact, delete")
    assert configs(cluster) == {"cleanup.policy": "delete,compact"}
    edit(cluster, SUBTRACT, "cleanup.policy", "delete")
    assert configs(cluster) == {"cleanup.policy": "compact"}
    with pytest.raises(InvalidConfig, match="expected delete, compact"):
        edit(cluster, SUBTRACT, "cleanup.policy", "compact")
    edit(cluster, DELETE, "cleanup.policy", "")
    cluster.alter("", {"log.cleanup.policy": "compact"})
    edit(cluster, APPEND, "cleanup.policy", "delete")
    assert configs(cluster) == {"cleanup.policy": "compact,delete"}


def test_what_is_no_list_or_no_operation_is_refused() -> None:
    cluster = Cluster([B1])
    cluster.topic("t", (B1,), segment_bytes="1000")
    with pytest.raises(InvalidConfig, match=r"segment\.bytes is not a list"):
        edit(cluster, APPEND, "segment.bytes", "1")
    with pytest.raises(InvalidConfig, match="unknown topic configuration key"):
        edit(cluster, APPEND, "nonsense", "1")
    with pytest.raises(InvalidRequest, match="operation 7 is not known"):
        edit(cluster, 7, "segment.bytes", "1")
    with pytest.raises(InvalidRequest, match="given twice"):
        decide_alter_configs(
            cluster.state,
            kind=TOPIC,
            name="t",
            alterations=[
                Alteration("retention.ms", SET, "1"),
                Alteration("retention.ms", SET, "2"),
            ],
            keys=SERVER_KEYS,
            validate_only=False,
        )


def test_one_brokers_entry_and_that_of_all_are_apart_and_both_are_pushed() -> None:
    cluster = Cluster([B1, B2])
    cluster.alter("", {"log.roll.ms": "5"})
    cluster.alter("2", {"log.roll.ms": "6"})
    cluster.alter("", {"log.roll.ms": "7"})
    envelope = cluster.envelopes[-1]
    assert envelope.topics == ()
    assert envelope.dynamic == push.ClusterConfigs(
        brokers={B2: {"log.roll.ms": "6"}},
        cluster={"log.roll.ms": "7"},
        controller={MIN_ISR: "2"},
        groups={},
    )
    assert push.snapshot(cluster.replayed()).dynamic == envelope.dynamic
    cluster.alter("2", {"log.roll.ms": None})
    assert cluster.replayed().broker_configs == {B2: {}}


def test_an_envelope_in_a_queue_does_not_change_with_the_state() -> None:
    cluster = Cluster([B1])
    cluster.alter("", {"log.roll.ms": "4"})
    cluster.alter("1", {"log.roll.ms": "5"})
    envelope = cluster.envelopes[-1]
    cluster.alter("1", {"log.roll.ms": "6"})
    cluster.alter("", {"log.roll.ms": None})
    assert envelope.dynamic is not None
    assert envelope.dynamic.brokers == {B1: {"log.roll.ms": "5"}}
    assert envelope.dynamic.cluster == {"log.roll.ms": "4"}


def test_a_new_minimum_raises_the_partition_epoch_where_it_changes_what_counts() -> None:
    cluster = Cluster([B1, B2, B3], min_insync=2)
    topic = cluster.topic("t", (B1, B2, B3))
    cluster.alter("", {MIN_ISR: "3"}, topic="t")
    partition = cluster.partition(topic)
    assert (partition.partition_epoch, partition.leader_epoch) == (1, 0)
    (pushed,) = cluster.envelopes[-1].topics
    assert [(p.partition.index, p.effective_min_isr) for p in pushed.partitions] == [(0, 3)]
    cluster.alter("", {MIN_ISR: "4"}, topic="t")
    assert cluster.partition(topic).partition_epoch == 1, "three are all there are"
    cluster.alter("", {MIN_ISR: None}, topic="t")
    assert cluster.partition(topic).partition_epoch == 2
    cluster.alter("", {"retention.ms": "5"}, topic="t")
    assert cluster.partition(topic).partition_epoch == 2


def test_a_proposal_from_before_a_new_minimum_is_refused() -> None:
    """P-77: its answer would otherwise leave the leader with the old one."""
    cluster = Cluster([B1, B2, B3], min_insync=2)
    topic = cluster.topic("t", (B1, B2, B3))
    cluster.fence(B3)
    cluster.unfence(B3)
    partition = cluster.partition(topic)
    members = (B1, B2, B3)
    proposal = Proposal(
        topic_id=topic,
        partition=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=tuple((b, cluster.state.brokers[b].epoch) for b in members),
        leader_recovery_state=0,
    )
    cluster.alter("", {MIN_ISR: "3"}, topic="t")
    epoch = cluster.state.brokers[B1].epoch
    (late,) = cluster.commit(decide_alter_partition(cluster.state, B1, epoch, [proposal]))
    assert isinstance(late.error, InvalidUpdateVersion)
    now = replace(proposal, partition_epoch=cluster.partition(topic).partition_epoch)
    (verdict,) = cluster.commit(decide_alter_partition(cluster.state, B1, epoch, [now]))
    assert verdict.committed is not None
    assert verdict.committed.effective_min_isr == 3


def test_a_new_minimum_of_all_concerns_the_topics_that_set_none() -> None:
    cluster = Cluster([B1, B2, B3], min_insync=2)
    plain = cluster.topic("plain", (B1, B2, B3))
    own = cluster.topic("own", (B1, B2, B3), min_insync_replicas="2")
    cluster.alter("", {MIN_ISR: "1"})
    assert cluster.partition(plain).partition_epoch == 1
    assert cluster.partition(own).partition_epoch == 0
    state = cluster.state
    assert state.effective_min_isr(state.topics[plain], cluster.partition(plain)) == 1
    assert state.effective_min_isr(state.topics[own], cluster.partition(own)) == 2
    cluster.alter("", {MIN_ISR: None}, topic="own")
    assert cluster.partition(own).partition_epoch == 1
    cluster.alter("", {MIN_ISR: None})
    assert cluster.partition(plain).partition_epoch == 2
    assert state.effective_min_isr(state.topics[plain], cluster.partition(plain)) == 2


SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


def alter_group(cluster: Cluster, group_id: str, entries: dict[str, str | None]) -> None:
    alterations = [
        Alteration(key, DELETE if value is None else SET, value or "")
        for key, value in entries.items()
    ]
    cluster.commit(
        decide_alter_configs(
            cluster.state,
            kind=GROUP,
            name=group_id,
            alterations=alterations,
            keys=SERVER_KEYS,
            validate_only=False,
        )
    )


def test_a_groups_entries_are_kept_and_pushed_and_forgotten_with_the_last() -> None:
    cluster = Cluster([B1])
    alter_group(cluster, "billing", {SESSION: " 50000", HEARTBEAT: "6000"})
    dynamic = cluster.envelopes[-1].dynamic
    assert dynamic is not None
    assert dynamic.groups == {"billing": {SESSION: "50000", HEARTBEAT: "6000"}}
    assert push.snapshot(cluster.replayed()).dynamic == dynamic
    alter_group(cluster, "billing", {SESSION: None})
    assert cluster.replayed().group_configs == {"billing": {HEARTBEAT: "6000"}}
    assert dynamic.groups["billing"][SESSION] == "50000", "an envelope in a queue stays as it is"
    alter_group(cluster, "billing", {HEARTBEAT: None})
    assert cluster.replayed().group_configs == {}
    alter_group(cluster, "billing", {HEARTBEAT: None})


@pytest.mark.parametrize(
    ("group_id", "entries", "error", "says"),
    [
        ("", {SESSION: "50000"}, InvalidGroupId, "empty"),
        ("g", {"retention.ms": "1"}, InvalidConfig, "no configuration key of a group"),
        ("g", {"consumer.session.timout.ms": None}, InvalidConfig, "no configuration key"),
        ("g", {SESSION: "0"}, InvalidConfig, "expected milliseconds from 1"),
        ("g", {SESSION: "long"}, InvalidConfig, "expected milliseconds"),
        ("g", {SESSION: "6000", HEARTBEAT: "6000"}, InvalidConfig, "between two heartbeats"),
    ],
)
def test_what_is_no_groups_entry_is_refused(
    group_id: str, entries: dict[str, str | None], error: type[WireError], says: str
) -> None:
    cluster = Cluster([B1])
    with pytest.raises(error, match=says):
        alter_group(cluster, group_id, entries)
    assert cluster.replayed().group_configs == {}


def test_groups_with_entries_have_a_bound() -> None:
    cluster = Cluster([B1])
    many = {f"group-{n}": {SESSION: "50000"} for n in range(CONFIGURED_GROUPS_MAX)}
    cluster.state.group_configs.update(many)
    with pytest.raises(PolicyViolation, match=str(CONFIGURED_GROUPS_MAX)):
        alter_group(cluster, "one-more", {SESSION: "50000"})
    alter_group(cluster, "group-1", {SESSION: "50001"})
