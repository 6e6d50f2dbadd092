"""What would leave the simulation is caught where it happens."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strandline_proof.sim.loop.guard import Leak, guarded

LEAKS: list[Callable[[], Any]] = [
    lambda: Path("somewhere.txt").read_text("utf-8"),
    lambda: Path("module.py").write_text("", "utf-8"),
    socket.socket,
    lambda: subprocess.run([sys.executable, "-V"], check=True),
    lambda: time.sleep(0),
    lambda: threading.Thread(target=print).start(),
    lambda: os.urandom(1),
    lambda: exec("import time; time.monotonic()", {"__name__": "strandline_broker.x"}),
]


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_an_error(leak: Callable[[], Any]) -> None:
    with guarded(), pytest.raises(Leak):
        leak()


def test_imports_work_and_libraries_may_read_the_clock() -> None:
    with guarded():
        __import__("colorsys")
        exec("import time; time.monotonic()", {"__name__": "prometheus_client"})
    assert time.monotonic() > 0
    with socket.socket():
        pass


def test_a_module_that_nobody_has_compiled_yet_may_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a fresh clone the first schedule imports what the servers load late."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "loaded_late.py").write_text("VALUE = 1\n", "utf-8")
    with guarded():
        assert __import__("loaded_late").VALUE == 1
    assert not (tmp_path / "__pycache__").exists()
    assert not sys.dont_write_bytecode
