"""The check of acknowledged records names what is missing or different."""

from __future__ import annotations

import pytest

from strandline.testing.ledger import SHOWN_MAX, Ledger, RecordsLost
from strandline.types import ConsumerRecord, OffsetRange, RecordMetadata, SendManyResult


def acknowledged(offset: int, partition: int = 0) -> RecordMetadata:
    return RecordMetadata("t", partition, offset, 0, 0)


def read(offset: int, value: bytes | None = b"v", key: bytes | None = None) -> ConsumerRecord:
    return ConsumerRecord("t", 0, offset, 0, key, value, (), 0)


def test_records_that_the_log_has_are_counted() -> None:
    ledger = Ledger()
    ledger.note(acknowledged(0), None, b"v")
    ledger.note(acknowledged(2), b"k", bytearray(b"w"))
    assert ledger.check(lambda _: [read(0), read(1, b"of another"), read(2, b"w", b"k")]) == 2


def test_a_missing_record_is_named() -> None:
    ledger = Ledger()
    ledger.note(acknowledged(0), None, b"v")
    ledger.note(acknowledged(1), None, b"v")
    with pytest.raises(RecordsLost, match=r"^1 of 2 acknowledged records are lost: t:0 offset 1"):
        ledger.check(lambda _: [read(0)])


@pytest.mark.parametrize(
    "found", [read(0, b"other"), read(0, b"v", b"k"), read(0, None), read(0, b"")]
)
def test_a_record_with_another_key_or_value_is_lost(found: ConsumerRecord) -> None:
    ledger = Ledger()
    ledger.note(acknowledged(0), None, b"v")
    with pytest.raises(RecordsLost, match="t:0 offset 0 is"):
        ledger.check(lambda _: [found])


def test_an_empty_value_is_not_a_tombstone() -> None:
    ledger = Ledger()
    ledger.note(acknowledged(0), None, None)
    with pytest.raises(RecordsLost):
        ledger.check(lambda _: [read(0, b"")])
    assert ledger.check(lambda _: [read(0, None)]) == 1


def test_a_buffer_that_changes_after_its_acknowledgement_counts_as_it_was() -> None:
    ledger, value = Ledger(), bytearray(b"v")
    ledger.note(acknowledged(0), None, value)
    value[:] = b"w"
    assert ledger.check(lambda _: [read(0)]) == 1


@pytest.mark.parametrize("value", ["text", 5, object(), {"n": 1}])
def test_a_value_that_a_serializer_has_changed_counts_by_its_offset(value: object) -> None:
    ledger = Ledger()
    ledger.note(acknowledged(0), None, value)
    assert ledger.check(lambda _: [read(0, b"anything")]) == 1
    with pytest.raises(RecordsLost, match="t:0 offset 0 is missing"):
        ledger.check(lambda _: [])


def test_a_record_without_an_offset_has_no_promise() -> None:
    ledger = Ledger()
    ledger.note(acknowledged(-1), None, b"v")
    assert ledger.check(lambda _: []) == 0


def test_ranges_of_send_many_count_by_their_offsets() -> None:
    ledger = Ledger()
    ranges = (OffsetRange("t", 0, 0, 3, 3, 0), OffsetRange("t", 0, -1, -1, 2, 0))
    ledger.note_many(SendManyResult(5, 5, 0, 0, ranges))
    assert ledger.check(lambda _: [read(0), read(1), read(2)]) == 3
    with pytest.raises(RecordsLost, match=r"1 of 3 .*t:0 offset 2 is missing"):
        ledger.check(lambda _: [read(0), read(1)])


def test_a_long_list_of_losses_is_cut_and_counted() -> None:
    ledger = Ledger()
    for offset in range(SHOWN_MAX + 3):
        ledger.note(acknowledged(offset), None, b"v")
    with pytest.raises(RecordsLost, match=r"offset 4 is missing; 3 more$"):
        ledger.check(lambda _: [])


def test_a_new_test_begins_with_an_empty_ledger() -> None:
    ledger = Ledger()
    ledger.note(acknowledged(0), None, b"v")
    assert ledger.acknowledged == 1
    ledger.clear()
    assert ledger.check(lambda _: []) == 0
