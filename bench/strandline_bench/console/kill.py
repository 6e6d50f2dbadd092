"""The time from the kill of a broker until the board of a browser shows it.

The clock of the page is that of this machine, so both ends are comparable.
"""

import time
from collections.abc import Callable
from typing import Final

from strandline_bench.console.browser import Browser

_FOLLOW: Final = """
const [chip] = arguments;
window.strandlineLost = 0;
const channel = new MessageChannel();
channel.port1.onmessage = () => {
  const now = performance.timeOrigin + performance.now();
  if (window.strandlineLost === 0) window.strandlineLost = now;
};
const look = () => {
  if (!document.querySelector(chip)?.innerText.includes("running")) channel.port2.postMessage(0);
};
const whole = {subtree: true, characterData: true, childList: true};
new MutationObserver(look).observe(document.querySelector("#app"), whole);
return true;
"""
"""As in `pixel`: a message that is posted in a callback of a screen's frame arrives behind the
frame's drawing.
"""


def chip_of(broker: int) -> str:
    """The place of a broker's state above the board, as a selector."""
    return f'[data-testid="broker-{broker}"]'


def follow_kill(browser: Browser, console: str, broker: int, kill: Callable[[], object]) -> float:
    """Milliseconds from the call of `kill` until the board has drawn that the broker is lost.
    `console`: the address of the console, which watches the broker.
    """
    browser.open(f"{console}#/board")
    chip = chip_of(broker)
    browser.wait("document.querySelector(arguments[0])?.innerText.includes('running')", chip)
    browser.js(_FOLLOW, chip)
    killed_ms = time.time() * 1000
    kill()
    drawn_ms = float(browser.wait("window.strandlineLost"))
    return drawn_ms - killed_ms
