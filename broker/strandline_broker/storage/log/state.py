"""The current state of one log: its segments and offsets, how much of it survives a loss of power,
and its damage.

Only the log changes its state, one transition of this class at a time. Readers use it from any
thread as it is. The order of the assignments within a transition therefore matters. A reader that
took the old segments, whose bytes may be gone, sees another generation afterwards (P-34).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.storage.segment.recent_batches import RecentBatches
from strandline_proto.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strandline_broker.storage.log.recovery import Recovered
    from strandline_broker.storage.segment.segment import Segment


class Tail(NamedTuple):
    """Segments and recent batches that fit each other; readers take both in one step."""

    segments: tuple[Segment, ...]
    recent: RecentBatches


class LogState:
    __slots__ = (
        "_durable_at_cut",
        "_flushed",
        "_on_wrong",
        "beginnings",
        "cleaned_to",
        "damaged_ranges",
        "durable_start",
        "end",
        "is_deleted",
        "is_replacing",
        "replacements",
        "rolls",
        "rolls_synced",
        "size_bytes",
        "start",
        "tail",
        "truncations",
        "unusable",
    )

    def __init__(self, found: Recovered, *, cleaned_to: int) -> None:
        self.tail = Tail(tuple(found.segments), found.recent)
        self.size_bytes = _size(found.segments)
        self.start = found.log_start
        self.durable_start = found.log_start
        """The start in the log-start checkpoint or in the first segment's name, as far as known."""
        self.beginnings = 0
        """Number of restarts of the log at another offset."""
        self.end = end = found.log_end
        self.cleaned_to = min(cleaned_to, end)
        """Offset at which compaction continues; everything below was cleaned."""
        self._flushed = (0, end)
        self._durable_at_cut = end
        self.truncations = 0
        self.replacements = 0
        self.is_replacing = False
        self.rolls = 0 if found.names_durable else 1
        self.rolls_synced = 0
        self.damaged_ranges = found.damaged
        self.unusable: str | None = None
        """The reason why the log must not be used any more."""
        self._on_wrong: Callable[[], None] | None = None
        self.is_deleted = False

    def tell(self, on_wrong: Callable[[], None]) -> None:
        """Register `on_wrong`; it is called, from any thread, when a fault of the log is found."""
        self._on_wrong = on_wrong
        self.damaged_ranges.tell(on_wrong)

    def found_wrong(self) -> None:
        """Report that a fault of the log was found."""
        if self._on_wrong is not None:
            self._on_wrong()

    @property
    def durable_end(self) -> int:
        """End of the durable part: everything below survives a loss of power."""
        generation, offset = self._flushed
        return offset if generation == self.truncations else self._durable_at_cut

    @property
    def generation(self) -> tuple[int, int]:
        """A value that changes with every cut and every replacement of segments."""
        return self.truncations, self.replacements

    def is_still(self, generation: tuple[int, int]) -> bool:
        """True if the log has not been cut or replaced since `generation` was taken."""
        return generation == (self.truncations, self.replacements) and not self.is_replacing

    def check_usable(self) -> None:
        if self.unusable is not None:
            raise KafkaStorageError(self.unusable)

    # Growing

    def append(self, end: int, size: int) -> None:
        """Record that batches of `size` bytes, up to `end`, are in the last segment and the recent
        batches.
        """
        self.size_bytes += size
        self.end = end

    def roll(self, segment: Segment) -> None:
        """Add a new, empty segment at the log's end."""
        self.rolls += 1
        self.tail = Tail((*self.tail.segments, segment), RecentBatches(self.end, 0))

    def add_name(self) -> None:
        """Record that the directory has a file whose name the next flush has to sync."""
        self.rolls += 1

    # Durability

    def flush(self, generation: int, end: int, rolls: int) -> bool:
        """Record that everything below `end` is durable, unless a cut came since `generation` was
        taken (P-24).
        """
        if generation != self.truncations:
            return False
        # A cut in the disk pool after this line invalidates the pair, whatever its values.
        self._flushed = generation, max(self.durable_end, end)
        self.rolls_synced = max(self.rolls_synced, rolls)
        return True

    def start_is_durable(self, offset: int, beginnings: int) -> None:
        """Record that a checkpoint contains the log start `offset`. It is ignored if the log has
        restarted since, so that `beginnings` differs (I-74).
        """
        if beginnings == self.beginnings:
            self.durable_start = max(self.durable_start, offset)

    # Shrinking

    def raise_start(self, offset: int) -> None:
        """Set the log start to `offset`; records below it are dead."""
        self.start = offset

    def cut(self, offset: int, tail: Tail) -> None:
        """End the log at `offset`. Readers see this before any byte is removed."""
        # An empty log has nothing to lose: its end is durable at any offset.
        is_empty = offset == tail.segments[0].base_offset
        self._durable_at_cut = offset if is_empty else min(self.durable_end, offset)
        self.cleaned_to = min(self.cleaned_to, offset)
        self.end = offset
        self.size_bytes = _size(tail.segments)
        self.tail = tail
        self.damaged_ranges.drop_from(offset)
        self.truncations += 1

    def empty(self, segment: Segment) -> None:
        """Remove all segments and begin the log at `segment`. Readers see this before any byte is
        removed.
        """
        self.start = self.durable_start = segment.base_offset
        self.beginnings += 1
        self.cut(segment.base_offset, _only(segment))
        self.damaged_ranges.set(())  # also ranges below the new start: no byte stays

    def begin(self, segment: Segment) -> None:
        """Record that the file of an empty log's segment exists."""
        self.tail = _only(segment)

    @contextmanager
    def replaced(self, segments: Sequence[Segment]) -> Iterator[None]:
        """Replace sealed segments; their files get their names within this context."""
        self.is_replacing = True
        self.tail = Tail(tuple(segments), self.tail.recent)
        self.size_bytes = _size(segments)
        self.replacements += 1
        try:
            yield
        finally:
            self.is_replacing = False

    def clean(self, to: int) -> None:
        """Set the offset at which compaction continues."""
        self.cleaned_to = to

    # Ending

    def fail(self, why: str) -> None:
        """Put the log out of use: from now on memory and files may differ."""
        self.unusable = why
        self.found_wrong()

    def delete(self, why: str) -> None:
        """Mark the log as deleted, before its directory is removed: a reader that misses a file
        then knows the reason.
        """
        self.is_deleted = True
        self.unusable = why


def _only(segment: Segment) -> Tail:
    return Tail((segment,), RecentBatches(segment.base_offset, 0))


def _size(segments: Sequence[Segment]) -> int:
    return sum(segment.size for segment in segments)
