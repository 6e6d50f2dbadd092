"""`compacted`: an empty file in a partition's directory: offsets may be missing in this log.

Only compaction leaves gaps, and a log is most often read with none expected: then a gap tells that
bytes were lost or misplaced. So before the first cleaning of a log, and before a follower appends
the first gap that its leader's cleaning has left, the file is made, durably. From then on recovery
takes a later base offset for lawful, wherever it stands (I-1, I-7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.checkpoints import OFFSET_MAX
from strandline_broker.storage.files.file import CREATE, File

if TYPE_CHECKING:
    from strandline_runtime.runtime import FileSystem

NAME: Final = "compacted"


class FirstGap(Exception):
    """A follower's log is about to get its first gap, which must be noted durably before."""


class Gaps:
    """Whether those of one log are expected."""

    __slots__ = ("_below", "_directory", "_fs", "expected")

    def __init__(self, fs: FileSystem, directory: str, below: int = 0) -> None:
        """`below`: up to where a cleaner's checkpoint says that it has come."""
        self._fs = fs
        self._directory = directory
        self._below = below
        self.expected = fs.exists(f"{directory}/{NAME}")

    @property
    def below(self) -> int:
        """Offsets may be missing before a batch that begins here or below."""
        return OFFSET_MAX if self.expected else self._below

    def lawful(self, offset: int) -> bool:
        """Whether offsets before `offset` may be missing."""
        return self.expected or offset <= self._below

    def expect(self) -> None:
        """From now on; durable on return."""
        if not self.expected:
            File(self._fs, f"{self._directory}/{NAME}", CREATE)
            self._fs.fsync_dir(self._directory)
            self.expected = True
