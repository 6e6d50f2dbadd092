"""The four checkpoint files that all partitions of a data directory share, and what they may still
say.

Each may be written in the disk pool, by one caller at a time, while logs are cut, created and
removed elsewhere: values are clamped to what the logs hold now, and `checkpoint_limits` covers what
the files said before.
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

    from strandline_broker.storage.directory.checkpoint_limits import CheckpointLimits, Limit
    from strandline_broker.storage.log.log import Log
    from strandline_broker.storage.segment.damage import Report
    from strandline_runtime.runtime import FileSystem

Key = tuple[str, int]
Taken: TypeAlias = "Mapping[Log, tuple[Limit, ...]]"

_MOST: dict[str, Callable[[Log], int]] = {
    RECOVERY_POINTS: lambda log: log.durable_offset,
    HIGH_WATERMARKS: lambda log: log.log_end_offset,
    LOG_STARTS: lambda log: log.log_start_offset,
    CLEANED: lambda log: log.cleaned_to,
}
"""What a log can answer for at the moment, whatever was computed for it before."""

_CLOSED_WITH: Final = frozenset({RECOVERY_POINTS, LOG_STARTS})

UNKNOWN: Final = OFFSET_MAX
"""Of a partition whose entry was lost with its file, until its log is open and can answer: the file
may be written for others before that, and a process may end.
"""


class SharedCheckpoints:
    __slots__ = ("_current", "_files", "_fs", "_lost", "_named", "_offsets")

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._files = {name: SealedFile(fs, f"{path}/{name}") for name in _MOST}
        self._offsets: dict[str, Offsets] = {name: {} for name in _MOST}
        self._named: set[Key] = set()
        self._lost: set[str] = set()
        """Files that were there and not to be believed."""
        self._current: set[str] = set()
        """Files that say what is in `_offsets`, durably, no more and no less. What a start has read
        may have been written by a process that was killed before its sync.
        """

    def read(self, report: Report, here: Iterable[Key], *, closed: bool) -> bool:
        """False if one is lost without which nobody knows where the logs begin and end: then what
        is left of them must not count as what a clean stop had left, if it was one (`closed`).
        `here`: the partitions that may have an entry.
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
        """Whether the file may have had an entry for a partition, and nobody knows it any more."""
        missing = UNKNOWN if name in self._lost else 0
        return self._offsets[name].get(key, missing) == UNKNOWN

    def names(self, name: str, key: Key) -> bool:
        """Whether the file has an entry for a partition."""
        return key in self._offsets[name]

    def gaps_below(self, key: Key) -> int:
        """Up to where a cleaning may have left gaps in a log, whatever was cut from it since.

        Anywhere if that is lost: a log that Kafka has compacted bears no other sign of it (I-7).
        """
        return OFFSET_MAX if self.has_lost(CLEANED, key) else self._offsets[CLEANED].get(key, 0)

    def may_name(self, key: Key) -> bool:
        """Whether a file on disk may hold an entry for `key`, perhaps of an older topic of that
        name.
        """
        return key in self._named

    def offset(self, name: str, key: Key, limits: CheckpointLimits) -> int:
        """What the file says of a partition, as far as it may be believed; 0 if it says nothing."""
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
        """Partitions that `offsets` does not name keep what the file says of them (P-16). A file
        that says all this is left as it is, if it is there and no cut waits for it to be written: a
        directory that has gone is to be found out while nothing changes in it, too (KIP-112).

        `taken`: the logs of which the offsets are, with the limits that they had before; None if
        whatever a log can answer for now holds, a cut since or not. A high watermark does not: the
        log may have grown past it again, with other records (I-13). Nor does a log start: the log
        may have begun anew behind it, with nothing in between (I-75). One that was taken before
        another and comes behind it takes nothing back: what was told as durable stays said.
        """
        merged = dict(self._offsets[name])
        limits = []
        for key, offset in offsets.items():
            log = logs.get(key)
            if log is None or (taken is not None and log not in taken):
                continue
            # The limits before the value: one that a cut adds in between stays.
            current = log.limits.current() if taken is None else taken[log]
            if name == LOG_STARTS:
                offset = max(offset, merged.get(key, 0))
            merged[key] = min(offset, _MOST[name](log))
            limits.append((log, current, merged[key]))
        if name == CLEANED:  # Kafka's has no entry for a log that was never compacted
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
            # A log that was removed meanwhile took its limits along, and another of that name may
            # stand in its place (P-51).
            if log.deleted:
                continue
            try:
                log.limits.written(current, name, offset)
            except FileNotFoundError:
                if not log.deleted:
                    raise
