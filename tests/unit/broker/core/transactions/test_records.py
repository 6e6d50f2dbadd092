"""The records of `__transaction_state`, byte for byte (COORDINATION 4.2 and 4.7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline_broker.core.coordination.decision import Record
from strandline_broker.core.coordination.wire import MalformedRecord
from strandline_broker.core.transactions.records import (
    TransactionKey,
    decode,
    encode,
    encode_value,
)
from strandline_broker.core.transactions.transaction import (
    Transaction,
    TransactionState,
    TxnPartition,
)
from strandline_proto.ids import ProducerEpoch, ProducerId

KEY = bytes.fromhex("0000 000474782d61")
TAU, SIGMA = "0000018bcfe56800", "0000018bcfe56801"
TAU_MS = 0x18BCFE56800
PARTITION = TxnPartition("txn", 0)
PREPARED = Transaction(
    producer_id=ProducerId(2),
    producer_epoch=ProducerEpoch(1),
    timeout_ms=60_000,
    state=TransactionState.PREPARE_COMMIT,
    partitions=(PARTITION,),
    updated_ms=TAU_MS + 1,
    started_ms=TAU_MS,
)
BUMPED = replace(PREPARED, previous_producer_id=ProducerId(2), version=2)
LAST = replace(BUMPED, producer_epoch=ProducerEpoch(32767), next_producer_id=ProducerId(1002))
V0 = f"0000 0000000000000002 0001 0000ea60 02 00000001 000374786e 00000001 00000000 {SIGMA} {TAU}"
V1 = f"0001 0000000000000002 0001 0000ea60 02 02 0474786e 02 00000000 00 {SIGMA} {TAU}"
V1_LAST = V1.replace("02 0001 0000ea60", "02 7fff 0000ea60")
VALUES = {
    "v1": (f"{V1} 00", PREPARED),
    "bump": (f"{V1} 02 00 08 0000000000000002 02 02 0002", BUMPED),
    "last": (f"{V1_LAST} 03 00 08 0000000000000002 01 08 00000000000003ea 02 02 0002", LAST),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_kafkas_bytes_both_ways(name: str) -> None:
    text, value = VALUES[name]
    raw = bytes.fromhex(text)
    assert encode(Record(TransactionKey("tx-a"), value)) == (KEY, raw)
    assert decode(KEY, raw) == Record(TransactionKey("tx-a"), value)


def test_values_of_kafka_3_are_read() -> None:
    assert decode(KEY, bytes.fromhex(V0)) == Record(TransactionKey("tx-a"), PREPARED)


def test_the_last_producer_epoch_has_a_tag_that_kafka_skips() -> None:
    value = replace(BUMPED, last_producer_epoch=ProducerEpoch(0))
    raw = encode_value(value)
    kafkas = bytearray(encode_value(BUMPED))
    at = len(bytes.fromhex(V1))
    kafkas[at] = 3  # one more tag, the last one
    assert raw == kafkas + bytes.fromhex("64 02 0000")
    assert decode(KEY, raw) == Record(TransactionKey("tx-a"), value)


def test_an_empty_id_has_no_partitions_and_a_completed_one_an_empty_list() -> None:
    empty = Transaction(
        producer_id=ProducerId(2), producer_epoch=ProducerEpoch(0), timeout_ms=1, updated_ms=5
    )
    assert encode_value(empty)[17:18] == b"\x00"
    done = replace(empty, state=TransactionState.COMPLETE_ABORT)
    assert encode_value(done)[17:18] == b"\x01"


def test_a_tombstone_removes_and_later_formats_are_not_understood() -> None:
    assert decode(KEY, None) == Record(TransactionKey("tx-a"), None)
    assert decode(b"\x00\x01" + KEY[2:], b"\x00\x00") is None
    assert decode(KEY, b"\x00\x02" + b"anything") is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("ffff", "version -1"),
        (V0[:21], "version 0 in 10 bytes"),
        (V0.replace("0000ea60 02", "0000ea60 06"), "state 6"),
        (f"{V0} 00", "1 bytes stand after"),
        (f"{V1} 01 01 02 0000", "tag 1 has 2 bytes"),
    ],
)
def test_a_value_that_does_not_parse_names_its_id(value: str, message: str) -> None:
    with pytest.raises(MalformedRecord, match=f"'tx-a' does not parse.*{message}"):
        decode(KEY, bytes.fromhex(value))
