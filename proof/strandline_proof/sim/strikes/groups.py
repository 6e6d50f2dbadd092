"""Strikes at members of groups and at the partitions that their coordinators lead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.internal_topics import CONSUMER_OFFSETS
from strandline_proof.sim.strikes.orders import give_order
from strandline_proof.sim.topology.groups import group_name, member_name
from strandline_proto.java_hash import partition_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.strikes.scene import Scene

MOVER: Final = "coordinator-mover"
LEAVE_S: Final = 1.2
"""Time within which a member that was told to leave has left."""


class GroupStrikes:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.strikes: dict[str, Callable[..., object]] = {
            "member-crash": self._crash,
            "member-leave": self._leave,
            "member-pause": self._pause,
            "member-busy": self._busy,
            "member-cut": self._cut,
            "group-empty": self._empty,
            "coordinator-move": self._move,
            "coordinator-reassign": self._reassign,
        }

    # Members

    def _crash(self, node: str, restart_s: float) -> None:
        struck = self._scene.node(node)
        struck.kill()
        self._scene.later(restart_s, self._come_back, struck)

    def _leave(self, node: str, restart_s: float) -> None:
        struck = self._scene.node(node)
        struck.stop()
        self._scene.later(LEAVE_S + restart_s, self._come_back, struck)

    def _come_back(self, node: Node) -> None:
        """Restarts the member, also after healing: a group must be whole at the end."""
        if node.running and (node.stopping or node.paused):  # the member receives the stop later
            self._scene.later(LEAVE_S, self._come_back, node)
        elif not self._scene.world.groups.over:
            node.start()

    def _pause(self, node: str, for_s: float) -> None:
        struck = self._scene.node(node)
        struck.pause()
        self._scene.later(for_s, struck.resume)

    def _busy(self, node: str, for_s: float) -> bool:
        """Keeps its application busy for so long without a poll; the library goes on."""
        process = self._scene.node(node).process
        if process is None:
            return False
        process.busy_s = for_s
        return True

    def _cut(self, a: str, b: str, for_s: float, hold: bool, one_way: bool) -> None:
        network = self._scene.world.network
        network.partition(a, b, hold=hold, one_way=one_way)
        self._scene.later(for_s, network.heal, a, b)

    def _empty(self, group: int, for_s: float, crash: bool) -> None:
        """Ends all members, and starts them again together."""
        strike = self._crash if crash else self._leave
        for member in range(len(self._scene.world.topology.groups[group].members)):
            strike(member_name(group, member), for_s)

    # Coordinators

    def _move(self, group: int, to: int) -> bool:
        async def move(admin: Any) -> None:
            (result,) = await admin.move_leaders({self._partition(group): to})
            if result.error is None:
                self._scene.oracles.sometimes["coordinator moved by command"] += 1

        return give_order(self._scene, MOVER, move)

    def _reassign(self, group: int, target: list[int]) -> bool:
        partition = self._partition(group)

        async def reassign(admin: Any) -> None:
            self._scene.oracles.control.moves.on_asked(partition[1], target)
            (result,) = await admin.alter_partition_reassignments({partition: target})
            if result.error is None:
                self._scene.oracles.sometimes["coordinator's partition reassigned"] += 1

        return give_order(self._scene, MOVER, reassign)

    def _partition(self, group: int) -> tuple[str, int]:
        partitions = self._scene.world.topology.offsets_partitions
        return CONSUMER_OFFSETS, partition_for(group_name(group), partitions)
