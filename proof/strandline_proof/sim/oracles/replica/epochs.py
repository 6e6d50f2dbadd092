"""Leader epochs of every log in memory, compared with its batches, and the followers of an epoch.

The checkpoint agrees with the batches (I-5), however the log is truncated (I-47), retained or
compacted (I-76). A follower uses an answer only in the epoch of its request (I-42).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import ControlOracle, Key
    from strandline_proof.sim.oracles.replica.log_view import LogView
    from strandline_proof.sim.oracles.replica.replicas import ReplicaOracle

Epochs = tuple[tuple[int, int], ...]


class _Seen:
    __slots__ = ("end", "entries", "follower", "gone", "is_due", "log", "start")

    def __init__(self, log: Any) -> None:
        self.log = log
        self.end = -1
        self.start = log.log_start_offset
        self.entries: Epochs = ()
        self.gone: Epochs = ()
        """Epochs that a truncation must remove."""
        self.is_due = False
        self.follower: Any = None
        """A follower that has ended its epoch, and was looked at."""


class EpochOracle:
    def __init__(self, control: ControlOracle, replicas: ReplicaOracle) -> None:
        self._control = control
        self._replicas = replicas
        self._seen: dict[Partition, _Seen] = {}

    def on_step(self, node: Node, key: Key, partition: Partition) -> None:
        log = partition.log
        end, seen = log.log_end_offset, self._seen.get(partition)
        if seen is None or seen.log is not log:
            seen = self._seen[partition] = _Seen(log)
        if log.log_start_offset != seen.start:
            seen.is_due = True
        if end != seen.end:
            if end < seen.end:
                seen.gone += tuple(e for e in seen.entries if e[1] >= end)
            seen.end, seen.is_due = end, True
        # A truncation that failed half-way leaves epochs that it had not reached; such a log is not
        # used.
        if seen.is_due and not partition.gate.locked() and log.damaged is None:
            self._check(node, key, partition, seen)
        follower = partition.follower
        if follower is not None and not follower.may_fetch:
            self._check_over(key, partition, f"{node.name} {partition.name}")

    def _check(self, node: Node, key: Key, partition: Partition, seen: _Seen) -> None:
        seen.is_due = False
        where = f"{node.name} {partition.name}"
        entries = partition.log.leader_epochs.entries
        for entry in seen.gone:
            if entry in entries:
                raise Violation(
                    "I-47",
                    f"{where}: epoch {entry[0]}, which began at {entry[1]}, is still known after"
                    f" a truncation to {seen.end} or below",
                )
        start = partition.log.log_start_offset
        shortened = start != seen.start or entries[:1] != seen.entries[:1]
        seen.gone, seen.entries, seen.start = (), entries, start
        view = self._replicas.known(node, key)
        if view is not None and partition.log.damaged is None:
            _check_entries(entries, view, start, partition.log.log_end_offset, where)
            if shortened and start > 0:
                check_answers(entries, view, start, where)

    def _check_over(self, key: Key, partition: Partition, where: str) -> None:
        """I-42: a leader reports an epoch as over only when a newer one has begun, so the newest
        epoch cannot have been reported.
        """
        follower, decided = partition.follower, self._control.partitions.get(key)
        assert follower is not None
        if (
            decided is not None
            and follower.leader == decided.leader
            and follower.leader >= 0
            and follower.leader_epoch == decided.leader_epoch
        ):
            raise Violation(
                "I-42",
                f"{where}: it takes leader epoch {follower.leader_epoch} for over, which is the"
                " newest that the controller has committed",
            )


def check_answers(entries: Epochs, view: LogView, start: int, where: str) -> None:
    """I-76: a log that has lost its beginning gives the same answers about all the rest
    as before.
    """
    for entry in view.entries:
        offset = max(entry.base, start)
        if entry.end <= start:
            continue
        known = next((epoch for epoch, begins in reversed(entries) if begins <= offset), -1)
        if known != entry.epoch:
            raise Violation(
                "I-76",
                f"{where}: offset {offset} is of epoch {entry.epoch}, and since the log begins at"
                f" {start} it is of {known} by the epochs {entries}",
            )


def _check_entries(entries: Epochs, view: LogView, start: int, end: int, where: str) -> None:
    """I-5, for new parts of the log: its last batch, and the order of the entries."""
    for before, after in pairwise(entries):
        if not (before[0] < after[0] and before[1] < after[1]):
            raise Violation("I-5", f"{where}: leader epochs {entries} do not rise")
    if entries and entries[-1][1] > end:
        raise Violation("I-5", f"{where}: epoch {entries[-1]} begins after the log's end {end}")
    last = view.entries[-1] if view.entries else None
    if last is None or last.end != end or end <= start:
        return
    offset = max(last.base, start)
    known = next((epoch for epoch, begins in reversed(entries) if begins <= offset), -1)
    if known != last.epoch:
        raise Violation(
            "I-5",
            f"{where}: offset {offset} is of epoch {last.epoch}, by the epochs {entries} of"
            f" {known}",
        )
