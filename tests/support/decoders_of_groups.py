"""Readers of the records of coordinators: of `__consumer_offsets`, a coordinator's and the offline
tools' own, and of `__transaction_state`.

A key and a value go through each as one text: two bytes for the key's length stand before both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.coordination import wire
from strandline_broker.core.coordination.decision import Record
from strandline_broker.core.groups.records import codec
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from strandline_broker.core.transactions import records as transaction_records
from strandline_broker.core.transactions.transaction import (
    Transaction,
    TransactionState,
    TxnPartition,
)
from strandline_broker.offline import group_records
from strandline_broker.offline.control_records import control_record
from strandline_proto import batch
from strandline_proto.ids import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicId
from support.decoders import Decoder

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC: Final = TopicId(bytes(range(16)))


def _joined(key: bytes, value: bytes) -> bytes:
    return len(key).to_bytes(2, "big") + key + value


def _parted(decode: Callable[[bytes, bytes], object]) -> Callable[[bytes], object]:
    def call(data: bytes) -> object:
        length = int.from_bytes(data[:2], "big")
        return decode(data[2 : 2 + length], data[2 + length :])

    return call


GOLDEN: Final = (
    _joined(
        codec.encode_key(OffsetCommitKey("g", "t", 3)),
        codec.encode_value(
            OffsetCommitValue(
                offset=Offset(42),
                leader_epoch=LeaderEpoch(5),
                metadata="m",
                commit_timestamp_ms=1,
                topic_id=TOPIC,
            )
        ),
    ),
    _joined(
        codec.encode_key(ConsumerGroupCurrentMemberAssignmentKey("g", "m1")),
        codec.encode_value(
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=7,
                previous_member_epoch=6,
                state=1,
                assigned=(TopicPartitions(TOPIC, (0,), (4,)),),
                pending_revocation=(TopicPartitions(TOPIC, (1,), None),),
            )
        ),
    ),
)


def _transaction(**fields: Any) -> bytes:
    value = Transaction(
        producer_id=ProducerId(2),
        producer_epoch=ProducerEpoch(1),
        timeout_ms=60_000,
        updated_ms=1,
        **fields,
    )
    key, raw = transaction_records.encode(Record(transaction_records.TransactionKey("tx-a"), value))
    assert raw is not None
    return _joined(key, raw)


TRANSACTIONS: Final = (
    _transaction(),
    _transaction(
        state=TransactionState.COMPLETE_COMMIT,
        previous_producer_id=ProducerId(2),
        version=2,
        last_producer_epoch=ProducerEpoch(0),
    ),
    _transaction(
        state=TransactionState.PREPARE_ABORT,
        partitions=(TxnPartition("t", 0), TxnPartition("t", 3), TxnPartition("u", 1)),
        next_producer_id=ProducerId(7),
        version=2,
    ),
)

DECODERS: Final = (
    Decoder(
        "transaction record",
        TRANSACTIONS,
        _parted(transaction_records.decode),
        (wire.MalformedRecord,),
    ),
    Decoder("group record", GOLDEN, _parted(codec.decode), (wire.MalformedRecord,)),
    Decoder(
        "group record, offline",
        GOLDEN,
        _parted(group_records.decode),
        (group_records.BrokenRecord,),
    ),
    Decoder(
        "control record, offline",
        (_joined(bytes.fromhex("00000001"), bytes.fromhex("000000000005")),),
        _parted(lambda key, value: control_record(batch.Record(0, 0, key, value))),
        (ValueError,),
    ),
)
