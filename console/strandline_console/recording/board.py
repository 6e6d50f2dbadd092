"""The board's order and counts, kept with each change: reading them costs no walk of partitions."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import islice

from strandline_console.recording.entities import Entity, order_on_board, partition_of_replica


class BoardOrder:
    """Keys of partitions in the order of the board."""

    def __init__(self) -> None:
        self._keys: list[str] = []

    def add(self, key: str) -> None:
        """Add a key that is not there."""
        insort(self._keys, key, key=order_on_board)

    def discard(self, key: str) -> None:
        """Remove a key that is there."""
        at = bisect_left(self._keys, order_on_board(key), key=order_on_board)
        assert self._keys[at] == key
        del self._keys[at]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)


class Board:
    """Takes each partition and replica as it comes, changes and leaves."""

    def __init__(self) -> None:
        self.partitions = 0
        """Partitions that the controller has reported."""
        self.under_replicated = 0
        self.below_minimum = 0
        self.offline = 0
        self._order = BoardOrder()
        self._names: list[str] | None = []
        self._replicas: dict[str, list[str]] = {}
        """The keys of the replicas of each partition, which may be none."""
        self._reported: dict[str, tuple[bool, bool, bool]] = {}
        """(under-replicated, below minimum, offline) of the controller's partitions."""
        self._troubled = BoardOrder()

    @property
    def names(self) -> list[str]:
        """All partitions, in the order of the board. The list is replaced when it changes."""
        if self._names is None:
            self._names = list(self._order)
        return self._names

    def troubled(self, most: int) -> list[str]:
        """The first partitions of the three counts, in the order of the board."""
        return list(islice(self._troubled, most))

    def replicas_of(self, partition: str) -> list[str]:
        """The keys of a partition's replicas."""
        return self._replicas.get(partition, [])

    # Changes.

    def set_partition(self, key: str, partition: Entity) -> None:
        """The controller's report of a partition, which is new or known."""
        if key not in self._reported:
            self.partitions += 1
        before = self._reported.get(key, _WELL)
        now = self._reported[key] = _trouble(partition)
        if before != now:
            self._count(before, -1)
            self._count(now, 1)
            if before == _WELL:
                self._troubled.add(key)
            elif now == _WELL:
                self._troubled.discard(key)
        self._come(key)

    def remove_partition(self, key: str) -> None:
        before = self._reported.pop(key)
        self.partitions -= 1
        self._count(before, -1)
        if before != _WELL:
            self._troubled.discard(key)
        self._leave(key)

    def add_replica(self, key: str) -> None:
        partition = partition_of_replica(key)
        self._come(partition)
        self._replicas[partition].append(key)

    def remove_replica(self, key: str) -> None:
        partition = partition_of_replica(key)
        self._replicas[partition].remove(key)
        self._leave(partition)

    def _come(self, partition: str) -> None:
        if partition not in self._replicas:
            self._replicas[partition] = []
            self._order.add(partition)
            self._names = None

    def _leave(self, partition: str) -> None:
        if partition in self._reported or self._replicas[partition]:
            return
        del self._replicas[partition]
        self._order.discard(partition)
        self._names = None

    def _count(self, trouble: tuple[bool, bool, bool], by: int) -> None:
        under, below, offline = trouble
        self.under_replicated += by * under
        self.below_minimum += by * below
        self.offline += by * offline


_WELL = (False, False, False)


def _trouble(partition: Entity) -> tuple[bool, bool, bool]:
    isr = partition["isr"]
    if isr is None:
        return False, False, partition["leader"] == -1
    return (
        len(isr) < len(partition["replicas"] or ()),
        len(isr) < (partition["min_isr"] or 0),
        partition["leader"] == -1,
    )
