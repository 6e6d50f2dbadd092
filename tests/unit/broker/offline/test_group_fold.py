"""What is left of a partition of `__consumer_offsets` once its records are put together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from strandline_broker.offline.group_fold import (
    EndMarker,
    Folded,
    FoldedGroup,
    Logged,
    TransactionalRecord,
    fold,
)
from strandline_broker.offline.group_records import BrokenRecord
from strandline_proto.ids import Offset


def pair(key: GroupKey, value: GroupValue | None) -> tuple[bytes, bytes | None]:
    return encode_key(key), None if value is None else encode_value(value)


def commit(partition: int, offset: int | None) -> tuple[bytes, bytes | None]:
    value = None
    if offset is not None:
        value = OffsetCommitValue(offset=Offset(offset), commit_timestamp_ms=0)
    return pair(OffsetCommitKey("g", "t", partition), value)


A_MEMBER = [
    pair(ConsumerGroupMemberMetadataKey("g", "m"), ConsumerGroupMemberMetadataValue(client_id="c")),
    pair(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(2)),
    pair(
        ConsumerGroupTargetAssignmentMemberKey("g", "m"), ConsumerGroupTargetAssignmentMemberValue()
    ),
    pair(
        ConsumerGroupTargetAssignmentMetadataKey("g"),
        ConsumerGroupTargetAssignmentMetadataValue(2, 5),
    ),
    pair(
        ConsumerGroupCurrentMemberAssignmentKey("g", "m"),
        ConsumerGroupCurrentMemberAssignmentValue(member_epoch=2, previous_member_epoch=1, state=0),
    ),
    pair(
        ConsumerGroupRegularExpressionKey("g", "t.*"),
        ConsumerGroupRegularExpressionValue(("t",), 1, 2),
    ),
]


def test_the_last_commit_of_a_partition_counts_and_a_tombstone_ends_it() -> None:
    folded = fold([commit(0, 5), commit(1, 6), commit(0, 4), commit(1, None), commit(2, None)])
    assert {at: value["offset"] for at, value in folded.offsets["g"].items()} == {("t", 0): 4}
    assert folded.groups == {}


def test_a_group_is_put_together_from_all_its_keys() -> None:
    group = fold(A_MEMBER).groups["g"]
    assert group.epoch == {"epoch": 2}
    assert group.target_epoch == {"assignment_epoch": 2, "assignment_timestamp": 5}
    assert group.members["m"]["client_id"] == "c"
    assert group.target == {"m": {"topics": []}}
    assert group.current["m"]["member_epoch"] == 2
    assert group.expressions["t.*"]["topics"] == ["t"]
    assert group.classic is None


def test_tombstones_of_all_its_keys_leave_nothing() -> None:
    assert fold([*A_MEMBER, *((key, None) for key, _ in A_MEMBER)]) == Folded()


@given(st.permutations(A_MEMBER), st.sets(st.integers(0, 5)))
def test_any_subset_in_any_order_is_folded(
    records: list[tuple[bytes, bytes | None]], gone: set[int]
) -> None:
    left = [record for at, record in enumerate(records) if at not in gone]
    whole, part = fold(records).groups["g"], fold(left).groups.get("g", FoldedGroup())
    for name in ("members", "target", "current", "expressions"):
        assert getattr(part, name).items() <= getattr(whole, name).items()


def test_what_is_not_known_is_counted_and_skipped() -> None:
    records: list[tuple[bytes | None, bytes | None]] = [
        commit(0, 1),
        (b"\x00\x0fshare", b"\x00\x00"),
        (b"\x00\x17", None),
        (commit(0, 1)[0], b"\x00\x05newer"),
    ]
    folded = fold(records)
    assert folded.unknown == 3
    assert folded.offsets["g"]["t", 0]["offset"] == 1


@pytest.mark.parametrize(
    "record", [(None, b"\x00\x00"), (b"\x00\x03\x00\x01g", b"\x00\x00"), (b"\x00", None)]
)
def test_a_broken_record_ends_the_fold(record: tuple[bytes | None, bytes | None]) -> None:
    with pytest.raises(BrokenRecord):
        fold([record])


def staged(partition: int, offset: int | None, producer_id: int = 1) -> TransactionalRecord:
    return TransactionalRecord(*commit(partition, offset), producer_id)


def offsets(folded: Folded) -> dict[tuple[str, int], int]:
    return {at: value["offset"] for at, value in folded.offsets.get("g", {}).items()}


def test_an_offset_of_a_transaction_counts_from_its_commit_on() -> None:
    log: list[Logged] = [commit(0, 1), staged(0, 5), staged(1, 6), staged(1, 7, producer_id=2)]
    folded = fold(log)
    assert offsets(folded) == {("t", 0): 1}
    pending = {
        at: [value["offset"] for value in values] for at, values in folded.pending["g"].items()
    }
    assert pending == {("t", 0): [5], ("t", 1): [6, 7]}
    assert offsets(fold([*log, EndMarker(1, True)])) == {("t", 0): 5, ("t", 1): 6}
    ended = [EndMarker(2, True), EndMarker(1, True)]
    assert offsets(fold([*log, *ended])) == {("t", 0): 5, ("t", 1): 7}
    assert fold([*log, *ended]).pending == {}
    aborted = fold([*log, EndMarker(1, False), EndMarker(2, False)])
    assert (offsets(aborted), aborted.pending) == ({("t", 0): 1}, {})


def test_a_record_above_a_staged_one_wins_over_it() -> None:
    assert offsets(fold([staged(0, 5), commit(0, 1), EndMarker(1, True)])) == {("t", 0): 1}
    assert offsets(fold([commit(0, 1), staged(0, 5), EndMarker(1, True)])) == {("t", 0): 5}


def test_a_tombstone_ends_a_staged_offset() -> None:
    folded = fold([staged(0, 5), commit(0, None), EndMarker(1, True)])
    assert (offsets(folded), folded.pending) == ({}, {})
