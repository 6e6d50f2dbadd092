"""Partitions' logs with transactions, and what a reader of committed ones should get of them."""

from __future__ import annotations

from hypothesis import strategies as st

from strandline_proto.batch import (
    EndMarkerRecord,
    build_batch,
    build_end_marker,
    prefix,
    read_header,
)
from support.fake_broker_sync import resealed

PRODUCERS = (2, 3, 4)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["data", "plain", "commit", "abort", "unknown"]),
        st.sampled_from(PRODUCERS),
        st.integers(1, 3),
    ),
    max_size=30,
)


class Log:
    """A partition's log, its index of aborted transactions, and what a reader should get."""

    def __init__(self) -> None:
        self.data = b""
        self.end = 0
        self.open: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []
        """(producer id, first offset, offset of the marker)"""
        self.owner: list[tuple[int, int, int | None]] = []
        """(base offset, end, producer of its transaction) of each batch of data"""

    def put(self, batch: bytes) -> None:
        header = read_header(batch)
        self.data += prefix(self.end, header.batch_length, 0) + batch[16:]
        self.end += header.last_offset_delta + 1

    def write(self, producer: int | None, count: int) -> None:
        batch = bytearray(
            build_batch(
                [(None, b"v")] * count,
                timestamp_ms=0,
                producer_id=-1 if producer is None else producer,
            )
        )
        if producer is not None:
            batch[22] |= 0x10
            batch = bytearray(resealed(batch))
            self.open.setdefault(producer, self.end)
        self.owner.append((self.end, self.end + count, producer))
        self.put(bytes(batch))

    def finish(self, producer: int, *, is_commit: bool) -> None:
        first = self.open.pop(producer, None)
        if first is not None and not is_commit:
            self.aborted.append((producer, first, self.end))
        marker = build_end_marker(producer, 1, EndMarkerRecord(is_commit, 0), timestamp_ms=0)
        self.put(marker)

    def unknown_control(self, producer: int) -> None:
        marker = build_end_marker(producer, 1, EndMarkerRecord(True, 0), timestamp_ms=0)
        self.put(resealed(bytearray(marker[:70] + b"\x07" + marker[71:])))

    @property
    def stable_end(self) -> int:
        return min([self.end, *self.open.values()])

    def is_hidden(self, base: int, producer: int | None) -> bool:
        return any(p == producer and first <= base < last for p, first, last in self.aborted)

    def index(self, start: int, end: int) -> list[tuple[int, int]]:
        found = [(p, first) for p, first, last in self.aborted if last >= start and first < end]
        return found[::-1]


def built(plan: list[tuple[str, int, int]]) -> Log:
    log = Log()
    for what, producer, count in plan:
        if what == "data":
            log.write(producer, count)
        elif what == "plain":
            log.write(None, count)
        elif what == "unknown":
            log.unknown_control(producer)
        else:
            log.finish(producer, is_commit=what == "commit")
    return log
