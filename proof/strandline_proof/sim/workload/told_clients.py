"""What a run knows of the clients of its topic beside their history: how far they have come."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from strandline_proof.sim.workload.low_acks import Loose
from strandline_proof.sim.workload.seeker import Seeker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.workload.work_clients import LastingReader


class Clients:
    """What a run knows of the clients of its topic, and what they may be held to."""

    def __init__(self, world: World) -> None:
        self.sometimes: Counter[str] = Counter()
        self.reader: LastingReader | None = None
        """The one that may not be exchanged."""
        self.seeker = Seeker(world, self.sometimes)
        self.loose = Loose(world, self.sometimes)
        self.removed: dict[int, int] = {}
        """By partition: below which offset records may be gone by now."""
        self.is_judged: Callable[[int], bool] = lambda _partition: True
        """Whether nothing may be missing in a partition."""
        self._world = world

    def reader_behind(self, ends: Mapping[int, tuple[int, int]]) -> str:
        """Where the reader, which was there all the time, has not come to the end; empty if
        nowhere. `ends`: by partition, where it begins and ends.
        """
        if self.reader is None:
            return "the reader has not begun"
        for partition, (begin, end) in ends.items():
            at = self.reader.next.get(partition, 0)
            if begin < end and at < end:
                return f"the reader is at offset {at} of partition {partition}, which ends at {end}"
        return ""

    def writers_behind(
        self, since: int, partitions: list[int], processes: Sequence[int | None]
    ) -> str:
        """Which writer has not had a record acknowledged in each of `partitions` that it sent after
        event number `since`; empty if none. `processes` are what the writers are now.
        """
        opened: dict[int, tuple[int, int]] = {}
        done: set[tuple[int | None, int]] = set()
        for event in self._world.history.events[since:]:
            if event.f == "send" and event.type == "invoke":
                opened[event.op] = (event.process, event.value[0][1])
            elif event.f == "send" and event.type == "ok" and event.op in opened:
                done.add(opened[event.op])
        for number, process in enumerate(processes):
            for partition in partitions:
                if (process, partition) not in done:
                    return f"writer {number} has nothing new acknowledged in partition {partition}"
        return ""
