"""The filter of aborted transactions against a scan of the whole log, from any offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline._core.aborted_filter import AbortedFilter
from strandline_proto.batch import (
    EndMarkerRecord,
    build_batch,
    build_end_marker,
    iter_headers,
    prefix,
    read_header,
)

PRODUCERS = (2, 3, 4)
steps = st.lists(
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
        self.put(marker[:70] + b"\x07" + marker[71:])

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


@given(steps, st.integers(0, 40), st.integers(0, 40))
def test_a_reader_gets_the_committed_records_of_any_range(
    plan: list[tuple[str, int, int]], start: int, length: int
) -> None:
    log = built(plan)
    limit = min(log.stable_end, start + length)
    run = [
        (at, h)
        for at, h in iter_headers(log.data)
        if h.next_offset > start and h.base_offset < limit
    ]
    wanted = [
        base
        for base, end, producer in log.owner
        if end > start and base < limit and not log.is_hidden(base, producer)
    ]
    end = run[-1][1].next_offset if run else start
    chosen = AbortedFilter(log.index(start, end))
    got = [
        header.base_offset
        for at, header in run
        if not chosen.hides(log.data, at, header) and not header.is_control
    ]
    assert got == wanted
