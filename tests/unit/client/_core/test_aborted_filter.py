"""The filter of aborted transactions: where an entry begins, and where it ends."""

from __future__ import annotations

from strandline._core.aborted_filter import AbortedFilter
from strandline_proto.batch import iter_headers
from support.aborted_logs import Log


def test_a_producer_is_read_again_after_its_abort_marker() -> None:
    log = Log()
    log.write(2, 1)
    log.finish(2, is_commit=False)
    log.write(2, 2)
    log.write(3, 1)
    log.finish(2, is_commit=True)
    log.finish(3, is_commit=False)
    log.write(2, 1)
    chosen = AbortedFilter(log.index(0, log.end))
    hidden = [h.base_offset for at, h in iter_headers(log.data) if chosen.hides(log.data, at, h)]
    assert hidden == [0, 4]


def test_a_batch_before_the_first_offset_is_read() -> None:
    log = Log()
    log.write(2, 3)
    log.finish(2, is_commit=True)
    log.write(2, 1)
    log.finish(2, is_commit=False)
    chosen = AbortedFilter(log.index(0, log.end))
    hidden = [h.base_offset for at, h in iter_headers(log.data) if chosen.hides(log.data, at, h)]
    assert hidden == [4]
