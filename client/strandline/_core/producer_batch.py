"""One batch of a producer: its records between `send` and the acknowledgement.

The bytes are built once, when the batch is first sent, and stay the same in all retries. The leader
therefore recognises a batch that it has (I-55). Only a batch that is certainly in no log may be
renumbered (P-42).
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from aiokafka.record._crecords import DefaultRecordBatchBuilder
from crc32c import crc32c

from strandline_proto.batch import ATTRIBUTES_AT, CRC_AT, MAGIC

_IDENTITY_AT: Final = 43
_IDENTITY: Final = Struct(">qhi")
_CRC: Final = Struct(">I")

NO_SEQUENCE: Final = -1


class ProducerBatch:
    """Records of one partition that are written, acknowledged or refused together."""

    __slots__ = (
        "append",
        "attempt",
        "base_offset",
        "base_sequence",
        "builder",
        "collectors",
        "count",
        "created_ms",
        "data",
        "deadline_ms",
        "last_error",
        "leader_epoch",
        "log_append_time_ms",
        "may_be_written",
        "outstanding",
        "parts",
        "reserved",
        "sent_ms",
        "settled",
        "waiters",
    )

    def __init__(
        self,
        *,
        size_max: int,
        compression: int,
        created_ms: float,
        deadline_ms: float,
        is_transactional: bool = False,
    ) -> None:
        self.builder: DefaultRecordBatchBuilder | None = DefaultRecordBatchBuilder(
            magic=MAGIC,
            compression_type=compression,
            is_transactional=int(is_transactional),
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=NO_SEQUENCE,
            batch_size=size_max,
        )
        self.append = self.builder.append
        self.data = b""
        self.count = 0
        self.reserved = 0
        """Bytes of the producer's buffer that this batch holds until it is settled."""
        self.created_ms = created_ms
        self.deadline_ms = deadline_ms
        self.sent_ms = 0.0
        self.base_sequence = NO_SEQUENCE
        self.attempt = 0
        self.outstanding = False
        """Sent, and no answer yet."""
        self.may_be_written = False
        """Some attempt ended without a certain answer (I-21)."""
        self.settled = False
        self.parts: tuple[ProducerBatch, ...] = ()
        """What took its place when it was too large: it is settled, its records are not."""
        self.last_error: BaseException | None = None
        self.base_offset = -1
        self.leader_epoch = -1
        self.log_append_time_ms = -1
        self.waiters: list[tuple[int, int, Any]] = []
        """(index in the batch, timestamp, whom to tell) for records sent one by one."""
        self.collectors: list[tuple[int, int, Any]] = []
        """(index of the first, number, whom to tell) for records sent by the iterable."""

    def seal(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Builds the bytes; nothing is appended afterwards."""
        assert self.builder is not None
        self.builder.set_producer_state(producer_id, producer_epoch, base_sequence)
        self.data = bytes(self.builder.build())
        self.base_sequence = base_sequence
        self.builder = None
        del self.append

    def renumber(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Gives a batch that no log holds another place in the sequence (KIP-360)."""
        assert not self.may_be_written, "a batch that may be in the log keeps its number"
        assert not self.outstanding, "a batch under way keeps its number"
        data = bytearray(self.data)
        _IDENTITY.pack_into(data, _IDENTITY_AT, producer_id, producer_epoch, base_sequence)
        _CRC.pack_into(data, CRC_AT, crc32c(memoryview(data)[ATTRIBUTES_AT:]))
        self.data = bytes(data)
        self.base_sequence = base_sequence


def sequence_before(a: int, b: int) -> bool:
    """True if sequence `a` comes before `b`, across the wrap after 2^31 - 1."""
    return 0 < (b - a) & 0x7FFFFFFF < 0x40000000
