"""The two histories of `demo kip101`, in a browser: what followers cut off stays as ghosts if they
truncate by high watermark, and nothing was cut off if they use leader epochs.
"""

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline_bench.console.browser import Browser
from strandline_cli.demo.kip101_history import TOPIC, A, C, History

pytestmark = [pytest.mark.browser, pytest.mark.integration, pytest.mark.proof]
GHOSTS = '[data-testid="ghost-line"]'
CUT_OFF = (
    "[...document.querySelectorAll(arguments[0])]"
    ".some(e => e.innerText.trim().startsWith('Offset 3 '))"
)
END = '[data-testid="lane-{}"] [data-offset="end"]'


class RealConsole:
    """A console of a cluster that may start later than it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._address: str | None = None

    def address(self) -> str:
        """Its address, once it has found the cluster."""
        assert self._process.stdout is not None
        if self._address is None:
            found = (re.search(r"http://[^ /]+", line) for line in self._process.stdout)
            self._address = next((one[0] for one in found if one), None)
        assert self._address is not None, "the console ended without an address"
        return self._address


@contextlib.contextmanager
def real_console(bootstrap: str) -> Iterator[RealConsole]:
    command = [sys.executable, "-c", "from strandline_cli.main import main; main()", "console"]
    options = ["--bootstrap", bootstrap, "--port", "0", "--wait", "120"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield RealConsole(process)
        finally:
            process.terminate()
            process.wait()


@pytest.mark.parametrize("kind", ["loss", "divergence"])
@pytest.mark.parametrize("truncation", ["high-watermark", "leader-epoch"])
def test_ghosts_of_a_history(browser: Browser, tmp_path: Path, truncation: str, kind: str) -> None:
    is_cut = truncation == "high-watermark"
    shown: list[list[str]] = []

    def show(played: History) -> None:
        """Look at the page once it has what the cluster has. The first time the cluster may not
        wait for a page: C learns the watermark soon, and then the history does not happen.
        """
        shown.append([])
        if len(shown) == 1:
            return
        if len(shown) == 2:
            browser.open(f"{console.address()}/#/partition/{TOPIC}:0")
        present = [C] if len(shown) == 2 else [A, C]  # then A is dead
        logs = played.logs()
        for broker in present:
            end = max(logs[broker], default=-1) + 1
            browser.wait_text(END.format(broker), str(end))
        if is_cut:
            browser.wait(CUT_OFF, GHOSTS)
        shown[-1] = browser.texts(GHOSTS)

    history = History(
        directory=tmp_path / "cluster",
        truncation=truncation,
        is_divergence=kind == "divergence",
        tell=lambda _: None,
        show=show,
    )
    with real_console(history.cluster.grpc_bootstrap) as console:
        result = history.play()
    assert len(shown) == 3
    ghosts = [[line for line in lines if line.startswith("Offset 3 ")] for lines in shown[1:]]
    if is_cut:
        assert result.lost or result.diverged
        assert all(ghosts), shown
        assert all("Was acknowledged:" in line for lines in ghosts for line in lines)
    else:
        assert not result.lost
        assert not result.diverged
        assert ghosts == [[], []]
