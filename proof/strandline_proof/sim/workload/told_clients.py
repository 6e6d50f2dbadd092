"""The run's record of its topic's clients beside their history: how far they have come."""

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
    """The topic's clients, and what they must have reached."""

    def __init__(self, world: World) -> None:
        self.sometimes: Counter[str] = Counter()
        self.reader: LastingReader | None = None
        """The reader that may not be replaced."""
        self.seeker = Seeker(world, self.sometimes)
        self.loose = Loose(world, self.sometimes)
        self.removed: dict[int, int] = {}
        """The offset below which records may be gone, by partition."""
        self.is_judged: Callable[[int], bool] = lambda _partition: True
        """True if no record may be missing in a partition."""
        self._world = world

    def reader_behind(self, ends: Mapping[int, tuple[int, int]]) -> str:
        """The partitions in which the reader, which ran all the time, has not reached the end;
        empty if none. `ends`: by partition, its beginning and its end.
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
        """The writer without an acknowledgement, in each of `partitions`, of a record sent after
        event number `since`; empty if none. `processes` are the present writers.
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
