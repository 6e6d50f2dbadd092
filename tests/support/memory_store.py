"""The controller's store in memory, which writes at once and never snapshots."""

from collections.abc import Iterable, Iterator, Sequence


class MemoryStore:
    def __init__(self) -> None:
        self.values: list[list[bytes]] = []
        self.snapshot = None
        self.bytes_since_snapshot = 0

    @property
    def end_offset(self) -> int:
        return sum(len(batch) for batch in self.values)

    def batches(self) -> Iterator[tuple[int, int, list[bytes]]]:
        base = 0
        for batch in self.values:
            yield base, base + len(batch) - 1, batch
            base += len(batch)

    def append(
        self, values: Sequence[bytes], *, controller_epoch: int, now_ms: int
    ) -> tuple[int, int]:
        base = self.end_offset
        self.values.append(list(values))
        return base, base + len(values) - 1

    def seal(self) -> None:
        raise AssertionError("no snapshots here")

    def write_snapshot(self, values: Iterable[bytes], **_: int) -> int:
        raise AssertionError("no snapshots here")

    def forget_covered(self, **_: int) -> int:
        raise AssertionError("no snapshots here")
