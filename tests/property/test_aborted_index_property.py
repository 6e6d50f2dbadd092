"""The index of aborted transactions is what a scan of the whole log gives, whatever happens."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_proto.batch import iter_headers
from support.aborted_scan import indexed, on_disk, scan
from support.examples import examples
from support.producer_log import ProducerLog, end_marker, idempotent_batch, transactional_batch
from support.storage import LARGE, Store

PRODUCERS = st.integers(1, 4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("data"), PRODUCERS),
        st.tuples(st.just("commit"), PRODUCERS),
        st.tuples(st.just("abort"), PRODUCERS),
        st.tuples(st.just("plain"), st.just(9)),
        st.tuples(st.just("roll"), st.just(0)),
        st.tuples(st.just("flush"), st.just(0)),
        st.tuples(st.just("truncate"), st.integers(0, 12)),
        st.tuples(st.just("kill"), st.just(0)),
        st.tuples(st.just("stop"), st.just(0)),
    ),
    max_size=30,
)


class History:
    def __init__(self, path: Path) -> None:
        self.p = ProducerLog(Store(path, LARGE))

    def step(self, what: str, number: int) -> None:
        p, log = self.p, self.p.log
        if what == "data":
            p.append(transactional_batch(number, b"a", b"b"))
        elif what in ("commit", "abort"):
            p.append(end_marker(number, commit=what == "commit"))
        elif what == "plain":
            p.append(idempotent_batch(number, 0, b"p"))
        elif what == "roll" and log.segments[-1].size > 0:
            log.roll()
        elif what == "flush":
            p.store.flush()
            p.store.checkpoint(log.log_end_offset)
        elif what == "truncate":
            p.truncate(max(log.log_end_offset - number, 0))
        elif what == "kill":
            p.kill()
        elif what == "stop":
            p.stop()

    def check(self) -> None:
        log = self.p.log
        expected = scan(log)
        assert indexed(log) == expected
        assert len(on_disk(log)) == 34 * len(expected)
        for start in range(log.log_start_offset, log.log_end_offset, 2):
            read = log.read(start, max_bytes=200, limit=log.log_end_offset, committed=True)
            assert set(read.aborted) == {
                e for e in expected if e[2] >= start and e[1] < read.next_offset
            }
        last = [h.last_offset for _, h in iter_headers(read.records)] if log.log_end_offset else []
        assert not last or last[-1] < log.log_end_offset


@settings(max_examples=examples(100))
@given(STEPS)
def test_the_index_equals_a_scan(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder))
        for what, number in steps:
            history.step(what, number)
        history.check()
        follower = ProducerLog(Store(Path(folder) / "follower", LARGE))
        while follower.log.log_end_offset < history.p.log.log_end_offset:
            follower.copy_from(history.p.log, max_bytes=300)
        assert indexed(follower.log) == indexed(history.p.log)
