"""The controller's records survive their encoding, and a record of another version is an error."""

import json

import pytest

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.controller.log.records import (
    LOG_LEVEL,
    AnyRecord,
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    ControllerEpochRecord,
    GroupConfigRecord,
    LaterRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode,
    encode,
    epoch_record,
)
from strandline_broker.storage.controller import metadata_snapshot
from strandline_proto.ids import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    ProducerId,
    TopicId,
)

TOPIC = TopicId(bytes(range(16)))
B1, B2 = BrokerId(1), BrokerId(2)

RECORDS: list[AnyRecord] = [
    ControllerEpochRecord(epoch=ControllerEpoch(0)),
    TopicRecord(name="flights", topic_id=TOPIC),
    RemoveTopicRecord(topic_id=TOPIC),
    PartitionRecord(
        topic_id=TOPIC,
        partition=0,
        replicas=(B1, B2),
        directories=("a", "b"),
        isr=(B2,),
        leader=B2,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
    ),
    PartitionChangeRecord(topic_id=TOPIC, partition=0),
    PartitionChangeRecord(topic_id=TOPIC, partition=0, leader=NO_LEADER, isr=(B1,)),
    PartitionChangeRecord(topic_id=TOPIC, partition=0, leader=BrokerId(0), elr=()),
    RegisterBrokerRecord(
        broker_id=B1,
        incarnation_id="i",
        directory_id="d",
        flush_policy="always",
        pid=7,
        version="0",
        listeners=(Endpoint("INTERNAL", "::1", 9192),),
        inter_broker_listener="INTERNAL",
        replicas_max=9000,
        rack="r",
        log_dirs=("/data",),
    ),
    BrokerRegistrationChangeRecord(broker_id=B1, broker_epoch=BrokerEpoch(3), fenced=False),
    BrokerRegistrationChangeRecord(
        broker_id=B1, broker_epoch=BrokerEpoch(3), in_controlled_shutdown=True
    ),
    UnregisterBrokerRecord(broker_id=B1, broker_epoch=BrokerEpoch(3)),
    ConfigRecord(topic_id=TOPIC, key="min.insync.replicas", value="1"),
    ConfigRecord(key="min.insync.replicas", value="2"),
    ConfigRecord(topic_id=TOPIC, key="segment.bytes"),
    BrokerConfigRecord(broker_id=B1, key="log.retention.ms", value="1000"),
    BrokerConfigRecord(broker_id=BrokerId(0), key="log.retention.ms"),
    BrokerConfigRecord(key="log.retention.ms", value=""),
    GroupConfigRecord(group_id="g", key="consumer.session.timeout.ms", value="50000"),
    GroupConfigRecord(group_id="g", key="consumer.session.timeout.ms"),
    ProducerIdsRecord(broker_id=B1, broker_epoch=BrokerEpoch(3), next_producer_id=ProducerId(1000)),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_a_record_is_read_back_as_it_was_written(record: AnyRecord) -> None:
    assert decode(encode(record)) == record


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_a_record_is_json_that_names_its_type(record: AnyRecord) -> None:
    assert json.loads(encode(record))["type"] + "Record" == type(record).__name__


def test_a_configuration_entry_of_an_older_log_is_read() -> None:
    written = b'{"type":"Config","topic_id":"AAECAwQFBgcICQoLDA0ODw==","key":"k","value":"v"}'
    assert decode(written) == ConfigRecord(topic_id=TOPIC, key="k", value="v")
    assert decode(b'{"type":"Config","key":"k","value":"v"}') == ConfigRecord(key="k", value="v")


def test_an_alteration_for_broker_zero_is_not_taken_for_one_of_all() -> None:
    read = decode(encode(BrokerConfigRecord(broker_id=BrokerId(0), key="k", value="")))
    assert isinstance(read, BrokerConfigRecord)
    assert (read.broker_id, read.value) == (0, "")


def test_a_change_to_leader_zero_is_not_taken_for_no_change() -> None:
    change = PartitionChangeRecord(topic_id=TOPIC, partition=0, leader=BrokerId(0))
    read = decode(encode(change))
    assert isinstance(read, PartitionChangeRecord)
    assert read.leader == 0


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"not json",
        b'{"type":"Nonsense"}',
        b'{"type":"ControllerEpoch"}',
        b'{"type":"ControllerEpoch","epoch":1,"from_the_future":true}',
    ],
)
def test_a_record_that_this_build_does_not_know_is_an_error(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a controller record"):
        decode(value)


@pytest.mark.parametrize(
    "value",
    [
        b'{"type":"OfTomorrow","epoch":1}',
        b'{"type":"ControllerEpoch","epoch":1,"from_the_future":true}',
        b'{"type":"Config","key":"k","value":["a","list"]}',
    ],
)
def test_a_record_of_a_later_build_is_no_damage(value: bytes) -> None:
    with pytest.raises(LaterRecord):
        decode(value)
    with pytest.raises(ValueError, match="not a controller record") as damaged:
        decode(value[:-1])
    assert not isinstance(damaged.value, LaterRecord)


def test_a_log_of_a_later_level_is_refused_at_the_start_of_its_epoch() -> None:
    epoch = ControllerEpoch(4)
    later = encode(epoch_record(epoch, build="0.9.0+abc", level=LOG_LEVEL + 1))
    with pytest.raises(LaterRecord) as refused:
        decode(later)
    assert str(refused.value) == (
        f"build 0.9.0+abc begins epoch 4 of the log at level {LOG_LEVEL + 1}, and this build knows"
        f" levels up to {LOG_LEVEL}"
    )
    assert decode(encode(epoch_record(epoch, build="b"))) == epoch_record(epoch, build="b")


def test_controllers_of_before_levels_read_a_log_of_level_zero() -> None:
    written = json.loads(encode(epoch_record(ControllerEpoch(4), build="0.1.0+abc", level=0)))
    assert written == {"type": "ControllerEpoch", "epoch": 4}


def test_the_version_of_snapshots_rises_with_the_level_of_the_log() -> None:
    assert metadata_snapshot.VERSION == LOG_LEVEL + 1
