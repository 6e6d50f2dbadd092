"""Lines of standard input for an event loop, in large portions, without blocking it.

A thread reads, because a read cannot be cancelled. It is a daemon, so that Ctrl-C ends the command
while the thread waits for a terminal or a pipe. The queue between the two is bounded: a slow
producer holds up the reader.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import Final

from strandline_cli.errors import CliError

READ_BYTES: Final = 1 << 20
LINE_BYTES_MAX: Final = 64 << 20
_PORTIONS_AHEAD_MAX: Final = 4


async def read_lines(descriptor: int = 0) -> AsyncIterator[list[bytes]]:
    """The lines of a descriptor without their ends, as many at a time as one read returned."""
    loop = asyncio.get_running_loop()
    portions: asyncio.Queue[bytes | OSError] = asyncio.Queue(_PORTIONS_AHEAD_MAX)
    threading.Thread(target=_pump, args=(descriptor, loop, portions), daemon=True).start()
    splitter = LineSplitter()
    while True:
        portion = await portions.get()
        if isinstance(portion, OSError):
            raise CliError(f"cannot read standard input: {portion.strerror}")
        if portion == b"":
            break
        if lines := splitter.feed(portion):
            yield lines
    if rest := splitter.finish():
        yield rest


def _pump(
    descriptor: int, loop: asyncio.AbstractEventLoop, portions: "asyncio.Queue[bytes | OSError]"
) -> None:
    portion: bytes | OSError = b" "
    while portion != b"" and not isinstance(portion, OSError):
        try:
            portion = os.read(descriptor, READ_BYTES)
        except OSError as why:
            portion = why
        try:
            asyncio.run_coroutine_threadsafe(portions.put(portion), loop).result()
        except (RuntimeError, asyncio.CancelledError):
            return  # the loop has ended; the rest is dropped


class LineSplitter:
    """Cuts portions of bytes into lines; a line may stretch over portions."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._begun_bytes = 0

    def feed(self, portion: bytes) -> list[bytes]:
        """The lines that end in this portion."""
        *ended, begun = portion.split(b"\n")
        if ended and self._begun:
            ended[0] = b"".join([*self._begun, ended[0]])
            self._begun.clear()
            self._begun_bytes = 0
        if begun:
            self._begun.append(begun)
            self._begun_bytes += len(begun)
            if self._begun_bytes > LINE_BYTES_MAX:
                raise CliError(
                    f"a line of standard input is longer than {LINE_BYTES_MAX >> 20} MiB: records"
                    " are lines, so give smaller ones"
                )
        return ended

    def finish(self) -> list[bytes]:
        """A last line that does not end with a newline."""
        rest, self._begun = self._begun, []
        return [b"".join(rest)] if rest else []
