"""Headless Chromium, driven through its own driver by the WebDriver protocol."""

import contextlib
import json
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PATIENCE_S = 60.0
"""How long a condition of a page is waited for; the machine may be busy."""
KEYS = {"left": "\ue012", "up": "\ue013", "right": "\ue014", "down": "\ue015", "enter": "\ue007"}


class BrowserFailed(AssertionError):
    """The driver refused a command, or a page did not get where a test waited for it."""


@dataclass(frozen=True, slots=True)
class Browser:
    """One window."""

    session: str

    def open(self, url: str) -> None:
        """Loads a page afresh, even if only the part behind # differs."""
        self._call("POST", "/url", {"url": "about:blank"})
        self._call("POST", "/url", {"url": url})

    def js(self, script: str, *arguments: object) -> Any:
        """The value that the body of a function returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def texts(self, selector: str) -> list[str]:
        """The text of each element that a selector finds, as it is seen."""
        return list(
            self.js(
                "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText.trim())",
                selector,
            )
        )

    def wait(self, condition: str, *arguments: object) -> Any:
        """Waits until an expression is true; returns its value."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if found := self.js(f"return {condition}", *arguments):
                return found
            time.sleep(0.02)
        seen = self.js("return document.body.innerText")
        raise BrowserFailed(f"never true: {condition} {arguments}; the page says:\n{seen[:3000]}")

    def wait_text(self, selector: str, text: str) -> None:
        self.wait(
            "[...document.querySelectorAll(arguments[0])]"
            ".some(e => e.innerText.includes(arguments[1]))",
            selector,
            text,
        )

    def click(self, selector: str) -> None:
        element = self.wait("document.querySelector(arguments[0])", selector)
        self._call("POST", f"/element/{next(iter(element.values()))}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Types into an element; `KEYS` has those without a character."""
        element = self.wait("document.querySelector(arguments[0])", selector)
        path = f"/element/{next(iter(element.values()))}/value"
        self._call("POST", path, {"text": text})

    def press(self, selector: str, key: str) -> None:
        """Presses a key in an element that takes keys and no text."""
        self.wait("document.querySelector(arguments[0])", selector)
        self.js("document.querySelector(arguments[0]).focus()", selector)
        for kind in ("keyDown", "keyUp"):
            self.devtools("Input.dispatchKeyEvent", {"type": kind, "key": key})

    def resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, **features: str) -> None:
        """Media features of the user, for instance prefers_color_scheme="dark"."""
        found = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.devtools("Emulation.setEmulatedMedia", {"features": found})

    def devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def complaints(self) -> list[str]:
        """The browser's log: errors of scripts, refusals by the content security policy."""
        found = self._call("POST", "/se/log", {"type": "browser"})
        return [str(one["message"]) for one in found if one["level"] in ("SEVERE", "WARNING")]

    def picture(self) -> bytes:
        return b64decode(self._call("GET", "/screenshot"))

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return _call(method, self.session + path, body)


def _call(method: str, url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=2 * PATIENCE_S) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as refused:
        with refused:
            said = json.load(refused)["value"]["message"]
        raise BrowserFailed(f"{method} {url}: {said}") from None


_ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
    *("--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"),
)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own, which goes with it."""
    with tempfile.TemporaryDirectory(prefix="strandline-browser-") as profile, _driver() as driver:
        options = {"args": [*_ARGUMENTS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = _call("POST", f"{driver}/session", {"capabilities": {"alwaysMatch": wanted}})
        browser = Browser(f"{driver}/session/{session['sessionId']}")
        browser.resize(1280, 860)
        try:
            yield browser
        finally:
            _call("DELETE", browser.session)


@contextlib.contextmanager
def _driver() -> Iterator[str]:
    with subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if found := re.search(r"successfully on port (\d+)", line):
                    yield f"http://127.0.0.1:{found[1]}"
                    break
            else:
                raise BrowserFailed("chromedriver ended without a port")
        finally:
            process.terminate()
            process.communicate()
