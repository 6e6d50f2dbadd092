"""The work of the brokers' cleaners on a compacted partition, judged at the step at which new
segments replace old ones.

Records keep their place (I-68). The last record of each key and unexpired tombstones stay (I-69,
I-70). Answers about epochs are as before (I-76). The last batch of each known producer stays
(I-79).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline_proof.sim.oracles.partition.compacted import CompactedCommitted
from strandline_proof.sim.oracles.partition.compacted_view import CompactedView, Record
from strandline_proof.sim.oracles.replica.epochs import check_answers
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import COMPACTED

if TYPE_CHECKING:
    from collections import Counter

    from strandline_broker.core.controller.log.state import ControllerState
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.storage.log.log import Log
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import Key
    from strandline_proof.sim.oracles.partition.compacted_view import Batch
    from strandline_proof.sim.oracles.replica.log_view import Identity, LogView
    from strandline_proof.sim.oracles.replica.replicas import ReplicaOracle

CLOCK_MS: Final = 1
"""Milliseconds that two looks at a clock within one step may differ, as a step takes a
microsecond.
"""


class _Began(NamedTuple):
    """The state at the beginning of a cleaning."""

    cleaning: Any
    wall_ms: int
    bound: int
    """The offset below which the cleaning may change records."""
    delete_retention_ms: int
    producers: frozenset[int]
    """Producers that the replica knew: their last batches stay."""


class _Seen:
    """One replica in one life of its broker, at the last change of its files."""

    __slots__ = ("began", "leader", "log", "replacements", "view")

    def __init__(self, log: Any, view: CompactedView) -> None:
        self.log = log
        self.view = view
        self.replacements = log.state.replacements
        self.began: _Began | None = None
        self.leader: Any = None


class CompactionOracle:
    def __init__(self, replicas: ReplicaOracle, sometimes: Counter[str]) -> None:
        self.key: Key | None = None
        """The compacted partition, once there is one."""
        self._replicas = replicas
        self._sometimes = sometimes
        self._seen: dict[str, _Seen] = {}
        self._timed: dict[str, set[Identity]] = {}
        """By replica, batches whose tombstones' time has begun there, with a cleaning of its own or
        before its disk was copied.
        """
        self._forgotten: dict[str, dict[int, Batch]] = {}
        """By replica and producer, the last batch of a producer that was forgotten before a
        cleaning took the batch. A start may know that producer again, from an earlier snapshot.
        """

    def on_decided(self, state: ControllerState | None) -> None:
        topic_id = None if state is None else state.topic_ids.get(COMPACTED)
        if topic_id is not None:
            self.key = self._replicas.compacted = (topic_id, 0)

    def on_copied(self, node: str, copy: str) -> None:
        """The disk of `copy` is a copy of that of `node`, with everything that was
        cleaned there.
        """
        timed = self._timed.get(f"{node} {COMPACTED}:0", set())
        self._timed[f"{copy} {COMPACTED}:0"] = set(timed)
        forgotten = self._forgotten.get(f"{node} {COMPACTED}:0", {})
        self._forgotten[f"{copy} {COMPACTED}:0"] = dict(forgotten)

    def ghost(self) -> CompactedCommitted | None:
        """The ghost; None before any broker has a replica."""
        found = None if self.key is None else self._replicas.committed.get(self.key)
        assert found is None or isinstance(found, CompactedCommitted)
        return found

    def check_acknowledged(self, offset: int, key: bytes, value: bytes | None) -> None:
        """I-19: an acknowledged record is the committed one at its offset."""
        ghost = self.ghost()
        if ghost is not None and offset >= 0:
            ghost.check_told("I-19", Record(offset, -1, key, value))

    def _committed_to(self, log: Log) -> int:
        ghost = self.ghost()
        return log.log_end_offset if ghost is None or ghost.excused is not None else ghost.end

    def on_step(self, node: Node, partition: Partition) -> None:
        """Judges a step of the broker on `node`, which has the replica `partition`."""
        log, seen = partition.log, self._seen.get(node.name)
        if seen is None or seen.log is not log:
            seen = self._open(node, partition, seen)
        cleaning = node.process.replicas.upkeep.cleaner._current
        is_ours = cleaning is not None and cleaning.partition is partition
        if is_ours and (seen.began is None or seen.began.cleaning is not cleaning):
            seen.began = _begin(node, partition, cleaning, self._committed_to(log))
        if log.state.replacements != seen.replacements:
            seen.replacements = log.state.replacements
            self._on_replaced(node, partition, seen)
        if partition.leader is not seen.leader:
            seen.leader = partition.leader
            if partition.leader is not None:
                self._compare(seen.view)

    def _open(self, node: Node, partition: Partition, before: _Seen | None) -> _Seen:
        """Opens the log. A start may have finished a cleaning that a crash had cut off (I-73)."""
        view = self._replicas.known(node, partition.key)
        assert isinstance(view, CompactedView)
        seen = self._seen[node.name] = _Seen(partition.log, view)
        if before is not None and self._judge_start(node, before, view):
            self._sometimes["compaction finished at a start"] += 1
        # A lost disk or a removed replica may copy records again: their time restarts.
        where = f"{node.name} {COMPACTED}:0"
        self._timed[where] = self._timed.get(where, set()) & {b.identity for b in view.batches}
        return seen

    def _judge_start(self, node: Node, before: _Seen, after: LogView) -> bool:
        """Returns whether the log after a start lacks records that it had before."""
        assert isinstance(after, CompactedView)
        if before.began is None or not after.entries:
            return False
        there = {batch.identity for batch in after.batches}
        old = [
            batch
            for batch in before.view.batches
            if batch.identity in there or batch.end <= after.batches[-1].end
        ]
        where = f"{node.name} {COMPACTED}:0"
        self._note_forgotten(old, after.batches, before.began, where)
        return self._judge(old, after, after.batches, before.began, where)

    def _on_replaced(self, node: Node, partition: Partition, seen: _Seen) -> None:
        view, where = seen.view, f"{node.name} {partition.name}"
        end = view.end
        old, new = view.refresh()
        if not old or seen.began is None:
            return
        if not new or new[-1].end != old[-1].end or view.end != end:
            raise Violation("I-79", f"{where}: a cleaning has taken the last batch, {old[-1]}")
        if self._judge(old, view, new, seen.began, where):
            self._sometimes["log compacted"] += 1
        self._note_forgotten(old, new, seen.began, where)
        self._check_producers(partition, view, where)
        check_answers(
            partition.log.leader_epochs.entries, view, partition.log.log_start_offset, where
        )

    def _judge(
        self,
        old: list[Batch],
        view: CompactedView,
        new: list[Batch],
        began: _Began,
        where: str,
    ) -> bool:
        """Returns whether records of `old` are missing in `new`, a part of `view`; each missing one
        had to be removable.
        """
        ghost = self.ghost()
        if ghost is None or ghost.excused is not None:
            return False
        left = {batch.identity: batch for batch in new}
        gone = False
        for before in old:
            after = left.get(before.identity)
            if after is before:
                self._check_horizon(before, after, began, where)
                continue
            if not ghost.is_committed(before.identity):
                _check_bound(before, began, where)
                continue
            kept = {record.offset for record in after.records} if after is not None else ()
            for record in before.records:
                if record.offset not in kept:
                    gone = True
                    self._check_removed(ghost, before, record, began, where)
            if after is not None:
                ghost.check_copy(after, where)
                self._check_horizon(before, after, began, where)
        if gone:
            _check_left(ghost, old, view, new, where)
        return gone

    def _check_removed(
        self,
        ghost: CompactedCommitted,
        batch: Batch,
        record: Record,
        began: _Began,
        where: str,
    ) -> None:
        _check_bound(batch, began, where)
        later = ghost.later(record)
        if later is not None and later < began.bound:
            return
        if record.value is not None:
            raise Violation(
                "I-69",
                f"{where}: {record} was removed, the next of its key is {later}, and only what lies"
                f" below {began.bound} could be cleaned",
            )
        if batch.horizon_ms is None or batch.horizon_ms > began.wall_ms + CLOCK_MS:
            raise Violation(
                "I-70",
                f"{where}: the tombstone {record} was removed by a cleaning at {began.wall_ms} ms;"
                f" it was to stay until {batch.horizon_ms}",
            )
        if batch.identity not in self._timed.get(where, ()):
            raise Violation(
                "I-70", f"{where}: the time of the tombstone {record} has not begun on this replica"
            )
        ghost.removed.add(record.offset)
        self._sometimes["tombstone removed"] += 1

    def _check_horizon(self, before: Batch, after: Batch, began: _Began, where: str) -> None:
        """I-70: the time of a tombstone begins with the first cleaning that has covered it here."""
        if after.horizon_ms is None:
            return
        least = began.wall_ms + began.delete_retention_ms - CLOCK_MS
        if after.horizon_ms >= least:
            self._timed.setdefault(where, set()).add(after.identity)
        elif after.horizon_ms != before.horizon_ms:
            raise Violation(
                "I-70",
                f"{where}: the tombstones of {after.identity} may go from {after.horizon_ms} ms on,"
                f" the cleaning that covers them at {began.wall_ms} must leave them until {least}",
            )

    def _note_forgotten(
        self, old: list[Batch], new: list[Batch], began: _Began, where: str
    ) -> None:
        """Notes producers whose last batch has gone from `old`, as the replica had forgotten them
        (I-60).
        """
        forgotten, left = self._forgotten.setdefault(where, {}), {batch.identity for batch in new}
        for batch in old:
            producer_id = batch.producer[0]
            last = forgotten.get(producer_id)
            if last is not None and last.end > batch.end:
                continue
            if producer_id in began.producers or batch.identity in left:
                forgotten.pop(producer_id, None)
            else:
                forgotten[producer_id] = batch

    def _check_producers(self, partition: Partition, view: CompactedView, where: str) -> None:
        """I-79: the last batch of each producer stays, if need be without its records, unless it
        went while the producer was forgotten.
        """
        last = {batch.end - 1: batch for batch in view.batches}
        forgotten = self._forgotten.get(where, {})
        for producer_id, epoch, sequence, offset, *_ in partition.producers.entries():
            if not view.start <= offset < view.end:
                continue
            found = last.get(offset)
            if found is None:
                gone = forgotten.get(producer_id)
                found = gone if gone is not None and gone.end - 1 == offset else None
            if found is None or found.producer != (producer_id, epoch, sequence):
                raise Violation(
                    "I-79",
                    f"{where}: producer {producer_id} ends with sequence {sequence} at offset"
                    f" {offset}, there is {found} after a cleaning",
                )

    def _compare(self, view: CompactedView) -> None:
        """Counts the leaders that begin with a log compacted otherwise than another's."""
        ghost, mine = self.ghost(), {batch.identity: batch for batch in view.batches}
        if ghost is None:
            return
        for other in self._seen.values():
            theirs = [b for b in other.view.batches if ghost.is_committed(b.identity)]
            if any(mine.get(batch.identity) is not batch for batch in theirs):
                self._sometimes["leader changed over logs compacted differently"] += 1
                return

    def on_crash(self, node: Node) -> None:
        """The process of `node` has ended, but not in order."""
        replicas = getattr(node.process, "replicas", None)
        cleaning = None if replicas is None else replicas.upkeep.cleaner._current
        if cleaning is not None and cleaning.partition.key == self.key:
            self._sometimes["cleaning cut off by a crash"] += 1
        seen, ghost = self._seen.get(node.name), self.ghost()
        if seen is not None and ghost is not None and seen.view.has_swap():
            self._sometimes["swap left by a crash"] += 1
            # The next start finishes the cleaning before any client reads the log: its removals are
            # judged here.
            after = ghost.view(node.disk, seen.view.path)
            after.read_valid()
            self._judge_start(node, seen, after)

    def check_end(self, names: list[str]) -> None:
        """I-69, I-71, I-77: checks every replica at the end, when all are level."""
        ghost = self.ghost()
        for name in names:
            view = self._replicas.view(name, self.key) if self.key is not None else None
            if ghost is not None and isinstance(view, CompactedView):
                ghost.check_whole(view, name)


def _check_left(
    ghost: CompactedCommitted, old: list[Batch], view: CompactedView, new: list[Batch], where: str
) -> None:
    """I-71: a tombstone goes only together with the records that it has deleted, or a deleted key
    would be back.
    """
    kept = {record.offset for batch in new for record in batch.records}
    over = {
        record.key: record.offset
        for batch in old
        for record in batch.records
        if record.value is None and record.offset not in kept and ghost.is_last(record)
    }
    for batch in view.batches:
        for record in batch.records:
            if record.offset < over.get(record.key, -1):
                raise Violation(
                    "I-71",
                    f"{where}: the tombstone at offset {over[record.key]} was removed, and {record}"
                    " that it has deleted is still there",
                )


def _check_bound(batch: Batch, began: _Began, where: str) -> None:
    if batch.end > began.bound:
        raise Violation(
            "I-69",
            f"{where}: a cleaning has touched {batch.identity} (offset, epoch), and when it began"
            f" only what lies below {began.bound} was committed, durable and in a sealed segment",
        )


def _begin(node: Node, partition: Partition, cleaning: Any, committed: int) -> _Began:
    assert node.owner is not None
    log = partition.log
    return _Began(
        cleaning,
        int(node.owner.wall(node.loop.now) * 1000),
        min(committed, log.durable_offset, log.segments[-1].base_offset),
        log.config.delete_retention_ms,
        frozenset(producer_id for producer_id, *_ in partition.producers.entries()),
    )
