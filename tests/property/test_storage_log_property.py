"""A log against a list: appends, reads, cuts, flushes, restarts, losses of power in any order."""

import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline_broker.storage.log.log import LogConfig
from strandline_proto.batch import iter_headers, read_header, read_records
from support.disk import FaultyDisk
from support.examples import examples
from support.storage import Store, batch_of

Model = list[tuple[int, bytes]]
"""(leader epoch, value) of each offset from the log's start."""


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="strandline-log-"))
        (self.root / "data").mkdir()
        self.disk = FaultyDisk(self.root / "data")
        self.start = 0
        self.model: Model = []
        self.durable = 0
        """The model's records below this offset survive anything."""
        self.epoch = 0
        self.batches: list[int] = []
        """Base offsets."""
        self.serial = 0

    @initialize(segment=st.sampled_from([300, 1000, 1 << 30]), interval=st.sampled_from([1, 200]))
    def create(self, segment: int, interval: int) -> None:
        self.store = Store(self.disk.root, LogConfig(segment, interval, 4096), fs=self.disk)

    @property
    def end(self) -> int:
        return self.start + len(self.model)

    @rule(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4), new_epoch=st.booleans())
    def append(self, sizes: list[int], new_epoch: bool) -> None:
        self.epoch += new_epoch
        self.serial += 1
        values = [b"%d-%d" % (self.serial, i) + b"x" * size for i, size in enumerate(sizes)]
        batch = batch_of(*values, timestamp_ms=self.serial)
        done = self.store.log.append_as_leader(batch, read_header(batch), leader_epoch=self.epoch)
        assert (done.base_offset, done.next_offset) == (self.end, self.end + len(values))
        self.batches.append(self.end)
        self.model += [(self.epoch, value) for value in values]

    @rule()
    def take_an_epoch(self) -> None:
        self.epoch += 1
        self.store.log.assign_epoch(self.epoch)

    @rule(data=st.data(), max_bytes=st.sampled_from([1, 150, 400, 1 << 20]))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        start = data.draw(st.integers(self.start, self.end))
        limit = data.draw(st.integers(start, self.end))
        run = self.store.log.read(start, max_bytes=max_bytes, limit=limit)
        inside = [b for b in self.batches if self.after(b) > start and self.after(b) <= limit]
        assert bool(run.records) == bool(inside)
        if inside:
            assert run.base_offset == inside[0]
            assert run.next_offset in [self.after(b) for b in inside]
        offset = run.base_offset
        for at, header in iter_headers(run.records):
            for record in read_records(run.records, at, header):
                assert record.offset == offset
                if offset >= self.start:
                    expected = self.model[offset - self.start]
                    assert (header.leader_epoch, record.value) == expected
                offset += 1

    def after(self, base: int) -> int:
        return next((b for b in self.batches if b > base), self.end)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        target = data.draw(st.integers(self.start, self.end + 1))
        self.store.log.truncate_to(target)
        self.cut(target)

    def cut(self, target: int) -> None:
        if target < self.end:
            target = max(b for b in self.batches if b <= target) if self.batches else target
            self.batches = [b for b in self.batches if b < target]
            # The first batch may reach back over the log's start.
            del self.model[max(target - self.start, 0) :]
        self.durable = min(self.durable, self.end)

    @rule(data=st.data())
    def shorten(self, data: st.DataObject) -> None:
        """Retention, or DeleteRecords."""
        to = data.draw(st.integers(self.start, self.end))
        self.store.shorten(to)
        self.batches = [b for b in self.batches if self.after(b) > to]
        del self.model[: to - self.start]
        self.start = to
        self.durable = max(self.durable, to)

    @rule(offset=st.integers(0, 200))
    def start_again(self, offset: int) -> None:
        self.store.log.truncate_fully_and_start_at(offset)
        self.start, self.model, self.batches = offset, [], []
        self.durable = offset

    @rule()
    def flush(self) -> None:
        self.store.flush()
        self.durable = self.end

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint(self.end)

    @rule()
    def stop_and_start(self) -> None:
        self.store.stop()
        self.store.start()
        self.durable = self.end

    @rule()
    def kill_and_start(self) -> None:
        self.disk.kill()
        self.store.start()
        assert self.store.log.log_end_offset == self.end
        self.durable = self.end

    @precondition(lambda self: self.durable <= self.end)
    @rule(share=st.floats(0, 1))
    def lose_power_and_start(self, share: float) -> None:
        def partly(durable: bytes, written: bytes) -> bytes:
            kept = int(len(written) * share)
            return written[:kept] if kept >= len(durable) else durable

        self.disk.crash(partly)
        self.store.start()
        end = self.store.log.log_end_offset
        assert self.durable <= end <= self.end
        assert end in (self.start, self.end) or end in self.batches
        self.cut(end)
        self.durable = self.end

    @invariant()
    def the_log_is_what_the_model_says(self) -> None:
        if not hasattr(self, "store"):
            return
        log = self.store.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.durable_offset <= log.log_end_offset
        assert log.durable_offset >= self.durable or self.durable == self.start
        headers = list(log.batch_headers(self.start))
        assert [h.base_offset for h in headers] == self.batches
        epochs = log.leader_epochs
        for header in headers:
            assert epochs.epoch_at(max(header.base_offset, self.start)) == header.leader_epoch
        entries = epochs.entries
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries))
        assert all(start <= self.end for _, start in entries)
        self.epoch = max(self.epoch, epochs.latest())
        below = sum(s.size for s in log.segments) - sum(h.size for h in headers)
        assert log.size_bytes - below == sum(h.size for h in headers)
        first = log.segments[0]
        assert below == 0 or first.base_offset < self.start

    def teardown(self) -> None:
        self.disk.kill()
        shutil.rmtree(self.root)


LogMachine.TestCase.settings = settings(
    max_examples=examples(40),
    stateful_step_count=25,
)
TestLogAgainstAList = LogMachine.TestCase
