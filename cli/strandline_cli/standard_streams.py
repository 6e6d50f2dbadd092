"""Descriptors 0, 1 and 2 as a command needs them, whichever of them the shell has left open."""

import io
import os
import sys
from typing import Final

from strandline_cli.errors import OutputFailed, ReaderLeft

_FLAGS: Final = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_WRONLY}
"""Modes in which a closed descriptor (`>&-`) is opened as /dev/null. The first two are opened the
wrong way round, so that reading and writing fails as with a closed descriptor; output to stderr
vanishes.
"""


def complete() -> None:
    """Open all three descriptors, and let stdout give a reason when it accepts nothing.

    Otherwise the next file or socket of this process would take the number of a closed descriptor,
    and output would go into it.
    """
    for descriptor, flags in _FLAGS.items():
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, flags)
            assert opened == descriptor, (opened, descriptor)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    before = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Stdout(1, "w", closefd=False)),
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=before.isatty(),
    )


class _Stdout(io.FileIO):
    def write(self, data: "bytes | bytearray | memoryview", /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as why:
            raise failed_write(why) from None


def write_out(descriptor: int, data: bytes) -> None:
    """Write all of the data. Raises `failed_write` of an error."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError as why:
        raise failed_write(why) from None


def failed_write(why: OSError) -> Exception:
    """The command's error for a stdout that does not accept its output."""
    if isinstance(why, BrokenPipeError):
        return ReaderLeft()
    return OutputFailed(f"cannot write to standard output: {why.strerror}")


def let_go_of_stdout() -> None:
    """Prevent further writes to stdout, even of text that is buffered when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
