"""The run's record of its groups: what their members have seen, and how far each group has read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from strandline.types import TopicPartition
from strandline_proof.sim.topology.groups import member_name
from strandline_proof.sim.topology.topology import TOPIC
from strandline_proof.sim.workload import group_history as told
from strandline_proof.sim.workload.group_history import GroupHistory

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.groups.member import Member

FATES: Final[dict[str, told.GroupEvent]] = {
    "killed": told.Crashed(),
    "loses power": told.Crashed(),
    "paused": told.Paused(),
    "resumed": told.Resumed(),
}
"""The event for each thing that becomes of a process, by the node's name for it."""


class Groups:
    def __init__(self, world: World) -> None:
        self.history = GroupHistory(lambda: world.loop.now)
        self.on_rebalance: Callable[[], None] = lambda: None
        """Called when a member learns that partitions come or go."""
        self.is_judged: Callable[[str], bool] = lambda _group_id: True
        """True if none of the group's committed state may be lost."""
        self.sometimes: Counter[str] = Counter()
        self.catches_up = False
        """True while the offsets that members must reach are fixed: members then spend no time on
        work. A poll may return no more than a batch (the least fetch, or a segment of one), and a
        member that works on each is slower than writers are.
        """
        self.over = False
        """True if members that end, or have ended, are to stay so."""
        self._world = world
        self._delivered: dict[tuple[int, int], set[int]] = {}
        """The offsets that were delivered to any member, by group and partition."""

    def watch(self, node: Node) -> None:
        """Records what becomes of the processes of a member's machine."""

        def on_fate(what: str) -> None:
            if (event := FATES.get(what)) is not None:
                self.history.add(life_of(node), event)

        node.on_fate = on_fate

    def on_delivered(self, who: str, group: int, tp: TopicPartition, offsets: list[int]) -> None:
        for offset in offsets:
            self.history.add(who, told.Delivered(tp, offset))
        if tp.topic == TOPIC:
            self._delivered.setdefault((group, tp.partition), set()).update(offsets)

    # Requirements at the end.

    def unsettled(self) -> str:
        """The group whose members do not share all partitions, each at one of them; empty
        if none.
        """
        wanted = {TopicPartition(TOPIC, p): 0 for p in range(self._world.partitions)}
        for number, group in enumerate(self._world.topology.groups):
            owned = dict(wanted)
            for member in range(len(group.members)):
                name = member_name(number, member)
                process: Member | None = self._world.nodes[name].process
                if not self._world.nodes[name].running or process is None:
                    return f"{name} does not run"
                if (why := process.trouble) != "":
                    return f"{name}: {why}"
                for tp in process.owned:
                    owned[tp] = owned.get(tp, 0) + 1
            for tp, owners in owned.items():
                if owners != 1:
                    return f"{tp.topic}/{tp.partition} has {owners} owners in group {number}"
        return ""

    def behind(self, ends: dict[int, tuple[int, int]]) -> str:
        """The group that was not given every record between the log starts and ends;
        empty if none.
        """
        for number in range(len(self._world.topology.groups)):
            for partition, (start, end) in ends.items():
                seen = self._delivered.get((number, partition), set())
                missing = [offset for offset in range(start, end) if offset not in seen]
                if missing:
                    return (
                        f"group {number} was not given {len(missing)} records of partition"
                        f" {partition}, the first at offset {missing[0]} of {start} to {end}"
                    )
        return ""

    def owners_behind(self, ends: dict[int, tuple[int, int]]) -> str:
        """The member that was given no record up to these ends of a partition it owns; empty if
        none. `ends`: by partition, the log's start and end when more was still written.
        """
        if (why := self.unsettled()) != "":
            return why
        for name in self._world.topology.member_names:
            member: Member = self._world.nodes[name].process
            for tp in member.owned:
                _, end = ends.get(tp.partition, (0, 0))
                at = member.positions.get(tp, 0)
                if tp.topic == TOPIC and at < end:
                    return f"{name} is at offset {at} of partition {tp.partition}, {end} must come"
        return ""


def life_of(node: Node) -> str:
    """One process on that machine."""
    return f"{node.name}/{node.incarnation}"
