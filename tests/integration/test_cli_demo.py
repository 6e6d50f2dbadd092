"""The demos, whole: real processes that are killed and paused, and the outcome that must come."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import start_strandline, strandline

DEADLINE_S = 300.0


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """An input that is long enough to kill a leader in its middle, with lines that repeat."""
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"line %d\n" % (n // 3) for n in range(12_000)))
    return path


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A short path for temporary files, where the test can see what is left of them."""
    with tempfile.TemporaryDirectory(prefix="sl-") as path:
        yield Path(path)


def test_every_acknowledged_record_is_there_after_the_death_of_a_leader(
    lines: Path, temporary: Path
) -> None:
    options = ("--no-spark", "--format", "json", "--input", lines)
    # Modules of these names that cannot be imported come first.
    for module in ("pyspark", "deltalake", "fastavro"):
        (lines.parent / f"{module}.py").write_text("raise AssertionError('nothing needs it')\n")
    environ = {"TMPDIR": str(temporary), "PYTHONPATH": str(lines.parent)}
    ended = strandline("demo", "flights", *options, environ=environ, deadline_s=DEADLINE_S)
    report = ended.json
    assert report["passed"] is True
    assert report["records_acknowledged"] == report["records_in_table"] == 12_000
    assert (report["lost"], report["duplicated"], report["gaps"]) == (0, 0, 0)
    assert report["leader_changed"] is True
    assert report["in_flight_at_kill"] > 0
    assert report["kill_to_next_ack_ms"] is not None
    assert os.listdir(temporary) == []


@pytest.mark.skipif(shutil.which("java") is None, reason="NO JAVA: the Spark part is not tested")
def test_spark_puts_every_acknowledged_record_into_the_table_once(
    lines: Path, temporary: Path
) -> None:
    options = ("--format", "json", "--input", lines)
    ended = strandline(
        "demo", "flights", *options, environ={"TMPDIR": str(temporary)}, deadline_s=DEADLINE_S
    )
    report = ended.json
    assert report["passed"] is True
    assert report["records_in_table"] == 12_000


def test_an_input_too_short_to_kill_a_leader_in_is_refused(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_text("")
    refused = strandline("demo", "flights", "--no-spark", "--input", short)
    assert refused.status == 1
    assert "is empty" in refused.error


def test_ctrl_c_leaves_neither_processes_nor_files_behind(lines: Path, temporary: Path) -> None:
    demo = start_strandline(
        ["demo", "flights", "--no-spark", "--input", lines],
        environ={"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    pids = _wait_for_servers(temporary, demo)
    demo.send_signal(signal.SIGINT)
    _, error = demo.communicate(timeout=300)
    assert demo.returncode == 130
    assert error == b""
    assert os.listdir(temporary) == []
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def _wait_for_servers(temporary: Path, demo: "subprocess.Popen[bytes]") -> list[int]:
    from support.cluster import eventually

    def written() -> list[int] | None:
        assert demo.poll() is None
        files = list(temporary.glob("*/cluster/run/*.pid"))
        return [int(f.read_text().split()[0]) for f in files] if len(files) == 4 else None

    return eventually(written, "four servers are started")


def test_both_histories_happen_by_high_watermark_and_neither_by_leader_epoch() -> None:
    ended = strandline("demo", "kip101", "--format", "json", deadline_s=DEADLINE_S)
    assert ended.status == 0, ended
    played = json.loads(ended.out)
    assert {(p["truncation"], p["history"]): p["happened"] for p in played} == {
        ("high-watermark", "loss"): True,
        ("high-watermark", "divergence"): True,
        ("leader-epoch", "loss"): False,
        ("leader-epoch", "divergence"): False,
    }
