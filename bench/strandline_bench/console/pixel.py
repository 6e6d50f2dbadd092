"""The time from a record until a browser has drawn it.

The clock of the page is that of this machine, so both ends are comparable.
"""

import asyncio
import contextlib
import json
import random
import shutil
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Final

from strandline_bench.console.browser import Browser, BrowserFailed

PROGRAMS: Final = ("chromium", "chromedriver")
PAUSE_S: Final = (0.1, 0.25)
"""The limits of the time between two records: it is no multiple of the console's frames."""
WAIT_S: Final = 30.0
_FOLLOW: Final = """
const cell = document.querySelector(arguments[0]);
const drawn = (window.strandlineDrawn = []);
const channel = new MessageChannel();
channel.port1.onmessage = ({ data }) =>
  drawn.push([data, performance.timeOrigin + performance.now()]);
const look = () => channel.port2.postMessage(Number(cell.innerText.replace(/[^0-9]/g, "")));
new MutationObserver(look).observe(cell, {subtree: true, characterData: true, childList: true});
return true;
"""
"""The pages change in callbacks of a screen's frame. A message that is posted there arrives behind
the frame's drawing.
"""


def what_is_missing() -> str | None:
    """One sentence about the programs that are not installed; None if all are."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if not missing:
        return None
    return (
        f"{' and '.join(missing)} not found: install them (Debian: apt-get install chromium"
        " chromium-driver), or measure --only cost"
    )


class Stream:
    """The console's stream, read in a thread: when it had each log end of one replica."""

    def __init__(self, address: str, partition: str, broker: int) -> None:
        self._url = f"{address}api/stream?partition={partition}"
        self._key = f"{partition}@{broker}"
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.seen: list[tuple[int, float]] = []
        """(log end, time in milliseconds)."""

    def __enter__(self) -> "Stream":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(WAIT_S)

    def _read(self) -> None:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(self._url, timeout=WAIT_S) as all_,
        ):
            for line in all_:
                if self._is_over.is_set():
                    return
                if line.startswith(b'data: {"frame"'):
                    now_ms = time.time() * 1000
                    changed = json.loads(line[6:])["changed"]
                    end = changed.get("replicas", {}).get(self._key, {}).get("log_end")
                    if end is not None:
                        self.seen.append((end, now_ms))


def times_ms(sent: list[tuple[int, float]], seen: list[tuple[int, float]]) -> list[float]:
    """Milliseconds from each (log end, time) that was sent to the first that was seen with it.

    An end that nothing showed, because a later record came with it, counts at the first that is
    not below it. Raises BrowserFailed if an end was never seen.
    """
    found = []
    for end, sent_ms in sent:
        first = min((at_ms for shown, at_ms in seen if shown >= end), default=None)
        if first is None:
            raise BrowserFailed(f"log end {end} was never shown")
        found.append(first - sent_ms)
    return found


async def follow(
    browser: Browser, page: str, cell: str, send: Callable[[], Awaitable[int]], records: int
) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """The log ends that were sent, and those that `cell` drew, each with its time in milliseconds.
    `send` sends a record and returns the log end behind it.
    """
    browser.open(page)
    browser.wait("document.querySelector(arguments[0])", cell)
    reached = "Number(document.querySelector(arguments[0]).innerText.replace(/[^0-9]/g, ''))"
    browser.wait(f"{reached} >= arguments[1]", cell, await send())
    browser.js(_FOLLOW, cell)
    sent: list[tuple[int, float]] = []
    for _ in range(records):
        at_ms = time.time() * 1000
        sent.append((await send(), at_ms))
        await asyncio.sleep(random.uniform(*PAUSE_S))
    last = sent[-1][0]
    browser.wait("window.strandlineDrawn.some(one => one[0] >= arguments[0])", last)
    drawn = [(int(end), float(at_ms)) for end, at_ms in browser.js("return strandlineDrawn")]
    return sent, drawn
