"""Each record of `__consumer_offsets` in the bytes of Kafka 4.3's own classes: group `g`, topic `t`
with the id 01 to 10, member `m1`, at 1,700,000,000,000 ms.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.coordination.wire import MalformedRecord
from strandline_broker.core.groups.records.classic_records import (
    ClassicMember,
    GroupMetadataKey,
    GroupMetadataValue,
)
from strandline_broker.core.groups.records.codec import (
    GroupKey,
    GroupRecord,
    GroupValue,
    Unknown,
    decode,
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
from strandline_proto.ids import LeaderEpoch, Offset, TopicId

NOW_MS = 1_700_000_000_000
NOW = "0000018bcfe56800"
TOPIC_ID = TopicId(bytes(range(1, 17)))
ID = TOPIC_ID.hex()
COMMIT_KEY = "0001 000167 000174 00000003"

COMMIT = OffsetCommitValue(
    offset=Offset(42), leader_epoch=LeaderEpoch(5), metadata="m", commit_timestamp_ms=NOW_MS
)
OLD_COMMIT = replace(COMMIT, leader_epoch=LeaderEpoch(-1))
EXPIRING_COMMIT = replace(OLD_COMMIT, expire_timestamp_ms=NOW_MS + 600_000)
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=1,
    protocol="range",
    leader="a",
    current_state_timestamp_ms=NOW_MS,
    members=(
        ClassicMember(
            member_id="a",
            group_instance_id="i",
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=300_000,
            session_timeout_ms=45_000,
            subscription=b"\x01\x02",
            assignment=b"\x03",
        ),
    ),
)
MEMBER = ConsumerGroupMemberMetadataValue(
    client_id="c", client_host="/h", subscribed_topic_names=("t",), rebalance_timeout_ms=300_000
)
CLASSIC_MEMBER = replace(
    MEMBER,
    instance_id="i",
    rack_id="r",
    server_assignor="uniform",
    classic_member_metadata=bytes.fromhex("01 0000afc8 02 0672616e6765 03 0102 00 00"),
)
TARGET = ConsumerGroupTargetAssignmentMemberValue((TopicPartitions(TOPIC_ID, (0, 1)),))
CURRENT = ConsumerGroupCurrentMemberAssignmentValue(
    member_epoch=7,
    previous_member_epoch=6,
    state=1,
    assigned=(TopicPartitions(TOPIC_ID, (0,), (4,)),),
    pending_revocation=(TopicPartitions(TOPIC_ID, (1,)),),
)
EXPRESSION = ConsumerGroupRegularExpressionValue(("t1",), 9, NOW_MS)

KEYS: list[tuple[str, GroupKey]] = [
    (COMMIT_KEY, OffsetCommitKey("g", "t", 3)),
    ("0002 000167", GroupMetadataKey("g")),
    ("0003 000167", ConsumerGroupMetadataKey("g")),
    ("0004 000167", ConsumerGroupPartitionMetadataKey("g")),
    ("0005 000167 00026d31", ConsumerGroupMemberMetadataKey("g", "m1")),
    ("0006 000167", ConsumerGroupTargetAssignmentMetadataKey("g")),
    ("0007 000167 00026d31", ConsumerGroupTargetAssignmentMemberKey("g", "m1")),
    ("0008 000167 00026d31", ConsumerGroupCurrentMemberAssignmentKey("g", "m1")),
    ("0010 000167 0003742e2a", ConsumerGroupRegularExpressionKey("g", "t.*")),
]
WRITTEN: list[tuple[str, str, GroupValue]] = [
    (COMMIT_KEY, f"0001 000000000000002a 00016d {NOW} 0000018bcfee8fc0", EXPIRING_COMMIT),
    (COMMIT_KEY, f"0004 000000000000002a 00000005 026d {NOW} 00", COMMIT),
    (
        COMMIT_KEY,
        f"0004 000000000000002a 00000005 026d {NOW} 01 00 10 {ID}",
        replace(COMMIT, topic_id=TOPIC_ID),
    ),
    (
        "0002 000167",
        f"0003 0008636f6e73756d6572 00000001 000572616e6765 000161 {NOW} 00000001 000161 000169"
        " 000163 00022f68 000493e0 0000afc8 00000002 0102 00000001 03",
        GROUP,
    ),
    ("0003 000167", "0000 00000007 00", ConsumerGroupMetadataValue(7)),
    (
        "0003 000167",
        "0000 00000007 01 00 08 1122334455667788",
        ConsumerGroupMetadataValue(7, 0x1122334455667788),
    ),
    (
        "0005 000167 00026d31",
        "0000 00 00 0263 032f68 02 0274 01 000493e0 00 00",
        replace(MEMBER, classic_member_metadata=b""),
    ),
    ("0005 000167 00026d31", "0000 00 00 0263 032f68 02 0274 01 000493e0 00 01 00 01 00", MEMBER),
    (
        "0005 000167 00026d31",
        "0000 0269 0272 0263 032f68 02 0274 01 000493e0 08756e69666f726d"
        " 01 00 11 01 0000afc8 02 0672616e6765 03 0102 00 00",
        CLASSIC_MEMBER,
    ),
    ("0006 000167", "0000 00000007 00", ConsumerGroupTargetAssignmentMetadataValue(7)),
    (
        "0006 000167",
        f"0000 00000007 01 00 08 {NOW}",
        ConsumerGroupTargetAssignmentMetadataValue(7, NOW_MS),
    ),
    ("0007 000167 00026d31", f"0000 02 {ID} 03 00000000 00000001 00 00", TARGET),
    (
        "0008 000167 00026d31",
        f"0000 00000007 00000006 01 02 {ID} 02 00000000 01 00 05 02 00000004"
        f" 02 {ID} 02 00000001 00 00",
        CURRENT,
    ),
    ("0010 000167 0003742e2a", f"0000 02 037431 0000000000000009 {NOW} 00", EXPRESSION),
]
READ: list[tuple[str, str, GroupValue]] = [
    ("0000 000167 000174 00000003", f"0000 000000000000002a 00016d {NOW}", OLD_COMMIT),
    (COMMIT_KEY, f"0001 000000000000002a 00016d {NOW} ffffffffffffffff", OLD_COMMIT),
    (COMMIT_KEY, f"0002 000000000000002a 00016d {NOW}", OLD_COMMIT),
    (COMMIT_KEY, f"0003 000000000000002a 00000005 00016d {NOW}", COMMIT),
    (
        "0002 000167",
        "0000 0008636f6e73756d6572 00000001 000572616e6765 000161 00000001 000161"
        " 000163 00022f68 0000afc8 00000002 0102 00000001 03",
        replace(
            GROUP,
            current_state_timestamp_ms=None,
            members=(
                replace(GROUP.members[0], group_instance_id=None, rebalance_timeout_ms=45_000),
            ),
        ),
    ),
    (
        "0002 000167",
        f"0002 0008636f6e73756d6572 00000001 ffff ffff {NOW} 00000001 000161"
        " 000163 00022f68 000493e0 0000afc8 00000002 0102 00000001 03",
        replace(
            GROUP,
            protocol=None,
            leader=None,
            members=(replace(GROUP.members[0], group_instance_id=None),),
        ),
    ),
    (
        "0002 000167",
        f"0004 09636f6e73756d6572 00000001 0672616e6765 0261 {NOW} 02 0261 0269 0263 032f68"
        " 000493e0 0000afc8 03 0102 02 03 00 00",
        GROUP,
    ),
    ("0003 000167", "0000 00000007 01 05 02 abcd", ConsumerGroupMetadataValue(7)),
]
SAMPLES = [(bytes.fromhex(key), bytes.fromhex(value)) for key, value, _ in [*WRITTEN, *READ]]


@pytest.mark.parametrize(("data", "key"), KEYS)
def test_a_key_is_written_and_read_as_kafka_has_it(data: str, key: GroupKey) -> None:
    assert encode_key(key) == bytes.fromhex(data)
    assert decode(bytes.fromhex(data), None) == GroupRecord(key, None)


@pytest.mark.parametrize(("key", "data", "value"), WRITTEN)
def test_a_value_is_written_and_read_as_kafka_has_it(
    key: str, data: str, value: GroupValue
) -> None:
    assert encode_value(value) == bytes.fromhex(data)
    found = decode(bytes.fromhex(key), bytes.fromhex(data))
    assert isinstance(found, GroupRecord)
    assert found.value == value


@pytest.mark.parametrize(("key", "data", "value"), READ)
def test_a_version_that_is_not_written_any_more_is_read(
    key: str, data: str, value: GroupValue
) -> None:
    found = decode(bytes.fromhex(key), bytes.fromhex(data))
    assert isinstance(found, GroupRecord)
    assert found.value == value
    assert encode_value(value)[:2] != bytes.fromhex(data)[:2] or "05 02 abcd" in data


def test_the_first_type_of_offset_commits_is_taken_for_the_present_one() -> None:
    found = decode(bytes.fromhex("0000 000167 000174 00000003"), None)
    assert found == GroupRecord(OffsetCommitKey("g", "t", 3), None)


@pytest.mark.parametrize("record_type", [9, 10, 15, 17, 19, 23, 99])
def test_a_type_of_other_groups_or_of_later_is_kept_as_it_is(record_type: int) -> None:
    key = record_type.to_bytes(2, "big") + b"anything"
    assert decode(key, None) == Unknown(record_type, -1, key, None)
    assert decode(key, b"\x00\x02more") == Unknown(record_type, 2, key, b"\x00\x02more")


@pytest.mark.parametrize(
    ("key", "version"), [(COMMIT_KEY, 5), ("0002 000167", 5), ("0008 000167 00026d31", 1)]
)
def test_a_newer_version_of_a_known_type_is_kept_as_it_is(key: str, version: int) -> None:
    value = version.to_bytes(2, "big") + b"\xff"
    found = decode(bytes.fromhex(key), value)
    assert found == Unknown(bytes.fromhex(key)[1], version, bytes.fromhex(key), value)


def test_what_kafka_kept_of_topics_before_4_1_is_kept_as_it_is() -> None:
    key = bytes.fromhex("0004 000167")
    value = bytes.fromhex(f"0000 02 {ID} 0274 00000002 01 00 00")
    assert decode(key, value) == Unknown(4, 0, key, value)


@pytest.mark.parametrize(("key", "value"), SAMPLES)
def test_a_record_that_is_cut_or_goes_on_is_malformed(key: bytes, value: bytes) -> None:
    for size in range(len(value)):
        with pytest.raises(MalformedRecord, match=f"of type {key[1]}"):
            decode(key, value[:size])
    with pytest.raises(MalformedRecord, match="1 bytes stand after the last field"):
        decode(key, value + b"\x00")
    for size in range(2, len(key)):
        with pytest.raises(MalformedRecord, match=f"of type {key[1]}"):
            decode(key[:size], value)
    with pytest.raises(MalformedRecord, match="1 bytes stand after the last field"):
        decode(key + b"\x00", value)


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("", None, "2 bytes are due at byte 0, 0 are left"),
        ("0003 ffff", None, "the string before byte 4 is null"),
        ("0003 fffe", None, "the length at byte 2 is -2"),
        ("0003 0001ff", None, "the string at byte 4 is not UTF-8"),
        (COMMIT_KEY, f"ffff 000000000000002a 00016d {NOW}", "version -1"),
        (COMMIT_KEY, f"0003 000000000000002a 00000005 ffff {NOW}", "is null"),
        (COMMIT_KEY, f"0004 000000000000002a 00000005 026d {NOW} 01 00 02 0102", "16 bytes"),
        ("0007 000167 00026d31", "0000 ffffffff7f 00", "is not of 32 bits"),
        ("0007 000167 00026d31", "0000 ffffffff0f 00", "more than bytes"),
        ("0007 000167 00026d31", "0000 00 00", "the array before byte 3 is null"),
        ("0003 000167", f"0000 00000007 02 05 00 00 08 {NOW}", "tag 0 at byte 9 follows tag 5"),
        ("0003 000167", "0000 00000007 01 00 04 00000001", "8 bytes are due"),
        ("0002 000167", "0003 0001 63 00000001 ffff ffff 0000000000000000 ffffffff", "is null"),
    ],
)
def test_what_does_not_parse_says_where(key: str, value: str | None, what: str) -> None:
    with pytest.raises(MalformedRecord, match=what):
        decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


@given(st.integers(0, 20), st.integers(0, 5), st.binary(max_size=80))
def test_no_bytes_bring_anything_but_a_record_or_that_it_is_malformed(
    record_type: int, version: int, rest: bytes
) -> None:
    key = record_type.to_bytes(2, "big") + bytes.fromhex("000167 000174 00000003")
    for candidate in (key, key[:5], key[:8]):
        try:
            decode(candidate, version.to_bytes(2, "big") + rest)
        except MalformedRecord:
            continue


@given(
    st.text(st.characters(codec="utf-8")),
    st.text(st.characters(codec="utf-8"), max_size=300),
    st.integers(-(2**63), 2**63 - 1),
    st.one_of(st.none(), st.binary(min_size=16, max_size=16).filter(any)),
)
def test_a_commit_comes_back_as_it_was(
    group: str, metadata: str, offset: int, topic_id: bytes | None
) -> None:
    key = OffsetCommitKey(group, "t", 0)
    value = OffsetCommitValue(
        offset=Offset(offset),
        metadata=metadata,
        commit_timestamp_ms=NOW_MS,
        topic_id=None if topic_id is None else TopicId(topic_id),
    )
    assert decode(encode_key(key), encode_value(value)) == GroupRecord(key, value)
