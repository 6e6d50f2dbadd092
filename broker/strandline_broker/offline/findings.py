"""The results of a verification: one finding for each fault."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

FINDINGS_MAX: Final = 1000
"""Number of findings kept for one partition; further ones are counted."""


class Severity(StrEnum):
    DAMAGE = "damage"
    """Durable bytes are wrong or gone: a broker refuses the replica."""
    SUSPECT = "suspect"
    """A contradiction that may still be valid: the text says when."""
    CUT = "cut"
    """A torn tail, above the recovery point: the next start will cut it."""
    REPAIR = "repair"
    """Data derived from the batches is wrong: it is rebuilt from them."""
    NOTE = "note"
    """Information for the reader, without a fault."""


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    invariant: str
    path: str
    what: str
    position: int | None = None
    """Byte position in the file."""
    offset: int | None = None
    """First offset of the log that is concerned."""
    below_recovery_point: bool | None = None
    """True if the offset is below the recovery point. None: it has no offset, or the checkpoint
    gives none.
    """
    below_high_watermark: bool | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """The values for one partition in the shared files of the data directory; None: unknown."""

    recovery_point: int | None = None
    high_watermark: int | None = None
    log_start: int | None = None
    cleaned_to: int | None = None
    """Offset in the cleaner's checkpoint: below it a cleaning may have left gaps."""
    always: bool = False
    """True with flush.policy=always: data below the high watermark was durable too."""
    clean: bool = False
    """True if the last shutdown was clean: nothing was written after the checkpoints."""

    @property
    def durable_to(self) -> int | None:
        if self.always and self.recovery_point is not None and self.high_watermark is not None:
            return max(self.recovery_point, self.high_watermark)
        return self.recovery_point


@dataclass(slots=True)
class PartitionReport:
    """The findings of one partition, and the amount of data read."""

    path: str
    expected: Expected
    compacted: str | None = None
    """The reason why gaps are valid here; None if they are not."""
    log_start: int = 0
    log_end: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    unlisted: int = 0
    """Number of findings beyond those that are kept."""

    def add(
        self,
        severity: Severity,
        invariant: str,
        path: str,
        what: str,
        *,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        if len(self.findings) >= FINDINGS_MAX:
            self.unlisted += 1
            return
        recovery_point, high_watermark = self.expected.recovery_point, self.expected.high_watermark
        self.findings.append(
            Finding(
                severity,
                invariant,
                path,
                what,
                position,
                offset,
                None if offset is None or recovery_point is None else offset < recovery_point,
                None if offset is None or high_watermark is None else offset < high_watermark,
            )
        )

    @property
    def sound(self) -> bool:
        return self.unlisted == 0 and all(f.severity is Severity.NOTE for f in self.findings)


@dataclass(slots=True)
class RootReport:
    """The report on the files that all partitions of a data directory share."""

    path: str
    findings: list[Finding] = field(default_factory=list)
    unlisted: int = 0

    def add(self, severity: Severity, invariant: str, path: str, what: str) -> None:
        self.findings.append(Finding(severity, invariant, path, what))

    @property
    def sound(self) -> bool:
        return all(f.severity is Severity.NOTE for f in self.findings)
