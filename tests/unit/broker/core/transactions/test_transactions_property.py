"""Random histories of transactional ids, held against rules that are recomputed from the records.

Producers of both versions begin, end, repeat and cross their requests; other processes take their
ids over; markers come one by one, late or twice; transactions time out; coordinators change. The
epochs begin where they end soon.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_broker.core.transactions.commands import (
    PARKED,
    Described,
    DescribeTransaction,
    ExpireIds,
    MarkersDone,
    PartitionsAdded,
    Producer,
)
from strandline_broker.core.transactions.transaction import AT_REST, DATA_EPOCH_MAX, PREPARED
from support.examples import examples
from support.transactions_rig import T0, T1, TransactionsRig

NAMES = ("a", "b")


class History:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.rig = TransactionsRig()
        self.known: dict[str, list[Producer]] = {}
        """What processes have got for an id, the present one last."""
        self.versions: dict[str, int] = {}
        self.data: set[tuple[str, Producer, int]] = set()
        """Id, producer and the number of the transaction that has data of it, in version 2."""
        self.begun = dict.fromkeys(NAMES, 0)
        self.done: list[MarkersDone] = []
        for name in NAMES:
            self.known[name] = [self.rig.at(DATA_EPOCH_MAX - 3, name)]
            self.versions[name] = random.choice((0, 2))

    def step(self) -> None:
        name = self.random.choice(NAMES)
        act = self.random.choice(
            (
                *(self.add, self.add, self.end, self.end, self.init, self.mark, self.mark),
                *(self.time_out, self.fail_over, self.mark_late, self.expire),
            )
        )
        before, were_open = len(self.rig.answered), set(self.rig.transactions.open)
        act(name)
        for begun in self.rig.transactions.open - were_open:
            self.begun[begun] += 1
        for reply in self.rig.answered[before:]:
            self.learn(name, reply)
        self.check()

    def producer(self, name: str) -> Producer:
        """The present one, or an earlier one that does not know."""
        if self.random.random() < 0.8:
            return self.known[name][-1]
        return self.random.choice(self.known[name])

    def learn(self, name: str, reply: Any) -> None:
        if isinstance(reply, Producer):
            if reply in self.known[name]:  # a repeated answer
                self.known[name].remove(reply)
            self.known[name].append(reply)

    def add(self, name: str) -> None:
        producer, version = self.producer(name), self.versions[name]
        was_open = name in self.rig.transactions.open
        partition, waits = self.random.choice((T0, T1)), self.random.random() < 0.5
        reply = self.rig.add(producer, partition, name=name, version=version, waits=waits)
        assert reply is not PARKED or self.rig.of(name).state in PREPARED
        if isinstance(reply, PartitionsAdded):
            assert producer.producer_epoch <= DATA_EPOCH_MAX
            if version == 2:
                self.data.add((name, producer, self.begun[name] + (not was_open)))

    def end(self, name: str) -> None:
        producer, commit = self.producer(name), self.random.random() < 0.6
        is_old = producer != self.known[name][-1]
        for _ in range(self.random.choice((1, 1, 2))):
            length = len(self.rig.log)
            reply = self.rig.end(producer, commit=commit, name=name, version=self.versions[name])
            assert not is_old or len(self.rig.log) == length, "the zombie fence (I-168)"
            if not is_old:
                self.learn(name, reply)

    def init(self, name: str) -> None:
        expected = self.producer(name) if self.random.random() < 0.5 else None
        reply = self.rig.init(name, expected)
        if reply is not PARKED:
            self.learn(name, reply)
        if name not in self.rig.transactions.open and name not in self.rig.transactions.outstanding:
            self.versions[name] = self.random.choice((0, 2))

    def mark(self, name: str) -> None:
        found = self.rig.transactions.outstanding.get(name)
        if found is not None:
            one = self.random.choice(sorted(found.partitions))
            self.done.append(MarkersDone(name, found.prepared_at, (one,)))
            self.rig.run(self.done[-1])

    def mark_late(self, name: str) -> None:
        if self.done:
            self.rig.run(self.random.choice(self.done))

    def time_out(self, name: str) -> None:
        self.rig.wall_ms += self.random.choice((1_000, 61_000))
        for each in self.rig.transactions.timed_out(self.rig.wall_ms):
            self.rig.time_out(each)

    def expire(self, name: str) -> None:
        if self.random.random() < 0.1:
            self.rig.wall_ms += self.rig.settings.id_expiration_ms
            kept = {n for n, t in self.rig.transactions.table.items() if t.state not in AT_REST}
            self.rig.run(ExpireIds(NAMES))
            assert set(self.rig.transactions.table) == kept, "(I-173)"

    def fail_over(self, name: str) -> None:
        self.rig.fail_over()

    def check(self) -> None:
        rig = self.rig
        live = rig.transactions
        for loaded in (rig.load(), rig.load(compacted=True)):
            assert loaded.table == live.table, "the fold of the log (I-102, I-103)"
            assert loaded.open == live.open
            assert loaded.states == live.states
            assert set(loaded.outstanding) == set(live.outstanding), "(I-174)"
        for name, value in live.table.items():
            assert (name in live.outstanding) == (value.state in PREPARED)
            described = rig.run(DescribeTransaction(name))
            assert described == Described(name, value)
        decided = [
            (record.value.producer_id, record.value.producer_epoch)
            for _, record in rig.log
            if record.value is not None
            and record.value.state in PREPARED
            and record.value.version == 2
        ]
        assert len(set(decided)) == len(decided), "one outcome (I-163)"
        transactions: dict[tuple[str, Producer], set[int]] = {}
        for name, producer, number in self.data:
            transactions.setdefault((name, producer), set()).add(number)
        assert all(len(found) == 1 for found in transactions.values()), "(I-166)"


def run(seed: int, steps: int = 60) -> History:
    history = History(Random(seed))
    for _ in range(steps):
        history.step()
    return history


@settings(max_examples=examples(150))
@given(st.integers(0, 2**32 - 1))
def test_every_history_keeps_the_rules(seed: int) -> None:
    run(seed)


def test_histories_reach_what_they_are_for() -> None:
    states: set[str] = set()
    rotated = 0
    for seed in range(40):
        history = run(seed)
        states |= {record.value.state.text for _, record in history.rig.log if record.value}
        rotated += any(epoch > DATA_EPOCH_MAX for *_, epoch, _ in history.rig.markers)
    assert len(states) == 6
    assert rotated >= 3


def digest() -> str:
    """The bytes of some histories."""
    found = hashlib.sha256()
    for seed in range(5):
        history = run(seed)
        for _, record in history.rig.log:
            for part in history.rig.transactions.encode(record):
                found.update(part or b"")
    return found.hexdigest()


def test_the_same_history_has_the_same_bytes_under_any_hash_seed() -> None:
    """I-113."""
    digests = set()
    for seed in ("1", "2"):
        code = "import test_transactions_property as t; print(t.digest())"
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        here = os.path.dirname(__file__)
        result = subprocess.run(
            [sys.executable, "-c", code],
            cwd=here,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(result.stdout)
    assert len(digests) == 1
