"""Replicas with a possible fault. Checks for damage and failures visit only these, and none of
thousands of replicas at rest.

A reader, the scrub or a failed step adds the replica, from any thread. The replica stays until a
check finds no fault, or until it is no longer held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strandline_broker.hosts.replica.partition import Partition

    Key = tuple[bytes, int]


class Suspects:
    """The suspect replicas. `add` may be called from any thread: each step is one operation of a
    dict.
    """

    def __init__(self, held: Mapping[Key, Partition]) -> None:
        self._held = held
        self._partitions: dict[Partition, None] = {}

    def add(self, partition: Partition) -> None:
        """Add the replica, which may have a fault."""
        self._partitions[partition] = None

    def all(self) -> list[Partition]:
        """The suspects that are still held."""
        found = []
        for partition in list(self._partitions):
            if self._held.get(partition.key) is partition:
                found.append(partition)
            else:
                del self._partitions[partition]
        return found

    def settle(self, partition: Partition, is_wrong: Callable[[Partition], bool]) -> None:
        """Keep the replica if it has a fault now. A fault that another thread finds meanwhile is
        either seen by `is_wrong`, or adds the replica again.
        """
        self._partitions.pop(partition, None)
        if is_wrong(partition):
            self.add(partition)
