"""The rules of the log cleaner: the part of a log that it may clean, and the next log to clean
(I-69).

A compacted log has three parts:

- The part that was cleaned before, below `cleaned_to`.
- The part to clean, up to the first uncleanable offset, which is always where a segment begins.
- The part that must not be touched yet: the active segment, data that is not committed or not
  durable, and records too young for min.compaction.lag.ms.

Only sealed segments are cleaned, each as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SealedSegment:
    """The facts about one sealed segment that the decisions need; a log lists them oldest first."""

    base_offset: int
    end_offset: int
    """Start of the next segment."""
    size: int
    latest_timestamp: int
    """Largest timestamp of its batches; -1 if no batch has one."""
    first_timestamp: int = -1
    """Largest timestamp of its first batch; -1 if unknown. Only max.compaction.lag.ms uses it."""


@dataclass(frozen=True, slots=True)
class CompactedLog:
    """One log with cleanup.policy=compact, as it is at `now_ms` (wall clock)."""

    cleaned_to: int
    """Offset from the checkpoint, limited to the log: see `within_log`."""
    committed: int
    """End of the stable and durable part: no transaction is open below it."""
    sealed: tuple[SealedSegment, ...]
    min_dirty_ratio: float
    min_lag_ms: int
    max_lag_ms: int


@dataclass(frozen=True, slots=True)
class LogToClean:
    """The part of one log that can be cleaned."""

    first_dirty: int
    first_uncleanable: int
    dirty_ratio: float
    wanted: bool
    """True if the ratio is above min.cleanable.dirty.ratio, or max.compaction.lag.ms demands a
    cleaning.
    """


def within_log(cleaned_to: int, *, log_start: int, log_end: int) -> int:
    """The checkpointed offset, or the log's start if the log no longer holds that offset."""
    return cleaned_to if log_start <= cleaned_to <= log_end else log_start


def judge(log: CompactedLog, *, now_ms: int) -> LogToClean:
    """The part of the log that may be cleaned now, and if it should be."""
    bound = _first_uncleanable(log, now_ms)
    clean = dirty = 0
    due = False
    for segment in log.sealed:
        if segment.end_offset <= log.cleaned_to:
            clean += segment.size
        elif segment.base_offset < bound:
            dirty += segment.size
            due = due or _is_due(segment, log.max_lag_ms, now_ms)
    ratio = dirty / (clean + dirty) if dirty > 0 else 0.0
    wanted = dirty > 0 and (due or ratio > log.min_dirty_ratio)
    return LogToClean(log.cleaned_to, max(bound, log.cleaned_to), ratio, wanted)


def _first_uncleanable(log: CompactedLog, now_ms: int) -> int:
    bound = 0
    for segment in log.sealed:
        if segment.end_offset > log.committed:
            break
        is_dirty = segment.end_offset > log.cleaned_to
        if is_dirty and log.min_lag_ms > 0 and segment.latest_timestamp > now_ms - log.min_lag_ms:
            break
        bound = segment.end_offset
    return bound


def _is_due(segment: SealedSegment, max_lag_ms: int, now_ms: int) -> bool:
    return max_lag_ms < INT64_MAX and 0 <= segment.first_timestamp < now_ms - max_lag_ms


Name = TypeVar("Name")


def next_to_clean(logs: Iterable[tuple[Name, LogToClean]]) -> Name | None:
    """The log with the greatest dirty ratio among those that should be cleaned."""
    wanted = [(name, log) for name, log in logs if log.wanted]
    if not wanted:
        return None
    return max(wanted, key=lambda found: found[1].dirty_ratio)[0]
