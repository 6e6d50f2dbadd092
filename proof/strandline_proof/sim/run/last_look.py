"""The last look at all replicas of all partitions, when writing is over: they are level and equal,
and each loss is reported.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.oracles.partition.losses import check_reported
from strandline_proof.sim.oracles.replica.audit import audit
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.replica.log_view import Entry
    from strandline_proof.sim.oracles.watch import Oracles

LOOK_S: Final = 0.1
HEARD_S: Final = 3.0
"""Time within which the controller learns of losses: ten heartbeats."""
LAST_SEQUENCE: Final = 2
LAST_OFFSET: Final = 3
"""Position of the last offset of the last batch in a producer's entry."""


class LastLook:
    def __init__(self, world: World, oracles: Oracles) -> None:
        self._world = world
        self._oracles = oracles
        self._epochs: dict[int, dict[int, set[int]]] = {}
        """The epochs under which each producer wrote, by partition of the topic."""

    def unlevel(self) -> str:
        for key, key_ends in self._ends().items():
            index, marks = key[1], self._watermarks(key)
            if len(set(key_ends.values()) | set(marks)) > 1:
                return f"partition {index}: log ends {key_ends}, high watermarks {marks}"
        return ""

    def _ends(self) -> dict[tuple[bytes, int], dict[str, int]]:
        """The log end of each replica of each partition that must be whole by then."""
        found = {}
        for key, decided in self._oracles.control.partitions.items():
            if not self._oracles.replicas.ghost(key).given_up:
                names = {f"broker-{member}" for member in decided.replicas}
                ends = self._oracles.replicas.ends(key)
                found[key] = {name: end for name, end in ends.items() if name in names}
        return found

    def _watermarks(self, key: tuple[bytes, int]) -> list[int]:
        return [
            partition.high_watermark
            for node in self._world.brokers
            for known, partition in node.process.replicas.partitions.items()
            if known == key
        ]

    def check_equal_logs(self) -> None:
        for key, ends in self._ends().items():
            if not ends:
                raise Violation("I-88", f"partition {key[1]}: no broker has a replica of it")
            begins = self._common_begin(key, list(ends))
            views = {name: self._oracles.replicas.view(name, key) for name in ends}
            logs = {
                name: [(e.identity, e.crc) for e in view.entries if e.end > begins]
                for name, view in views.items()
            }
            first, *others = logs
            if self._oracles.control.is_main(key):
                self._count_batches(views[first].entries)
            if key == self._oracles.compaction.key:
                self._oracles.compaction.check_end(list(ends))
                others = []
            for other in others:
                if logs[other] != logs[first]:
                    raise Violation("I-4", f"partition {key[1]}: {first} and {other} differ")
            self._check_equal_producers(key, list(ends), begins)
            if self._oracles.control.is_main(key):
                self._count_wraps(key, first)
            self._audit(key, list(ends), begins)

    def _count_batches(self, entries: Sequence[Entry]) -> None:
        sizes = [entry.end - entry.base for entry in entries]
        several = [size for size in sizes if size > 1]
        self._oracles.sometimes["batch of one record"] += len(sizes) - len(several)
        self._oracles.sometimes["batch of several records"] += len(several)
        self._oracles.sometimes["record in a batch of several"] += sum(several)

    def _count_wraps(self, key: tuple[bytes, int], name: str) -> None:
        begin = self._world.topology.work.first_sequence
        partition = self._world.nodes[name].process.replicas.partitions[key]
        wrapped = [p for p in partition.producers.entries() if p[LAST_SEQUENCE] < begin]
        self._oracles.sometimes["sequence began again"] += len(wrapped)

    def check_epochs(self, failed: Collection[int]) -> None:
        """I-59: a producer continues under another epoch only if its sequences have a hole, because
        a record was not acknowledged (in the partitions `failed`), or if it was forgotten.
        """
        if self._world.topology.work.expiry_ms > 0:
            return
        for index, producers in self._epochs.items():
            for producer_id, epochs in producers.items():
                if len(epochs) > 1 and index not in failed:
                    raise Violation(
                        "I-59",
                        f"partition {index}: producer {producer_id} wrote under epochs"
                        f" {sorted(epochs)}, and all that was sent is acknowledged",
                    )

    async def check_losses(self) -> None:
        """I-53. A replica that gave up records last may be about to report them."""
        deadline_s = self._world.loop.now + HEARD_S
        while True:
            try:
                seen = [self._check_reported(key, *ends) for key, ends in self._ends().items()]
            except Violation:
                if self._world.loop.now > deadline_s:
                    raise
                await asyncio.sleep(LOOK_S)
            else:
                self._oracles.sometimes.update(filter(None, seen))
                return

    def _check_reported(self, key: tuple[bytes, int], first: str, *others: str) -> str:
        replicas, state, nodes = (
            self._oracles.replicas,
            self._oracles.control.state,
            self._world.nodes,
        )
        assert state is not None
        ghost, view = replicas.ghost(key), replicas.view(first, key)
        start = nodes[first].process.replicas.partitions[key].log.log_start_offset

        def lives(name: str, life: int) -> bool:
            return name in nodes and nodes[name].running and nodes[name].incarnation == life

        return check_reported(state, key, ghost, view, start, lives)

    def _common_begin(self, key: tuple[bytes, int], names: list[str]) -> int:
        """The least offset that all these replicas have; no replica may have deleted
        records back.
        """
        begins = 0
        for name in names:
            log = self._world.nodes[name].process.replicas.partitions[key].log
            self._oracles.replicas.ghost(key).check_deleted(log.log_start_offset, name)
            begins = max(begins, log.log_start_offset)
        return begins

    def _audit(self, key: tuple[bytes, int], names: list[str], begins: int) -> None:
        """Every replica in turn would serve the same records. A replica whose disk has changed
        records that were not read since is exempt.
        """
        damaged = self._oracles.replicas.ghost(key).damaged
        names = [name for name in names if name not in damaged]
        epochs: dict[int, set[int]] = {}
        control = self._oracles.control
        is_compacted = key == self._oracles.compaction.key or control.is_internal(key)
        found = {
            name: audit(
                self._world.nodes[name].process.replicas.partitions[key],
                f"{name} partition {key[1]}",
                begins,
                compacted=is_compacted,
                epochs=epochs,
            )
            for name in names
        }
        if self._oracles.control.is_main(key):
            self._epochs[key[1]] = epochs
        if key == self._oracles.compaction.key:
            return  # a tombstone may expire before a replica copies it; compared already (I-77)
        for other in names[1:]:
            if found[other] != found[first := names[0]]:
                raise Violation("I-4", f"partition {key[1]}: {first} and {other} serve other data")

    def _check_equal_producers(self, key: tuple[bytes, int], names: list[str], begins: int) -> None:
        """I-58: a replica's state of producers is a function of its log, whether it appended as
        leader or follower, loaded a snapshot, or truncated. If all records of a producer are
        deleted, a replica that never had them does not know it, nor where its batches begin.
        """
        known = {
            name: [
                producer[: LAST_OFFSET + 1 if key == self._oracles.compaction.key else -1]
                for producer in replicas.partitions[key].producers.entries()
                if begins == 0 or producer[LAST_OFFSET] >= begins
            ]
            for name in names
            for replicas in [self._world.nodes[name].process.replicas]
        }
        if (
            self._world.topology.work.expiry_ms > 0
        ):  # each replica forgets producers at its own time
            common = set.intersection(*({p[0] for p in known[name]} for name in names))
            known = {n: [p for p in found if p[0] in common] for n, found in known.items()}
        first, *others = names
        for other in others:
            if known[other] != known[first]:
                raise Violation(
                    "I-58",
                    f"partition {key[1]}: {first} knows producers {known[first]}, {other}"
                    f" {known[other]}",
                )
