"""`python -m strandline_cli.nemesis.delay_line NEAR FAR MS`: a cable that holds packets back.

It makes two tap devices and passes what comes in at one out at the other, MS later, in order. It
says `ready`, and ends when standard input closes. A queue that is full drops packets, as a cable's
device does.
"""

import contextlib
import fcntl
import os
import select
import signal
import struct
import sys
import time
from collections import deque
from typing import Final

_TUNSETIFF: Final = 0x400454CA
_TAP_WITHOUT_HEADER: Final = 0x0002 | 0x1000
_FRAME_BYTES: Final = 1 << 16
_QUEUED_MAX: Final = 20_000


def _tap(name: str) -> int:
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH", name.encode(), _TAP_WITHOUT_HEADER))
    return fd


def pass_on(one: int, other: int, until: int, delay_s: float) -> None:
    """Pass packets between two descriptors until the third one closes."""
    peers = {one: other, other: one}
    held: deque[tuple[float, int, bytes]] = deque()
    while True:
        wait_s = max(0.0, held[0][0] - time.monotonic()) if held else None
        readable, _, _ = select.select([one, other, until], [], [], wait_s)
        if until in readable and os.read(until, 1) == b"":
            return
        for fd in readable:
            if fd in peers:
                _take(fd, peers[fd], held, time.monotonic() + delay_s)
        while held and held[0][0] <= time.monotonic():
            _, to, frame = held.popleft()
            with contextlib.suppress(OSError):
                os.write(to, frame)


def _take(fd: int, to: int, held: deque[tuple[float, int, bytes]], due_s: float) -> None:
    with contextlib.suppress(OSError):
        while len(held) < _QUEUED_MAX:
            held.append((due_s, to, os.read(fd, _FRAME_BYTES)))


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the command that has made it ends it
    near, far, delay_ms = sys.argv[1:]
    one, other = _tap(near), _tap(far)
    print("ready", flush=True)
    pass_on(one, other, 0, int(delay_ms) / 1000)


if __name__ == "__main__":
    main()
