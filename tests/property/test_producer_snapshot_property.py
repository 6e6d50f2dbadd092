"""Producer state over any course of a log: from snapshot and replay what a full replay gives."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline_broker.storage.log.log import LogConfig
from strandline_proto.batch import iter_headers
from support.disk import FaultyDisk
from support.examples import examples
from support.producer_log import (
    TRANSACTIONAL,
    ProducerLog,
    end_marker,
    idempotent_batch,
    replayed,
    with_attributes,
)
from support.storage import Store, batch_of

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100)


class SnapshotMachine(RuleBasedStateMachine):
    """A leader and its follower, each on a disk that may lose power; cut, stopped, killed."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="strandline-producers-"))
        self.disks: list[FaultyDisk] = []
        self.replicas: list[ProducerLog] = []
        self.epochs: dict[int, int] = {}
        self.leader_epoch = 0

    @initialize()
    def create(self) -> None:
        for name in ("leader", "follower"):
            (self.root / name).mkdir()
            disk = FaultyDisk(self.root / name)
            self.disks.append(disk)
            self.replicas.append(ProducerLog(Store(disk.root, CONFIG, fs=disk)))

    @property
    def leader(self) -> ProducerLog:
        return self.replicas[0]

    @rule(producer=st.integers(4, 5), coordinator=st.integers(0, 2), commit=st.booleans())
    def end_transaction(self, producer: int, coordinator: int, commit: bool) -> None:
        """Of one of the producers 4 and 5, which send in transactions only."""
        epoch = self.epochs.get(producer, 0)
        marker = end_marker(
            producer, producer_epoch=epoch, coordinator_epoch=coordinator, commit=commit
        )
        self.leader.append(marker, epoch=self.leader_epoch)

    @rule(producer=st.integers(0, 5), count=st.integers(1, 3), begin_epoch=st.booleans())
    def produce(self, producer: int, count: int, begin_epoch: bool) -> None:
        state = {e[0]: e for e in self.leader.entries}.get(producer)
        epoch = max(self.epochs.get(producer, 0), 0 if state is None else state[1])
        if begin_epoch:
            epoch += 1
        self.epochs[producer] = epoch
        sequence = state[2] + 1 if state is not None and state[1] == epoch else 0
        batch = idempotent_batch(producer, sequence, *[b"x"] * count, producer_epoch=epoch)
        if producer >= 4:
            batch = with_attributes(batch, TRANSACTIONAL)
        self.leader.append(batch, epoch=self.leader_epoch)

    @rule(size=st.sampled_from([1, 400]))
    def produce_without_an_id(self, size: int) -> None:
        self.leader.append(batch_of(b"y" * size), epoch=self.leader_epoch)

    @rule(max_bytes=st.sampled_from([1, 200, 1 << 20]))
    def fetch(self, max_bytes: int) -> None:
        follower = self.replicas[1]
        if follower.log.log_end_offset < self.leader.log.log_end_offset:
            follower.copy_from(self.leader.log, max_bytes=max_bytes, epoch=self.leader_epoch)

    @rule(which=st.integers(0, 1), checkpointed=st.booleans())
    def flush(self, which: int, checkpointed: bool) -> None:
        self.replicas[which].store.flush()
        if checkpointed:
            self.replicas[which].store.checkpoint()

    @rule(back=st.integers(1, 12))
    def cut_both(self, back: int) -> None:
        """The follower's history parts from what the leader's next one will be."""
        to = max(self.leader.log.log_end_offset - back, 0)
        for replica in self.replicas:
            replica.truncate(to)
            if replica.log.log_end_offset > self.leader.log.log_end_offset:
                replica.truncate(self.leader.log.log_end_offset)
        self.leader_epoch += 1

    @rule(which=st.integers(0, 1))
    def kill(self, which: int) -> None:
        self.disks[which].kill()
        self.replicas[which].store.start()
        self.replicas[which].load()

    @rule(which=st.integers(0, 1))
    def stop(self, which: int) -> None:
        self.replicas[which].stop()

    @precondition(lambda self: self.leader.log.log_end_offset > 0)
    @rule(share=st.sampled_from([0.0, 0.4, 1.0]), which=st.integers(0, 1))
    def lose_power(self, share: float, which: int) -> None:
        def survives(durable: bytes, written: bytes) -> bytes:
            return written[: max(len(durable), int(len(written) * share))]

        self.disks[which].crash(survives)
        self.replicas[which].store.start()
        self.replicas[which].load()
        end = self.leader.log.log_end_offset
        if which == 0 and self.replicas[1].log.log_end_offset > end:
            self.replicas[1].truncate(end)
            self.leader.truncate(self.replicas[1].log.log_end_offset)
        self.leader_epoch += 1

    @invariant()
    def the_state_is_that_of_a_full_replay(self) -> None:
        for replica in self.replicas:
            assert replica.entries == replayed(replica.log).entries(), "I-58"

    @invariant()
    def replicas_at_the_same_end_have_the_same_state(self) -> None:
        if not self.replicas:
            return
        leader, follower = self.replicas
        if leader.log.log_end_offset == follower.log.log_end_offset:
            assert leader.entries == follower.entries, "I-58"

    @invariant()
    def no_snapshot_lies_beyond_the_end(self) -> None:
        for replica in self.replicas:
            found = replica.log.snapshots.offsets()
            assert all(offset <= replica.log.log_end_offset for offset in found)

    @invariant()
    def no_sequence_stands_twice(self) -> None:
        for replica in self.replicas:
            log = replica.log
            run = log.read(0, max_bytes=1 << 20, limit=log.log_end_offset)
            seen = [
                (h.producer_id, h.producer_epoch, h.base_sequence)
                for _, h in iter_headers(run.records)
                if h.producer_id >= 0 and not h.is_control
            ]
            assert len(seen) == len(set(seen)), "I-59"

    def teardown(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


TestSnapshots = SnapshotMachine.TestCase
TestSnapshots.settings = settings(
    max_examples=examples(25),
    stateful_step_count=30,
)
