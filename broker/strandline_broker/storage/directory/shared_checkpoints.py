"""The four checkpoint files that all partitions of a data directory share, and their possible
content.

The disk pool may write each file, by one caller at a time, while logs are cut, created and removed
elsewhere. Values are clamped to what the logs hold now, and `checkpoint_limits` covers the files'
earlier content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from strandline_broker.storage.files.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    OFFSET_MAX,
    RECOVERY_POINTS,
    Offsets,
    read_offsets,
    write_offsets,
)
from strandline_broker.storage.files.sealed_file import SealedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from strandline_broker.storage.files.checkpoint_limits import CheckpointLimits, Limit
    from strandline_broker.storage.files.damage import Report
    from strandline_broker.storage.log.log import Log
    from strandline_runtime.runtime import FileSystem

Key = tuple[str, int]
Taken: TypeAlias = "Mapping[Log, tuple[Limit, ...]]"

_MOST: dict[str, Callable[[Log], int]] = {
    RECOVERY_POINTS: lambda log: log.durable_offset,
    HIGH_WATERMARKS: lambda log: log.log_end_offset,
    LOG_STARTS: lambda log: log.log_start_offset,
    CLEANED: lambda log: log.cleaned_to,
}
"""The largest value that a log allows at the moment, whatever was computed before."""

_CLOSED_WITH: Final = frozenset({RECOVERY_POINTS, LOG_STARTS})

UNKNOWN: Final = OFFSET_MAX
"""The value of a partition whose entry was lost with its file, until its log is open and provides
one. The file may be written for other partitions, and a process may end, before that.
"""


class SharedCheckpoints:
    __slots__ = ("_current", "_files", "_fs", "_lost", "_named", "_offsets")

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._files = {name: SealedFile(fs, f"{path}/{name}") for name in _MOST}
        self._offsets: dict[str, Offsets] = {name: {} for name in _MOST}
        self._named: set[Key] = set()
        self._lost: set[str] = set()
        """Files that exist but cannot be trusted."""
        self._current: set[str] = set()
        """Files whose durable content equals `_offsets`. Content that a start has read may come
        from a process that was killed before its sync.
        """

    def read(self, report: Report, here: Iterable[Key], *, closed: bool) -> bool:
        """Read the files; False if one is lost that is needed to know where the logs begin and end.

        The rest must then not count as the result of a clean stop (`closed`). `here` lists the
        partitions that may have an entry.
        """
        for name, file in self._files.items():
            offsets = read_offsets(file, report)
            if offsets is None and self._fs.exists(file.path):
                self._lost.add(name)
                if name in _CLOSED_WITH and closed:
                    report(f"Without {file.path} the last shutdown counts as unclean.")
                if name in (RECOVERY_POINTS, CLEANED):
                    offsets = dict.fromkeys(here, UNKNOWN)
            self._offsets[name] = offsets or {}
            self._named.update(self._offsets[name])
        return self._lost.isdisjoint(_CLOSED_WITH)

    def has_lost(self, name: str, key: Key) -> bool:
        """True if the file may have had an entry for the partition, and the entry is lost."""
        missing = UNKNOWN if name in self._lost else 0
        return self._offsets[name].get(key, missing) == UNKNOWN

    def names(self, name: str, key: Key) -> bool:
        """True if the file has an entry for the partition."""
        return key in self._offsets[name]

    def gaps_below(self, key: Key) -> int:
        """The offset below which a cleaning may have left gaps in a log, whatever was cut since.

        If the value is lost, gaps may be anywhere: a log that Kafka has compacted has no other sign
        of it (I-7).
        """
        return OFFSET_MAX if self.has_lost(CLEANED, key) else self._offsets[CLEANED].get(key, 0)

    def may_name(self, key: Key) -> bool:
        """True if a file on disk may hold an entry for `key`, perhaps of an older topic of that
        name.
        """
        return key in self._named

    def offset(self, name: str, key: Key, limits: CheckpointLimits) -> int:
        """The file's offset of a partition, as far as it is to be trusted; 0 without an entry."""
        offset = 0 if self.has_lost(name, key) else self._offsets[name].get(key, 0)
        lowest = limits.lowest(name)
        return offset if lowest is None else min(offset, lowest)

    def forget(self, key: Key) -> None:
        for name, offsets in self._offsets.items():
            if offsets.pop(key, None) is not None:
                self._current.discard(name)

    def write(
        self,
        name: str,
        offsets: Mapping[Key, int],
        logs: Mapping[Key, Log],
        taken: Taken | None = None,
    ) -> None:
        """Write the file; partitions that `offsets` does not name keep their entry (P-16).

        A file with this exact content is not written, if it exists and no cut waits for a write.
        Its existence is checked so that a lost directory is noticed while nothing changes in it,
        too (KIP-112).

        `taken` holds the logs of the offsets, with their limits from before. None means that any
        value that a log allows now is valid, even after a cut. That is wrong for a high watermark:
        the log may have grown past it again, with other records (I-13). It is also wrong for a log
        start: the log may have restarted after it, with nothing in between (I-75). A log start that
        was taken earlier and is written later does not lower the entry: a value that was reported
        as durable stays.
        """
        merged = dict(self._offsets[name])
        limits = []
        for key, offset in offsets.items():
            log = logs.get(key)
            if log is None or (taken is not None and log not in taken):
                continue
            # Limits are read before the value, so that a limit added in between stays.
            current = log.limits.current() if taken is None else taken[log]
            if name == LOG_STARTS:
                offset = max(offset, merged.get(key, 0))
            merged[key] = min(offset, _MOST[name](log))
            limits.append((log, current, merged[key]))
        if name == CLEANED:  # Kafka's file has no entry for a log that was never compacted
            merged = {key: offset for key, offset in merged.items() if offset > 0}
        is_said = name in self._current and merged == self._offsets[name]
        is_cut = any(current for _, current, _ in limits)
        if is_said and not is_cut and self._fs.exists(self._files[name].path):
            return
        self._named.update(merged)
        self._current.discard(name)
        write_offsets(self._files[name], merged)
        self._offsets[name] = merged
        self._current.add(name)
        for log, current, offset in limits:
            # A removed log took its limits along, and another log of that name may stand in its
            # place (P-51).
            if log.deleted:
                continue
            try:
                log.limits.written(current, name, offset)
            except FileNotFoundError:
                if not log.deleted:
                    raise
