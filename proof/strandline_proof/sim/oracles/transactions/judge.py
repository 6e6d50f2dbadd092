"""The last judgement of a run's transactions, when nothing is written any more.

- A transaction is whole: all its records are committed, or none; an acknowledged commit has all of
  them, each at its acknowledged offset (I-163, I-154).
- One producer epoch has the data of one transaction, where each has its own (I-166).
- Nothing of a producer is written, or decided, after its successor was told its epoch (I-168).
- Each committed record was copied once, with the group's offsets (I-175).
- Readers were given exactly what the log says, from the first offset to their last (I-154).
- The aborted index of each replica equals a scan of its log (I-153).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.internal_topics import TRANSACTION_STATE
from strandline_proof.sim.disk.inode import Inode
from strandline_proof.sim.oracles.transactions.decided import PREPARED, decision_of
from strandline_proof.sim.oracles.transactions.watch import DATA_TOPICS
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.transactions import COPIES, LEDGER
from strandline_proof.sim.transactions.ledger import ABORTED, COMMITTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.transactions.scan import Batch, Scan
    from strandline_proof.sim.oracles.transactions.watch import TransactionOracle
    from strandline_proof.sim.transactions.ledger import Attempt, Fence, Life, Place


class Judge:
    def __init__(self, world: World, oracle: TransactionOracle) -> None:
        self._world = world
        self._oracle = oracle

    def _scans(self, topics: tuple[str, ...]) -> Iterator[tuple[Place, Scan]]:
        for place, key in self._oracle.places(topics):
            scan = self._oracle.scan(place, key)
            if scan is None:
                raise Violation("I-88", f"no replica has all of {place}")
            yield place, scan

    def uncopied(self) -> str:
        """The committed records that were not copied yet; empty if all were."""
        wanted, copies = self._copied()
        missing = sorted(wanted - {of for of, _ in copies})
        return (
            f"{len(missing)} records are not copied, the first is {missing[0]}" if missing else ""
        )

    def _copied(self) -> tuple[set[tuple[int, int]], list[tuple[tuple[int, int], int]]]:
        """(partition, offset) of each committed record, and of each committed copy with its own
        offset.
        """
        wanted, copies = set(), list[tuple[tuple[int, int], int]]()
        for (topic, index), scan in self._scans(DATA_TOPICS):
            for offset, value in _committed(scan):
                if topic == LEDGER:
                    wanted.add((index, offset))
                else:
                    _, _, of, at = value.decode().split()
                    copies.append(((int(of), int(at)), offset))
        return wanted, copies

    def check(self) -> None:
        if not self._oracle.is_judged():
            return
        self._check_attempts()
        transactions = self._world.topology.transactions
        if transactions is not None and transactions.copiers > 0:
            self._check_copies()
        for place, scan in self._scans((*DATA_TOPICS, TRANSACTION_STATE)):
            for fence in self._world.ledger.fences:
                _check_fence(place, scan, fence)
        scans = dict(self._scans(DATA_TOPICS))
        for life in self._world.ledger.lives:
            for place, given in life.given.items():
                _check_given(place, scans[place], life, given)
        for place, key in self._oracle.places():
            for name, scan in self._oracle.scans(place, key):
                _check_index(f"{name} {place[0]}-{place[1]}", scan)

    def _check_attempts(self) -> None:
        attempts = self._world.ledger.attempts
        found: dict[int, dict[bytes, tuple[Place, int, bool]]] = {}
        epochs: dict[tuple[int, int], int] = {}
        for place, scan in self._scans(DATA_TOPICS):
            for batch in scan.batches:
                is_committed = batch.marker is None and scan.is_committed(batch)
                for offset, _, value in batch.records if batch.marker is None else ():
                    assert value is not None
                    attempt = attempts[int(value.split()[0])]
                    known = found.setdefault(attempt.number, {})
                    if value in known:
                        raise _broken(attempt, f"{value!r} is at {known[value]}, {place} {offset}")
                    known[value] = place, offset, is_committed
                    self._check_epoch(attempt, batch, epochs)
        for attempt in attempts:
            _check_attempt(attempt, found.get(attempt.number, {}))

    def _check_epoch(
        self, attempt: Attempt, batch: Batch, epochs: dict[tuple[int, int], int]
    ) -> None:
        if not attempt.producer.raises_epoch:
            return
        whose = epochs.setdefault((batch.producer_id, batch.epoch), attempt.number)
        if whose != attempt.number:
            raise Violation(
                "I-166",
                f"producer {batch.producer_id}, epoch {batch.epoch} wrote in transactions {whose}"
                f" and {attempt.number}",
            )

    def _check_copies(self) -> None:
        wanted, copies = self._copied()
        places: dict[tuple[int, int], int] = {}
        for of, at in copies:
            if of in places:
                raise Violation(
                    "I-175",
                    f"the record at offset {of[1]} of partition {of[0]} was copied twice, to"
                    f" {places[of]} and {at} of {COPIES}",
                )
            places[of] = at
        if not places.keys() <= wanted:
            raise Violation("I-175", f"{min(places.keys() - wanted)} was copied, and is no record")
        missing = wanted - places.keys()
        if missing:
            raise Violation("I-175", f"{min(missing)} and {len(missing) - 1} others are not copied")


def _broken(attempt: Attempt, what: str, rule: str = "I-154") -> Violation:
    return Violation(
        rule,
        f"transaction {attempt.number} of {attempt.transactional_id} ({attempt.producer},"
        f" {attempt.outcome}): {what}",
    )


def _check_attempt(attempt: Attempt, found: dict[bytes, tuple[Place, int, bool]]) -> None:
    committed = [value for value, (_, _, is_committed) in found.items() if is_committed]
    if committed and len(committed) < len(found):
        torn = next(value for value in found if value not in committed)
        raise _broken(attempt, f"{committed[0]!r} is committed, and {torn!r} is not")
    if committed and attempt.outcome == ABORTED:
        raise _broken(attempt, f"{committed[0]!r} is committed")
    if not committed and found and attempt.outcome == COMMITTED:
        raise _broken(attempt, f"{next(iter(found))!r} is not committed")
    for value, place in attempt.sent.items():
        at = attempt.acknowledged.get(value)
        if value in found:
            if found[value][0] != place or at not in (None, -1, found[value][1]):
                raise _broken(attempt, f"{value!r} was to be at {place} {at}, is at {found[value]}")
        elif committed or attempt.outcome == COMMITTED:
            raise _broken(attempt, f"{value!r} is missing, acknowledged at {at}")


def _check_fence(place: Place, scan: Scan, fence: Fence) -> None:
    end, producer = fence.ends.get(place, 0), fence.producer
    for batch in scan.batches:
        if batch.base < end:
            continue
        is_old = batch.producer_id == producer.producer_id and batch.epoch < producer.epoch
        if is_old and batch.marker is None:
            raise Violation(
                "I-168",
                f"{place} has data of epoch {batch.epoch} of producer {batch.producer_id} at offset"
                f" {batch.base}, and epoch {producer.epoch} was answered when it ended at {end}",
            )
        for _, key, value in batch.records if place[0] == TRANSACTION_STATE else ():
            decision = decision_of(key or b"", value)
            if (
                decision is not None
                and decision.producer_id == producer.producer_id
                and decision.epoch < producer.epoch
                and PREPARED.get(decision.state, False)
            ):
                raise Violation("I-168", f"{decision} at {batch.base}, after {producer} at {end}")


def _committed(scan: Scan) -> Iterator[tuple[int, bytes]]:
    for batch in scan.batches:
        if batch.marker is None and scan.is_committed(batch):
            yield from ((offset, value or b"") for offset, _, value in batch.records)


def _check_given(place: Place, scan: Scan, life: Life, given: list[tuple[int, bytes]]) -> None:
    """A reader from the first offset on was given all that is committed, up to its last record."""
    if life.is_committed:
        wanted = list(_committed(scan))
    else:
        data = (batch for batch in scan.batches if batch.marker is None)
        wanted = [(at, value or b"") for batch in data for at, _, value in batch.records]
    if not life.is_whole:
        wanted = [each for each in wanted if each[0] <= given[-1][0]]
    if wanted == given:
        return
    missing = [each for each in wanted if each not in given]
    more = [each for each in given if each not in wanted]
    raise Violation(
        "I-154",
        f"{place}: a reader ({'of committed records' if life.is_committed else 'of all'}) was not"
        f" given {missing[:3]}, and given {more[:3]} besides, of {len(wanted)}",
    )


def _check_index(where: str, scan: Scan) -> None:
    directory = scan.view.directory()
    assert directory is not None, where
    found = b""
    for name in sorted(directory.entries):
        node = directory.entries[name]
        if name.endswith(".txnindex") and isinstance(node, Inode):
            found += bytes(node.as_written())
    if found != b"".join(scan.aborted):
        raise Violation(
            "I-153",
            f"{where}: the aborted index has {len(found)} bytes {found[:68].hex()}, by the log"
            f" there are {len(scan.aborted)} entries {b''.join(scan.aborted)[:68].hex()}",
        )
