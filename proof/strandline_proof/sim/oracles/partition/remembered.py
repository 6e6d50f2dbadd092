"""I-53: replicas that may be the only ones with committed records, computed from what leaders have
applied.

A leader counts the replicas that it believes to be in sync. When a replica leaves the ISR, it holds
every committed record until the present leader has applied that change, with the minimum in its
ISR. So a balanced recovery waits for it, and elects no replica that lacks records which it still
holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Mapping

    from strandline_broker.core.controller.log.state import Broker, PartitionRegistration
    from strandline_broker.core.replication.leader import Leader
    from strandline_proof.sim.oracles.controller.control import Key
    from strandline_proof.sim.oracles.partition.committed import Committed
    from strandline_proof.sim.oracles.replica.log_view import LogView


class RememberedOracle:
    def __init__(self, sometimes: Counter[str]) -> None:
        self._sometimes = sometimes
        self._left: dict[Key, set[int]] = {}
        """Former members of the ISR that may still be counted."""

    def on_changed(
        self, key: Key, old: PartitionRegistration, new: PartitionRegistration, *, given_up: bool
    ) -> None:
        """The ISR has changed. `given_up`: a leader was elected whatever the others may hold."""
        left = set() if given_up else {*self._left.get(key, ()), *old.isr, *old.elr}
        self._left[key] = (left & {*new.replicas}) - {*new.isr}

    def on_leads(
        self, key: Key, leader: Leader, decided: PartitionRegistration, least: int
    ) -> None:
        """A leader counts by what is `decided`, if it is of the same epochs."""
        epochs = decided.leader_epoch, decided.partition_epoch
        if (leader.leader_epoch, leader.partition_epoch) == epochs and len(decided.isr) >= least:
            self._left.pop(key, None)

    def check_awaited(self, key: Key, where: str, brokers: Mapping[int, Broker]) -> None:
        """A leader was elected because all last members of the ISR are said to be back."""
        left = self._left.get(key, set())
        away = sorted(b for b in left if b not in brokers or brokers[b].fenced)
        if away:
            raise Violation(
                "I-53",
                f"{where}: balanced recovery has not waited for {away}, and no leader has applied"
                " that they left the ISR",
            )

    def check_elected(
        self,
        key: Key,
        ghost: Committed,
        elected: LogView,
        find: Callable[[Key, tuple[int, ...]], Iterable[tuple[str, LogView]]],
    ) -> None:
        """No last member of the ISR holds a committed record that the leader lacks.

        `find`: the logs of running brokers.
        """
        self._sometimes["balanced recovery"] += 1
        for name, view in find(key, tuple(sorted(self._left.get(key, ())))):
            if name in ghost.damaged:
                continue
            for entry in ghost.entries:
                if entry.base < view.start or entry.end <= elected.start:
                    continue  # removed by command or retention, so no replica must hold it
                if view.holds(entry) and not elected.holds(entry):
                    raise Violation(
                        "I-53",
                        f"{ghost.name}: {name} holds committed offset {entry.base} of epoch"
                        f" {entry.epoch}, and a leader was elected that ends at {elected.end}",
                    )

    def on_restored(self) -> None:
        self._left.clear()
