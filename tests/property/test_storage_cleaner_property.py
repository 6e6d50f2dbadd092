"""Random compacted logs, cleaned again and again, against a model that keeps every record.

Records keep order and identity (I-68), the last value of each key stays and nothing beyond the
bound is touched (I-69), tombstones stay in their time (I-70), so the state is the same (I-71).
Lookups find what they did (I-78), and producers and log end are as before (I-79).
"""

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_proto.batch import Compression, Record, iter_headers
from support.compaction import COMPACTED, batches_of, clean, put, records_of, state_of
from support.examples import examples
from support.storage import Store

RETENTION_MS = COMPACTED.delete_retention_ms
KEYS = [b"a", b"b", b"c", b"a-longer-key", b"e", b"f", b"g"]

records = st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.binary(max_size=40)))
appends = st.tuples(
    st.lists(records, min_size=1, max_size=8),
    st.sampled_from([-1, 3, 4]),
    st.sampled_from(Compression),
    st.integers(-50, 50),
)
cleanings = st.tuples(
    st.integers(0, 2 * RETENTION_MS),
    st.integers(0, 60),
    # From a map of one key to one that holds them all.
    st.sampled_from([24, 96, 150, 1 << 20]),
)
rounds = st.lists(
    st.tuples(st.lists(appends, min_size=1, max_size=12), cleanings), min_size=1, max_size=4
)


@dataclass
class Model:
    """Everything that was ever appended, and since when each tombstone's time is running."""

    written: dict[int, Record] = field(default_factory=dict)
    covered_ms: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    last_of: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Producer -> base and last offset of its last batch."""
    bound: int = 0
    """Everything below was cleaned."""

    def append(self, store: Store, batch: tuple, number: int) -> None:  # type: ignore[type-arg]
        content, producer, compression, jitter = batch
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        timestamp = 100_000 + 1000 * number + jitter
        base = put(
            store,
            *content,
            timestamp_ms=timestamp,
            compression=compression,
            producer=(producer, sequence),
        )
        for i, (key, value) in enumerate(content):
            self.written[base + i] = Record(base + i, timestamp, key, value)
        if producer >= 0:
            self.sequences[producer] = sequence + len(content)
            self.last_of[producer] = base, base + len(content) - 1

    def on_cleaned(self, bound: int, now_ms: int) -> None:
        self.bound = bound
        for offset, record in self.written.items():
            if offset < bound and record.value is None:
                self.covered_ms.setdefault(offset, now_ms)

    def last_offsets(self) -> dict[bytes | None, int]:
        """Of each key, below the bound."""
        return {r.key: o for o, r in sorted(self.written.items()) if o < self.bound}


def check(store: Store, model: Model, now_ms: int) -> None:
    log = store.log
    found = records_of(log)
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets))
    assert all(record == model.written[record.offset] for record in found)  # I-68
    kept = set(offsets)
    last = model.last_offsets()
    for offset, record in model.written.items():
        if offset >= model.bound:
            assert offset in kept, "above the bound nothing is touched"  # I-69
        elif last[record.key] != offset:
            assert offset not in kept, "a superseded record goes"
        elif record.value is not None:
            assert offset in kept, "the last value of a key stays"
        elif offset not in kept:
            assert now_ms >= model.covered_ms[offset] + RETENTION_MS  # I-70
    assert state_of(found) == state_of([r for _, r in sorted(model.written.items())])  # I-71
    headers = {(h.base_offset, h.last_offset, h.producer_id) for h, _ in batches_of(log)}
    for producer, (base, end) in model.last_of.items():
        assert (base, end, producer) in headers  # I-79


def check_lookups(store: Store) -> None:
    """I-78: from any offset, the batch that holds it or the first after."""
    log = store.log
    headers = [header for header, _ in batches_of(log)]
    for start in range(log.log_end_offset):
        run = log.read(start, max_bytes=1, limit=log.log_end_offset)
        _, first = next(iter_headers(run.records))
        assert first == next(h for h in headers if h.last_offset >= start)


@settings(max_examples=examples(24))
@given(rounds, st.sampled_from([150, 400, 1000]))
def test_a_cleaned_log_says_what_the_whole_one_would(history: list, size: int) -> None:  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory() as directory:
        store = Store(Path(directory) / "data", replace(COMPACTED, segment_bytes=size))
        model, now_ms, number = Model(), 1_000_000, 0
        for batches, (passed_ms, held_back, dedupe_bytes) in history:
            for batch in batches:
                model.append(store, batch, number)
                number += 1
            now_ms += passed_ms
            end = store.log.log_end_offset
            live = {p: last for p, (_, last) in model.last_of.items()}
            while True:
                outcome = clean(
                    store,
                    now_ms=now_ms,
                    bound=end - held_back,
                    live_producers=live,
                    dedupe_bytes=dedupe_bytes,
                )
                model.on_cleaned(outcome.cleaned_to, now_ms)
                check(store, model, now_ms)
                if outcome.is_whole:
                    break
            assert store.log.log_end_offset == end
        check_lookups(store)
        store.checkpoint()
        store.restart()
        assert store.log.log_end_offset == end
        check(store, model, now_ms)
        check_lookups(store)
