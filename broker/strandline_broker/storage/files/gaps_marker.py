"""The marker `compacted`: an empty file in a partition's directory says that offsets may be missing
in this log.

Only compaction leaves gaps. Most logs expect none, so a gap there proves that bytes were lost or
misplaced. The file is therefore created, durably, before the first cleaning of a log, and before a
follower appends the first gap from its leader's cleaning. From then on recovery accepts a gap
anywhere (I-1, I-7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.checkpoints import OFFSET_MAX
from strandline_broker.storage.files.file import CREATE, File

if TYPE_CHECKING:
    from strandline_runtime.runtime import FileSystem

NAME: Final = "compacted"


class FirstGap(Exception):
    """A follower's log is about to get its first gap, which must be recorded durably first."""


class Gaps:
    """The expectation of gaps in one log."""

    __slots__ = ("_below", "_directory", "_fs", "expected")

    def __init__(self, fs: FileSystem, directory: str, below: int = 0) -> None:
        """Load the marker; `below` is the offset that a cleaner's checkpoint has reached."""
        self._fs = fs
        self._directory = directory
        self._below = below
        self.expected = fs.exists(f"{directory}/{NAME}")

    @property
    def below(self) -> int:
        """The limit of gaps: offsets may be missing before a batch that begins at or below it."""
        return OFFSET_MAX if self.expected else self._below

    def lawful(self, offset: int) -> bool:
        """True if offsets before `offset` may be missing."""
        return self.expected or offset <= self._below

    def expect(self) -> None:
        """Expect gaps from now on; durable on return."""
        if not self.expected:
            File(self._fs, f"{self._directory}/{NAME}", CREATE)
            self._fs.fsync_dir(self._directory)
            self.expected = True
