"""The transactions of a run, judged by the logs after each step, and by what clients are told.

- The last stable offset is the one that the log says (I-152).
- Markers follow a committed decision, and a completion follows its committed markers (I-164).
- The markers of one producer epoch are of one kind, where each transaction has its own (I-163).
- An acknowledged commit is decided, and its decision is committed (I-164).
- A reader of committed records is given them below the last stable offset, each after its marker
  (I-154).

Where committed records of one of these topics may be missing (I-54), nothing is judged any more.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from strandline_broker.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from strandline_proof.sim.oracles.transactions.decided import (
    COMPLETE,
    PREPARED,
    SETTLED,
    Decision,
    decision_of,
)
from strandline_proof.sim.oracles.transactions.scan import Batch, Parsed, Scan
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.transactions import COPIES, LEDGER

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.controller.control import ControlOracle, Key
    from strandline_proof.sim.oracles.replica.log_view import Entry
    from strandline_proof.sim.oracles.replica.replicas import ReplicaOracle
    from strandline_proof.sim.transactions.ledger import Attempt, Place

DATA_TOPICS: Final = (LEDGER, COPIES)
TOPICS: Final = (*DATA_TOPICS, CONSUMER_OFFSETS, TRANSACTION_STATE)
Outcome = tuple[int, int, bool]
"""Producer id, epoch of the markers, and True for a commit."""
Written = list[tuple["Key", "Entry"]]


class TransactionOracle:
    def __init__(
        self,
        world: World,
        control: ControlOracle,
        replicas: ReplicaOracle,
        sometimes: Counter[str],
    ) -> None:
        self.is_on = world.topology.transactions is not None
        self.on_decision: Callable[[], None] = lambda: None
        """Called when a coordinator appends."""
        self._world = world
        self._control = control
        self._replicas = replicas
        self._some = sometimes
        self._parsed: defaultdict[Place, Parsed] = defaultdict(Parsed)
        self._scans: dict[tuple[str, Place], Scan] = {}
        self._seen: defaultdict[Place, set[tuple[int, int]]] = defaultdict(set)
        self._prepared: defaultdict[Outcome, Written] = defaultdict(list)
        self._markers: defaultdict[tuple[Place, Outcome], Written] = defaultdict(list)
        self._kinds: dict[tuple[int, int], bool] = {}
        self._due: list[Callable[[], None]] = []
        """What is judged once the present step is over."""
        if self.is_on:
            ledger = world.ledger
            ledger.log_ends, ledger.on_commit = self.log_ends, self._on_commit
            ledger.on_given = self._on_given

    # What is judged, and by what

    def places(self, topics: tuple[str, ...] = TOPICS) -> Iterator[tuple[Place, Key]]:
        for topic in topics:
            for key in self._control.keys_of(topic):
                yield (topic, key[1]), key

    def is_judged(self) -> bool:
        """True if no committed record of these topics may be missing."""
        for _, key in self.places():
            ghost = self._replicas.ghost(key)
            if ghost.permitted or ghost.excused or ghost.lost or ghost.given_up:
                return False
        return True

    def log_ends(self) -> dict[Place, int]:
        """The greatest log end of any replica, by partition."""
        return {
            place: max(self._replicas.ends(key).values(), default=0) for place, key in self.places()
        }

    def _is_committed(self, written: Written) -> bool:
        return any(self._replicas.ghost(key).has_committed(entry) for key, entry in written)

    def scan(self, place: Place, key: Key) -> Scan | None:
        """A replica that has everything that is committed; None if there is none at the moment."""
        ghost = self._replicas.ghost(key)
        last = ghost.last
        for node in self._world.brokers:
            found = self._scans.get((node.name, place))
            if found is None or found.view is not self._replicas.known(node, key):
                continue
            found.update()
            if last is None or found.holds(last):
                return found
        return None

    def scans(self, place: Place, key: Key) -> Iterator[tuple[str, Scan]]:
        """All replicas that running brokers hold; one may have been moved away since its scan."""
        for node in self._world.brokers:
            found = self._scans.get((node.name, place))
            if found is None or key not in node.process.replicas.partitions:
                continue
            if found.view is self._replicas.known(node, key):
                found.update()
                yield node.name, found

    # After each step

    def on_look(self, node: Node, key: Key, partition: Partition) -> None:
        topic = partition.log.topic
        if not self.is_on or topic not in TOPICS:
            return
        view = self._replicas.known(node, key)
        if view is None:
            return
        place, where = (topic, key[1]), f"{node.name} {partition.name}"
        scan = self._scans.get((node.name, place))
        if scan is None or scan.view is not view:
            scan = self._scans[node.name, place] = Scan(view, self._parsed[place], where)
        for entry, batch in scan.update():
            if entry.identity not in self._seen[place]:
                self._seen[place].add(entry.identity)
                self._on_new(place, key, entry, batch, scan)
        self._check_stable(partition, scan, where)

    def on_step(self) -> None:
        due, self._due = self._due, []
        if due and self.is_judged():
            for judge in due:
                judge()

    def _check_stable(self, partition: Partition, scan: Scan, where: str) -> None:
        log, mark = partition.log, partition.high_watermark
        if log.producers is None or log.damaged is not None or log.replay_lacks:
            return
        if partition.gate.locked() or log.log_end_offset != scan.view.end:
            return
        told, stable = partition.last_stable_offset, scan.stable_to(mark)
        if told != max(stable, log.log_start_offset):
            raise Violation(
                "I-152",
                f"{where}: the last stable offset is {told}, by the log it is {stable} of a high"
                f" watermark of {mark}",
            )
        if stable < mark:
            self._some["last stable offset below the high watermark"] += 1

    def _on_new(self, place: Place, key: Key, entry: Entry, batch: Batch, scan: Scan) -> None:
        if place[0] == TRANSACTION_STATE:
            self.on_decision()
            for _, record_key, value in batch.records:
                decision = decision_of(record_key or b"", value)
                if decision is not None:
                    self._on_decision(decision, key, entry, scan)
        elif batch.marker is not None:
            outcome = batch.producer_id, batch.epoch, batch.marker[0]
            self._markers[place, outcome].append((key, entry))
            self._due.append(lambda: self._check_marker(place, batch, outcome))

    def _check_marker(self, place: Place, batch: Batch, outcome: Outcome) -> None:
        where = f"{place[0]}-{place[1]}, the marker at offset {batch.base}"
        kind = self._kinds.setdefault(outcome[:2], outcome[2])
        if kind != outcome[2] and not self._keeps_epoch(batch.producer_id):
            raise Violation("I-163", f"{where}: {outcome} has another outcome elsewhere")
        if not self._is_committed(self._prepared[outcome]):
            raise Violation("I-164", f"{where}: nothing that is committed has decided {outcome}")
        self._some["marker written"] += 1

    def _keeps_epoch(self, producer_id: int) -> bool:
        """True if the producer's transactions share an epoch (TV1)."""
        fences = self._world.ledger.fences
        return any(
            each.producer.producer_id == producer_id and not each.producer.raises_epoch
            for each in fences
        )

    def _on_decision(self, decision: Decision, key: Key, entry: Entry, scan: Scan) -> None:
        state = decision.state
        if state in PREPARED:
            outcome = decision.producer_id, decision.epoch, PREPARED[state]
            self._prepared[outcome].append((key, entry))
            self._some["transaction decided"] += 1
        elif state in COMPLETE:
            prepared = _prepared_before(scan, decision.transactional_id, entry.base)
            if prepared is not None:
                self._due.append(lambda: self._check_complete(prepared))

    def _check_complete(self, prepared: Decision) -> None:
        outcome = prepared.producer_id, prepared.epoch, PREPARED[prepared.state]
        for place in prepared.partitions:
            if not self._is_committed(self._markers[place, outcome]):
                raise Violation(
                    "I-164",
                    f"the transaction of {prepared.transactional_id} is complete, and {place} has"
                    f" no committed marker of {outcome}",
                )
        self._some["transaction complete"] += 1

    # What clients are told

    def _on_commit(self, attempt: Attempt) -> None:
        producer = attempt.producer
        epoch = producer.epoch + 1 if producer.raises_epoch else producer.epoch
        outcome = producer.producer_id, epoch, True
        if attempt.sent and self.is_judged() and not self._is_committed(self._prepared[outcome]):
            self._world.loop.fail(
                Violation(
                    "I-164",
                    f"{attempt.transactional_id} was told that transaction {attempt.number} is"
                    f" committed, and nothing that is committed has decided {outcome}",
                )
            )

    def _on_given(self, place: Place, offset: int, value: bytes) -> None:
        key = next((key for found, key in self.places(DATA_TOPICS) if found == place), None)
        if key is None or not self.is_judged():
            return
        scan, mark = self.scan(place, key), self._replicas.ghost(key).end
        if scan is None:
            return
        stable, batch = scan.stable_to(mark), scan.batch_at(offset)
        if offset >= stable or batch is None or not scan.is_committed(batch):
            self._world.loop.fail(
                Violation(
                    "I-154",
                    f"{place[0]}-{place[1]}: a reader of committed records was given {value!r} at"
                    f" offset {offset}; the last stable offset is {stable}, and the record is of"
                    f" {batch and scan.transaction_of(batch)}",
                )
            )

    # Requirements at the end

    def unsettled(self) -> str:
        """The transaction that is not over; empty if there is none."""
        for place, key in self.places():
            scan = self.scan(place, key)
            if scan is None:
                return f"no replica has all of {place}"
            if scan.open:
                return f"{place} has open transactions, {scan.open[0]} and others"
            if place[0] == TRANSACTION_STATE:
                for decision in latest(scan).values():
                    if decision.state not in SETTLED:
                        return f"{decision} is the last word"
            for node in self._world.brokers:
                partition = node.process.replicas.partitions.get(key)
                if partition is not None and partition.last_stable_offset < scan.view.end:
                    at = partition.last_stable_offset
                    return f"{node.name}: {place} is stable up to {at} of {scan.view.end}"
        return ""


def _prepared_before(scan: Scan, transactional_id: str, base: int) -> Decision | None:
    for batch in reversed(scan.batches):
        for _, key, value in reversed(batch.records if batch.base <= base else ()):
            decision = decision_of(key or b"", value)
            if decision is None or decision.transactional_id != transactional_id:
                continue
            if decision.state in PREPARED:
                return decision
            if decision.state not in COMPLETE or batch.base < base:
                return None
    return None


def latest(scan: Scan) -> dict[str, Decision]:
    """The last record of each transactional id."""
    found = {}
    for batch in scan.batches:
        for _, key, value in batch.records:
            decision = decision_of(key or b"", value)
            if decision is not None:
                found[decision.transactional_id] = decision
    return found
