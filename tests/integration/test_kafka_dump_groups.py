"""Kafka's own dump tool reads the group records that Strandline's codec and storage wrote, and
takes each field for what was meant.
"""

import json
import os
import re
from pathlib import Path

import pytest

from strandline_broker.core.groups.records.classic_records import (
    ClassicMember,
    GroupMetadataKey,
    GroupMetadataValue,
)
from strandline_broker.core.groups.records.codec import (
    GroupKey,
    GroupValue,
    encode_key,
    encode_value,
)
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from strandline_broker.storage.log.log import LogConfig
from strandline_proto.batch import build_batch
from strandline_proto.ids import LeaderEpoch, Offset, TopicId, topic_id_text
from support.kafka_tools import KafkaTools
from support.producer_log import ProducerLog
from support.storage import Store

pytestmark = [pytest.mark.integration, pytest.mark.maven]

NOW_MS = 1_700_000_000_000
TOPIC_ID = TopicId(bytes(range(1, 17)))
ID = topic_id_text(TOPIC_ID)
MEMBER: dict[str, object] = {"groupId": "g", "memberId": "m1"}

WRITTEN: list[tuple[GroupKey, GroupValue | None, dict[str, object], dict[str, object] | None]] = [
    (
        ConsumerGroupMemberMetadataKey("g", "m1"),
        ConsumerGroupMemberMetadataValue(
            instance_id="i",
            client_id="c",
            client_host="/h",
            subscribed_topic_names=("t",),
            rebalance_timeout_ms=300_000,
            server_assignor="uniform",
        ),
        MEMBER,
        {
            "instanceId": "i",
            "rackId": None,
            "clientId": "c",
            "clientHost": "/h",
            "subscribedTopicNames": ["t"],
            "subscribedTopicRegex": "",
            "rebalanceTimeoutMs": 300_000,
            "serverAssignor": "uniform",
            "classicMemberMetadata": None,
        },
    ),
    (
        ConsumerGroupMetadataKey("g"),
        ConsumerGroupMetadataValue(7, -5),
        {"groupId": "g"},
        {"epoch": 7, "metadataHash": -5},
    ),
    (
        ConsumerGroupTargetAssignmentMemberKey("g", "m1"),
        ConsumerGroupTargetAssignmentMemberValue((TopicPartitions(TOPIC_ID, (0, 1)),)),
        MEMBER,
        {"topicPartitions": [{"topicId": ID, "partitions": [0, 1]}]},
    ),
    (
        ConsumerGroupTargetAssignmentMetadataKey("g"),
        ConsumerGroupTargetAssignmentMetadataValue(7, NOW_MS),
        {"groupId": "g"},
        {"assignmentEpoch": 7, "assignmentTimestamp": NOW_MS},
    ),
    (
        ConsumerGroupCurrentMemberAssignmentKey("g", "m1"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=7,
            previous_member_epoch=6,
            state=1,
            assigned=(TopicPartitions(TOPIC_ID, (0,), (4,)),),
            pending_revocation=(TopicPartitions(TOPIC_ID, (1,)),),
        ),
        MEMBER,
        {
            "memberEpoch": 7,
            "previousMemberEpoch": 6,
            "state": 1,
            "assignedPartitions": [{"topicId": ID, "partitions": [0], "assignmentEpochs": [4]}],
            "partitionsPendingRevocation": [{"topicId": ID, "partitions": [1]}],
        },
    ),
    (
        ConsumerGroupRegularExpressionKey("g", "t.*"),
        ConsumerGroupRegularExpressionValue(("t1", "t2"), 9, NOW_MS),
        {"groupId": "g", "regularExpression": "t.*"},
        {"topics": ["t1", "t2"], "version": 9, "timestamp": NOW_MS},
    ),
    (
        OffsetCommitKey("\N{GRINNING FACE}", "t", 3),
        OffsetCommitValue(
            offset=Offset(2**40),
            leader_epoch=LeaderEpoch(5),
            metadata="m\N{LATIN SMALL LETTER E WITH ACUTE}ta",
            commit_timestamp_ms=NOW_MS,
            topic_id=TOPIC_ID,
        ),
        {"group": "\N{GRINNING FACE}", "topic": "t", "partition": 3},
        {
            "offset": 2**40,
            "leaderEpoch": 5,
            "metadata": "m\N{LATIN SMALL LETTER E WITH ACUTE}ta",
            "commitTimestamp": NOW_MS,
            "topicId": ID,
        },
    ),
    (
        OffsetCommitKey("g", "t", 0),
        OffsetCommitValue(
            offset=Offset(1), commit_timestamp_ms=NOW_MS, expire_timestamp_ms=NOW_MS + 1
        ),
        {"group": "g", "topic": "t", "partition": 0},
        {"offset": 1, "metadata": "", "commitTimestamp": NOW_MS, "expireTimestamp": NOW_MS + 1},
    ),
    (
        GroupMetadataKey("old"),
        GroupMetadataValue(
            protocol_type="connect",
            generation=3,
            protocol="sessioned",
            leader="a",
            current_state_timestamp_ms=NOW_MS,
            members=(
                ClassicMember(
                    member_id="a",
                    client_id="c",
                    client_host="/h",
                    rebalance_timeout_ms=1,
                    session_timeout_ms=2,
                    subscription=b"",
                    assignment=b"\x03",
                ),
            ),
        ),
        {"group": "old"},
        {
            "protocolType": "connect",
            "generation": 3,
            "protocol": "sessioned",
            "leader": "a",
            "currentStateTimestamp": NOW_MS,
            "members": [
                {
                    "memberId": "a",
                    "groupInstanceId": None,
                    "clientId": "c",
                    "clientHost": "/h",
                    "rebalanceTimeout": 1,
                    "sessionTimeout": 2,
                    "subscription": "",
                    "assignment": "Aw==",
                }
            ],
        },
    ),
    (OffsetCommitKey("g", "t", 0), None, {"group": "g", "topic": "t", "partition": 0}, None),
    (ConsumerGroupPartitionMetadataKey("g"), None, {"groupId": "g"}, None),
    (ConsumerGroupCurrentMemberAssignmentKey("g", "m1"), None, MEMBER, None),
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> KafkaTools:
    try:
        return KafkaTools.resolve(tmp_path_factory.mktemp("kafka-tools"))
    except (RuntimeError, FileNotFoundError) as why:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Maven cannot fetch Kafka's tools: {str(why).splitlines()[0]}")


def test_kafkas_offsets_decoder_reads_what_we_wrote(kafka: KafkaTools, tmp_path: Path) -> None:
    log = ProducerLog(Store(tmp_path, LogConfig(segment_bytes=1 << 20)))
    pairs = [
        (encode_key(key), None if value is None else encode_value(value))
        for key, value, *_ in WRITTEN
    ]
    log.append(build_batch(pairs[:6], timestamp_ms=NOW_MS), epoch=0)
    log.append(build_batch(pairs[6:], timestamp_ms=NOW_MS), epoch=1)
    log.log.close()
    segment = log.store.log_dir / f"{0:020d}.log"
    dump = kafka.dump([segment], "--offsets-decoder", "--print-data-log")
    told = re.findall(r"key: (\{.*\}) payload: (.*)", dump.output)
    assert len(told) == len(WRITTEN), dump.output
    for (raw_key, raw_value), (key, _, key_said, value_said) in zip(told, WRITTEN, strict=True):
        assert json.loads(raw_key)["data"] == key_said, key
        if value_said is None:
            assert raw_value == "<DELETE>", key
        else:
            assert json.loads(raw_value)["data"] == value_said, key
