"""`strandline chaos live` as a user runs it: real processes, every kind of fault that this machine
can make, a verdict, and nothing left behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from strandline_chaos.faults.plan import KINDS
from strandline_cli.nemesis.local import cannot_do
from support.cluster import eventually
from support.command import clean_environ, start_strandline, strandline

SECONDS = 13
"""Enough for one fault of each kind."""
FAULTS = ("--fault-seconds", "1", "--rest-seconds", "0.2", "--seed", "7")
RATE = ("--rate", "25")
"""Some sixteen records of each partition in each second."""
RUN_S = 240.0


def left_behind(tmp_path: Path) -> list[str]:
    """Processes, mounts and folders of a run in `tmp_path`."""
    found = [str(path) for path in tmp_path.glob("strandline-chaos-*")]
    found += [
        line for line in Path("/proc/mounts").read_text().splitlines() if str(tmp_path) in line
    ]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
            files = [os.readlink(each) for each in (process / "fd").iterdir()]
        except OSError:
            continue
        if process.name != str(os.getpid()) and any(
            str(tmp_path) in each for each in (words, *files)
        ):
            found.append(words)
    return found


def test_every_fault_of_this_machine_is_survived(tmp_path: Path) -> None:
    ended = strandline(
        *("chaos", "live", "--minutes", SECONDS / 60, *FAULTS, *RATE),
        environ={"TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        deadline_s=RUN_S,
    )
    last = ended.out.splitlines()[-1]
    assert ended.status == 0, f"{ended.out}\n{ended.err}"
    assert last.startswith(f"verdict: sound (seed 7, {SECONDS} s, "), ended.out
    for kind in KINDS:
        told = f"    {kind:10} " if kind in cannot_do() else f": {kind} "
        assert told in ended.out, ended.out
    assert "Every promise was kept." in (tmp_path / "chaos-live-7.html").read_text()
    assert left_behind(tmp_path) == []


def test_ctrl_c_in_the_middle_of_a_fault_leaves_nothing_behind(tmp_path: Path) -> None:
    out, cannot = tmp_path / "out", cannot_do()
    kind = next(kind for kind in ("disk-slow", "pause") if kind not in cannot)
    with out.open("wb") as file:
        process = start_strandline(
            ["chaos", "live", "--minutes", "5", "--fault-seconds", "60", "--faults", kind, *RATE],
            environ=clean_environ({"TMPDIR": str(tmp_path)}),
            cwd=tmp_path,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(lambda: "begin 1" in out.read_text() or process.poll() is not None, "a fault")
        process.send_signal(signal.SIGINT)
        assert process.wait(RUN_S) == 130, out.read_text()
    finally:
        process.kill()
        process.wait()
    assert left_behind(tmp_path) == []
    assert list(tmp_path.glob("*.html")) == []
