"""Reassignments as the controller commits them: I-85, I-86."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from strandline_broker.core.controller.log.state import PartitionRegistration


class MoveOracle:
    """Holds each change of a partition's replicas against the state before it."""

    def __init__(self, sometimes: Counter[str]) -> None:
        self._sometimes = sometimes
        self._asked: set[tuple[int, tuple[int, ...]]] = set()

    def on_asked(self, index: int, target: Sequence[int]) -> None:
        """An administrator is about to request the reassignment."""
        self._asked.add((index, tuple(target)))

    def on_change(self, where: str, old: PartitionRegistration, new: PartitionRegistration) -> None:
        if (old.replicas, old.original) == (new.replicas, new.original):
            return
        gone = set(old.replicas) - set(new.replicas)
        if gone:
            self._sometimes["replica removed"] += 1
            if new.leader_epoch <= old.leader_epoch:
                raise Violation(
                    "I-85",
                    f"{where}: {sorted(gone)} are removed from {old.replicas} within leader epoch"
                    f" {old.leader_epoch}",
                )
        if new.original:
            self._on_under_way(where, old, new)
        else:
            self._on_ended(where, old, new, is_smaller=bool(gone))

    def _on_under_way(
        self, where: str, old: PartitionRegistration, new: PartitionRegistration
    ) -> None:
        before = old.original or old.replicas
        if new.original != before or set(new.replicas) != {*new.target, *before}:
            raise Violation(
                "I-85",
                f"{where}: on the way from {before} to {new.target} the replicas are"
                f" {new.replicas}, and {new.original} are those before",
            )
        is_first = old.original == ()
        self._sometimes["reassignment begun" if is_first else "reassignment overridden"] += 1

    def _on_ended(
        self,
        where: str,
        old: PartitionRegistration,
        new: PartitionRegistration,
        *,
        is_smaller: bool,
    ) -> None:
        if old.original and set(new.replicas) == set(old.original):
            self._sometimes["reassignment cancelled"] += 1
            if new.replicas != old.original and (new.index, new.replicas) not in self._asked:
                raise Violation(
                    "I-86",
                    f"{where}: a cancel leads to {new.replicas}, before were {old.original}",
                )
        elif old.original or is_smaller:
            self._sometimes["reassignment completed"] += 1
            if set(new.isr) != set(new.replicas):
                raise Violation(
                    "I-85",
                    f"{where}: completed with replicas {new.replicas}, of which {new.isr} are in"
                    " sync",
                )
        if not set(new.isr) & set(new.replicas) and old.isr:
            raise Violation("I-86", f"{where}: of {old.isr} in sync none is in {new.replicas}")
