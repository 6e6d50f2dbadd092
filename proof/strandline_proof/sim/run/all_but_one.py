"""The core of a cluster: all but one broker, which stays dead for a while after everything else is
healed.

The run then requires of the core:

- every other server runs
- each partition that a live replica may lead has a leader, and its ISR contains every live replica
- records are acknowledged, if every partition has `min.insync.replicas` live replicas

Exempt are partitions whose last members of ISR and ELR are all away (I-48, I-53), and partitions
that are being reassigned, perhaps to the absent broker. Partitions with damage are exempt too: the
absent broker may be needed to heal them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_proof.sim.topology.topology import broker_id

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.state import PartitionRegistration
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.controller.control import Key
    from strandline_proof.sim.oracles.watch import Oracles

NEW_RECORDS: Final = 3


class Core:
    def __init__(self, world: World, oracles: Oracles, away: str, *, unseen: bool) -> None:
        self._world = world
        self._oracles = oracles
        self._node = world.nodes[away]
        self._away = broker_id(away)
        self._before = oracles.history.acknowledged
        self._node.kill()
        if unseen:
            # Its machine is off, so no connection is refused; and the controller has never heard of
            # it.
            world.network.power_off(away)
            world.controller.kill()
            world.controller.start()

    def problem(self) -> str:
        """The first requirement that is not met, in words; empty if all are met."""
        if self._node.running:
            self._node.kill()  # a supervisor has restarted it
        for node in (self._world.controller, *self._world.brokers):
            if node is not self._node and not node.running:
                return f"{node.name} is down"
        control = self._oracles.control
        for number, broker in sorted(control.brokers.items()):
            if broker.fenced != (number == self._away):
                return f"broker {number} is {'fenced' if broker.fenced else 'not fenced'}"
        for key, partition in control.partitions.items():
            if self._counts(key, partition) and (why := self._unwell(partition)):
                return f"partition {key[1]} {why}"
        new = self._oracles.history.acknowledged - self._before
        if new < NEW_RECORDS and self._is_writable():
            return f"only {new} new records were acknowledged"
        return ""

    def done(self) -> None:
        """The broker comes back."""
        control, sometimes = self._oracles.control, self._oracles.sometimes
        sometimes["core was well without a broker"] += 1
        waiting = (control.partitions[key].leader < 0 for key in control.main_keys())
        sometimes["partition waited for the broker that was away"] += sum(waiting)
        self._world.network.power_on(self._node.name)
        self._node.start()

    def _counts(self, key: Key, partition: PartitionRegistration) -> bool:
        ghost = self._oracles.replicas.ghost(key)
        return not (ghost.given_up or ghost.damaged or partition.original)

    def _unwell(self, partition: PartitionRegistration) -> str:
        if partition.leader < 0:
            able = [b for b in (*partition.isr, *partition.elr) if b != self._away]
            return f"has no leader, and {able} may lead" if able else ""
        here = {b for b in partition.replicas if b != self._away}
        return "" if here <= set(partition.isr) else f"has ISR {partition.isr}, here are {here}"

    def _is_writable(self) -> bool:
        """True if every partition of the written topic accepts records."""
        control = self._oracles.control
        found = {key: control.partitions[key] for key in control.main_keys()}
        return len(found) >= self._world.topology.partitions and all(
            self._counts(key, p) and p.leader >= 0 and len(p.isr) >= control.min_insync(p)
            for key, p in found.items()
        )
