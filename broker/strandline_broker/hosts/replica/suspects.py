"""Replicas with which something may be wrong, so that whoever asks for damage and failures looks at
these: of thousands at rest at none.

What is found, by readers, the scrub or a failed step, in whichever thread, adds the replica. It
stays until somebody has looked and found nothing, or until it is not held any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strandline_broker.hosts.replica.partition import Partition

    Key = tuple[bytes, int]


class Suspects:
    """`add` may be called from any thread: each step is one operation of a dict."""

    def __init__(self, held: Mapping[Key, Partition]) -> None:
        self._held = held
        self._partitions: dict[Partition, None] = {}

    def add(self, partition: Partition) -> None:
        """Something may be wrong with it."""
        self._partitions[partition] = None

    def all(self) -> list[Partition]:
        """Of those that are held."""
        found = []
        for partition in list(self._partitions):
            if self._held.get(partition.key) is partition:
                found.append(partition)
            else:
                del self._partitions[partition]
        return found

    def settle(self, partition: Partition, is_wrong: Callable[[Partition], bool]) -> None:
        """Keep it if something is wrong with it now. What another thread finds meanwhile is either
        seen by `is_wrong`, or adds the replica again.
        """
        self._partitions.pop(partition, None)
        if is_wrong(partition):
            self.add(partition)
