"""What one log is at this moment: its segments, its offsets, how much of it survives a loss of
power, and what of it is damaged.

Only a log changes its state, and only by these transitions, one at a time; readers take it as it is
from any thread. So the order of the assignments within a transition is part of it: a reader that
took the old segments, and may miss bytes of them, sees another count afterwards (P-34).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.storage.log.recent_batches import RecentBatches
from strandline_proto.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strandline_broker.storage.log.recovery import Recovered
    from strandline_broker.storage.segment.segment import Segment


class Tail(NamedTuple):
    """Segments and recent batches, taken by readers in one step so that they fit each other."""

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
        """What the log-start checkpoint says, or the first segment's name, as far as known."""
        self.beginnings = 0
        """How often the log has begun anew."""
        self.end = end = found.log_end
        self.cleaned_to = min(cleaned_to, end)
        """Where compaction goes on: what lies below was cleaned."""
        self._flushed = (0, end)
        self._durable_at_cut = end
        self.truncations = 0
        self.replacements = 0
        self.is_replacing = False
        self.rolls = 0 if found.names_durable else 1
        self.rolls_synced = 0
        self.damaged_ranges = found.damaged
        self.unusable: str | None = None
        """Why nothing may be done with the log any more."""
        self._on_wrong: Callable[[], None] | None = None
        self.is_deleted = False

    def tell(self, on_wrong: Callable[[], None]) -> None:
        """Call it whenever something is found to be wrong with the log, in whichever thread."""
        self._on_wrong = on_wrong
        self.damaged_ranges.tell(on_wrong)

    def found_wrong(self) -> None:
        """Something is."""
        if self._on_wrong is not None:
            self._on_wrong()

    @property
    def durable_end(self) -> int:
        """Everything below survives a loss of power."""
        generation, offset = self._flushed
        return offset if generation == self.truncations else self._durable_at_cut

    @property
    def generation(self) -> tuple[int, int]:
        """Moves with every cut and with every replacement of segments."""
        return self.truncations, self.replacements

    def is_still(self, generation: tuple[int, int]) -> bool:
        """Whether what was read since that generation was taken is what the log held."""
        return generation == (self.truncations, self.replacements) and not self.is_replacing

    def check_usable(self) -> None:
        if self.unusable is not None:
            raise KafkaStorageError(self.unusable)

    # Growing

    def append(self, end: int, size: int) -> None:
        """Batches of `size` bytes, up to `end`, are in the last segment and the recent batches."""
        self.size_bytes += size
        self.end = end

    def roll(self, segment: Segment) -> None:
        """A new, empty segment begins at the log's end."""
        self.rolls += 1
        self.tail = Tail((*self.tail.segments, segment), RecentBatches(self.end, 0))

    # What is durable

    def flush(self, generation: int, end: int, rolls: int) -> bool:
        """All below `end` is durable, unless a cut came since `generation` was taken (P-24)."""
        if generation != self.truncations:
            return False
        # A cut in the disk pool from here on makes this pair void, whatever it says.
        self._flushed = generation, max(self.durable_end, end)
        self.rolls_synced = max(self.rolls_synced, rolls)
        return True

    def start_is_durable(self, offset: int, beginnings: int) -> None:
        """A checkpoint says that the log begins at `offset`, unless it began anew since that was
        taken, after so many beginnings (I-74).
        """
        if beginnings == self.beginnings:
            self.durable_start = max(self.durable_start, offset)

    # Shrinking

    def raise_start(self, offset: int) -> None:
        """Records below `offset` count for nothing any more."""
        self.start = offset

    def cut(self, offset: int, tail: Tail) -> None:
        """The log ends at `offset`. Shown before any byte goes."""
        # An empty log has nothing to lose: its end is durable wherever it is.
        is_empty = offset == tail.segments[0].base_offset
        self._durable_at_cut = offset if is_empty else min(self.durable_end, offset)
        self.cleaned_to = min(self.cleaned_to, offset)
        self.end = offset
        self.size_bytes = _size(tail.segments)
        self.tail = tail
        self.damaged_ranges.drop_from(offset)
        self.truncations += 1

    def empty(self, segment: Segment) -> None:
        """Nothing of the log stays, and it begins at `segment`. Shown before any byte goes."""
        self.start = self.durable_start = segment.base_offset
        self.beginnings += 1
        self.cut(segment.base_offset, _only(segment))
        self.damaged_ranges.set(())  # also of what lies below: no byte of it stays

    def begin(self, segment: Segment) -> None:
        """The file of an empty log's segment was made."""
        self.tail = _only(segment)

    @contextmanager
    def replaced(self, segments: Sequence[Segment]) -> Iterator[None]:
        """Sealed segments have others in their place, whose files get their names within."""
        self.is_replacing = True
        self.tail = Tail(tuple(segments), self.tail.recent)
        self.size_bytes = _size(segments)
        self.replacements += 1
        try:
            yield
        finally:
            self.is_replacing = False

    def clean(self, to: int) -> None:
        """Compaction goes on at `to`."""
        self.cleaned_to = to

    # Ending

    def fail(self, why: str) -> None:
        """Memory and files may say different things from here on: the log is out of use."""
        self.unusable = why
        self.found_wrong()

    def delete(self, why: str) -> None:
        """The directory is about to be given up: a reader that finds no file knows why."""
        self.is_deleted = True
        self.unusable = why


def _only(segment: Segment) -> Tail:
    return Tail((segment,), RecentBatches(segment.base_offset, 0))


def _size(segments: Sequence[Segment]) -> int:
    return sum(segment.size for segment in segments)
