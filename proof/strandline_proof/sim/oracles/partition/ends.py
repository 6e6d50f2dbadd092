"""End offsets over all clients: no end offset falls from one client to the next (I-11).

A client that looks up a partition's end after any acknowledgement was received gets no lower end.
Only a deposed leader that has not learned of it may return less (I-35), while it is cut off. While
there is one, or one begins to lead too late, nothing is promised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.controller.control import ControlOracle, Key
    from strandline_proof.sim.oracles.replica.replicas import ReplicaOracle


class EndOracle:
    def __init__(self, world: World, control: ControlOracle, replicas: ReplicaOracle) -> None:
        self._world = world
        self._control = control
        self._replicas = replicas
        self._acknowledged: dict[int, int] = {}
        """The end after the last record that was acknowledged to any client, by partition."""
        self._asked: dict[int, dict[int, tuple[int, int]]] = {}
        """(least end to be returned, number of late leaders until then), by operation and
        partition.
        """

    def on_acknowledged(self, index: int, offset: int) -> None:
        self._acknowledged[index] = max(offset + 1, self._acknowledged.get(index, 0))

    def on_asked(self, op: int) -> None:
        self._asked[op] = {
            key[1]: (self._acknowledged.get(key[1], 0), self._replicas.led_late[key])
            for key in self._control.main_keys()
            if not self._is_led_by_the_deposed(key)
        }

    def _is_led_by_the_deposed(self, key: Key) -> bool:
        newest = self._control.partitions[key].leader_epoch
        for node in (*self._world.brokers, *self._world.doubles):
            replicas = getattr(node.process, "replicas", None)
            partition = None if replicas is None else replicas.partitions.get(key)
            leader = None if partition is None else partition.leader
            if leader is not None and leader.leader_epoch != newest:
                return True
        return False

    def on_told(self, op: int, ends: Mapping[int, int]) -> None:
        asked = self._asked.pop(op, {})
        keys = {key[1]: key for key in self._control.main_keys()}
        for index, end in ends.items():
            least, led_late = asked.get(index, (0, 0))
            key = keys.get(index)
            if end >= least or key is None or self._replicas.led_late[key] != led_late:
                continue
            ghost = self._replicas.ghost(key)
            if ghost.permitted is None and not ghost.lost:
                raise Violation(
                    "I-11",
                    f"key {index}: a client gets {end} as its end, and {least - 1} had been"
                    " acknowledged when it asked; no deposed leader was left",
                )
