"""The decoder of the offline tools against the coordinator's codec, and on its own."""

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.coordination.wire import MalformedRecord
from strandline_broker.core.groups.records import codec
from strandline_broker.core.groups.records.classic_records import (
    ClassicMember,
    GroupMetadataKey,
    GroupMetadataValue,
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
from strandline_broker.offline.group_records import BrokenRecord, decode
from strandline_proto.ids import LeaderEpoch, Offset, TopicId, topic_id_text

TEXT = st.text(st.characters(codec="utf-8"), max_size=200)
MAYBE_TEXT = st.none() | TEXT
BYTES = st.binary(max_size=200)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
IDS = st.binary(min_size=16, max_size=16).filter(any).map(TopicId)
INDEXES = st.lists(I32, max_size=4).map(tuple)


@st.composite
def topic_partitions(draw: st.DrawFn) -> tuple[TopicPartitions, ...]:
    epochs = st.none() | st.lists(I32, min_size=1, max_size=4).map(tuple)
    return tuple(
        TopicPartitions(draw(IDS), draw(INDEXES), draw(epochs))
        for _ in range(draw(st.integers(0, 3)))
    )


VALUES = st.one_of(
    st.builds(
        OffsetCommitValue,
        offset=I64.map(Offset),
        leader_epoch=I32.map(LeaderEpoch),
        metadata=TEXT,
        commit_timestamp_ms=I64,
        topic_id=st.none() | IDS,
    ),
    st.builds(
        OffsetCommitValue,
        offset=I64.map(Offset),
        metadata=TEXT,
        commit_timestamp_ms=I64,
        expire_timestamp_ms=st.integers(0, 2**63 - 1),
    ),
    st.builds(
        GroupMetadataValue,
        protocol_type=TEXT,
        generation=I32,
        protocol=MAYBE_TEXT,
        leader=MAYBE_TEXT,
        current_state_timestamp_ms=st.integers(0, 2**63 - 1),
        members=st.lists(
            st.builds(
                ClassicMember,
                member_id=TEXT,
                group_instance_id=MAYBE_TEXT,
                client_id=TEXT,
                client_host=TEXT,
                rebalance_timeout_ms=st.integers(0, 2**31 - 1),
                session_timeout_ms=I32,
                subscription=BYTES,
                assignment=BYTES,
            ),
            max_size=3,
        ).map(tuple),
    ),
    st.builds(ConsumerGroupMetadataValue, I32, I64),
    st.builds(
        ConsumerGroupMemberMetadataValue,
        instance_id=MAYBE_TEXT,
        rack_id=MAYBE_TEXT,
        client_id=TEXT,
        client_host=TEXT,
        subscribed_topic_names=st.lists(TEXT, max_size=3).map(tuple),
        subscribed_topic_regex=MAYBE_TEXT,
        rebalance_timeout_ms=I32,
        server_assignor=MAYBE_TEXT,
        classic_member_metadata=st.none()
        | st.binary(max_size=300).filter(lambda raw: raw != b"\0"),
    ),
    st.builds(ConsumerGroupTargetAssignmentMetadataValue, I32, I64),
    st.builds(ConsumerGroupTargetAssignmentMemberValue, topic_partitions()),
    st.builds(
        ConsumerGroupCurrentMemberAssignmentValue,
        member_epoch=I32,
        previous_member_epoch=I32,
        state=st.integers(-128, 127),
        assigned=topic_partitions(),
        pending_revocation=topic_partitions(),
    ),
    st.builds(ConsumerGroupRegularExpressionValue, st.lists(TEXT, max_size=3).map(tuple), I64, I64),
)
KEYS: dict[type, codec.GroupKey] = {
    OffsetCommitValue: OffsetCommitKey("g", "t", 3),
    GroupMetadataValue: GroupMetadataKey("g"),
    ConsumerGroupMetadataValue: ConsumerGroupMetadataKey("g"),
    ConsumerGroupMemberMetadataValue: ConsumerGroupMemberMetadataKey("g", "m"),
    ConsumerGroupTargetAssignmentMetadataValue: ConsumerGroupTargetAssignmentMetadataKey("g"),
    ConsumerGroupTargetAssignmentMemberValue: ConsumerGroupTargetAssignmentMemberKey("g", "m"),
    ConsumerGroupCurrentMemberAssignmentValue: ConsumerGroupCurrentMemberAssignmentKey("g", "m"),
    ConsumerGroupRegularExpressionValue: ConsumerGroupRegularExpressionKey("g", "t.*"),
}


def plain(value: object) -> object:
    """As the offline decoder has it: lists, hex, topic ids as text; nothing where nothing is."""
    match value:
        case dict():
            renamed = {name.removesuffix("_ms"): plain(each) for name, each in value.items()}
            return {
                name: topic_id_text(value["topic_id"]) if name == "topic_id" else each
                for name, each in renamed.items()
                if each is not None and each != 0
            }
        case list() | tuple():
            return [plain(each) for each in value]
        case bytes():
            return value.hex()
    return value


def present(value: object) -> object:
    """Without fields that are null or 0, which one side may leave out."""
    match value:
        case dict():
            return {k: present(v) for k, v in value.items() if v is not None and v != 0}
        case list():
            return [present(each) for each in value]
    return value


@given(VALUES)
def test_both_decoders_say_the_same_of_every_record(value: codec.GroupValue) -> None:
    key = KEYS[type(value)]
    raw = codec.encode_value(value)
    found = decode(codec.encode_key(key), raw)
    assert found.key == asdict(key)
    expected = asdict(value)
    if isinstance(value, OffsetCommitValue) and value.expire_timestamp_ms is not None:
        del expected["leader_epoch"]  # a value with an expiry has no room for it
    if expected.get("classic_member_metadata") == b"":
        del expected["classic_member_metadata"]  # the field is not there
    assert present(found.value) == plain(expected)
    again = codec.decode(codec.encode_key(key), raw)
    assert again == codec.GroupRecord(key, value)


@given(st.integers(0, 20), st.none() | st.integers(0, 5), st.binary(max_size=60))
def test_both_decoders_take_and_refuse_the_same_bytes(
    record_type: int, version: int | None, rest: bytes
) -> None:
    key = record_type.to_bytes(2, "big") + bytes.fromhex("000167 000174 00000003")
    value = None if version is None else version.to_bytes(2, "big") + rest
    for candidate in (key, key[:5], key[:8]):
        try:
            theirs: object = codec.decode(candidate, value)
        except MalformedRecord:
            with pytest.raises(BrokenRecord):
                decode(candidate, value)
            continue
        ours = decode(candidate, value)
        is_unknown = ours.kind.startswith("type ") or "hex" in (ours.value or ())
        assert isinstance(theirs, codec.Unknown) == is_unknown


def test_a_tombstone_has_no_value() -> None:
    for key in (*KEYS.values(), ConsumerGroupPartitionMetadataKey("g")):
        found = decode(codec.encode_key(key), None)
        assert (found.key, found.value) == (asdict(key), None)


def test_what_is_not_known_is_told_by_number_and_bytes() -> None:
    found = decode(bytes.fromhex("0063 ff"), b"\x00\x01x")
    assert (found.kind, found.key, found.value) == ("type 99", {"hex": "0063ff"}, {"hex": "000178"})
    newer = decode(bytes.fromhex("0003 000167"), bytes.fromhex("0001 ff"))
    assert (newer.kind, newer.value) == ("group_epoch", {"version": 1, "hex": "0001ff"})
