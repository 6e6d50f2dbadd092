"""The filter of aborted transactions against a scan of the whole log, from any offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline._core.aborted_filter import AbortedFilter
from strandline_proto.batch import iter_headers
from support.aborted_logs import STEPS, built


@given(STEPS, st.integers(0, 40), st.integers(0, 40))
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
