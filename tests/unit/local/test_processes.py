"""A server process behind its pid file: nothing else is ever signalled."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline_local.patience import Patience
from strandline_local.processes import ServerProcess, start_identity

_GONE_S = 20.0
_SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ServerProcess]:
    made = _process(tmp_path)
    yield made
    made.send(signal.SIGKILL)
    made.wait_until_gone(_GONE_S)


def _process(directory: Path) -> ServerProcess:
    return ServerProcess(
        name="sleeper",
        pid_file=directory / "run" / "sleeper.pid",
        log_file=directory / "logs" / "sleeper.log",
    )


def test_a_process_that_was_never_started_has_no_pid(process: ServerProcess) -> None:
    assert process.pid is None
    assert not process.recorded
    assert process.last_log_lines() == []


def test_a_started_process_is_found_again_through_its_pid_file(
    process: ServerProcess, tmp_path: Path
) -> None:
    pid = process.start(_SLEEPER, os.environ)
    assert process.pid == pid
    assert _process(tmp_path).pid == pid


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="NOT TESTED: threads by /proc")
def test_a_process_whose_first_thread_has_ended_tells_the_status_of_its_last(
    process: ServerProcess,
) -> None:
    script = (
        "import ctypes, os, threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.5), os._exit(70))).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    process.start([sys.executable, "-c", script], os.environ)
    assert process.wait_until_gone(_GONE_S)
    assert process.exit_status == 70


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="NOT TESTED: threads by /proc")
def test_a_process_whose_status_is_taken_by_its_parent_during_the_look_has_ended(
    process: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process that another command has started."""
    pid = process.start([sys.executable, "-c", ""], os.environ)
    stat = Path(f"/proc/{pid}/stat")
    deadline = time.monotonic() + _GONE_S
    while stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
    plain = Path.read_text

    def read(path: Path) -> str:
        found = plain(path)
        if path == stat:
            os.waitpid(pid, 0)
        return found

    monkeypatch.setattr(Path, "read_text", read)
    assert start_identity(pid) is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="NOT TESTED: threads by /proc")
def test_a_process_whose_first_thread_has_ended_lives(process: ServerProcess) -> None:
    script = (
        "import ctypes, threading\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    pid = process.start([sys.executable, "-c", script], os.environ)
    deadline = time.monotonic() + _GONE_S
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
    assert process.pid == pid
    assert process.send(signal.SIGKILL)
    assert process.wait_until_gone(_GONE_S)


def test_a_process_that_ends_by_itself_at_the_deadline_was_not_killed(
    process: ServerProcess,
) -> None:
    """What is killed says so, and only then."""
    process.start([sys.executable, "-c", ""], os.environ)
    assert process.end_by(Patience(_GONE_S, tuple))
    process.start(_SLEEPER, os.environ)
    assert not process.end_by(Patience(0.0, tuple))
    process.start([sys.executable, "-c", ""], os.environ)
    assert process._child is not None
    os.waitid(os.P_PID, process._child.pid, os.WEXITED | os.WNOWAIT)
    assert process.end_by(Patience(0.0, tuple))


def test_a_process_that_no_pid_file_could_name_is_not_left_running(
    process: ServerProcess, tmp_path: Path
) -> None:
    (tmp_path / "run" / "sleeper.new").mkdir(parents=True)  # as on a full disk, it cannot be made
    with pytest.raises(IsADirectoryError):
        process.start(_SLEEPER, os.environ)
    assert process._child is not None
    assert process._child.returncode == -signal.SIGKILL


def test_a_killed_process_has_no_pid_and_tells_its_signal(process: ServerProcess) -> None:
    process.start(_SLEEPER, os.environ)
    assert process.send(signal.SIGKILL)
    assert process.wait_until_gone(_GONE_S)
    assert process.pid is None
    assert process.exit_status == -signal.SIGKILL
    assert process.recorded


def test_a_recycled_pid_is_not_signalled(process: ServerProcess) -> None:
    process.start(_SLEEPER, os.environ)
    mine = os.getpid()
    process_file = process.pid_file.read_text()
    process.pid_file.write_text(f"{mine}\nanother start time\n")
    assert process.pid is None
    # Were it delivered, this signal would end the test run.
    assert not process.send(signal.SIGKILL)
    process.pid_file.write_text(process_file)


@pytest.mark.parametrize("text", ["", "12\n", "twelve\nidentity\n", "\n\n"])
def test_a_damaged_pid_file_names_no_process(process: ServerProcess, text: str) -> None:
    process.pid_file.parent.mkdir(parents=True)
    process.pid_file.write_text(text)
    assert process.pid is None
    assert not process.send(signal.SIGKILL)


def test_waiting_for_a_living_process_ends_at_the_deadline(process: ServerProcess) -> None:
    process.start(_SLEEPER, os.environ)
    assert not process.wait_until_gone(0.05)
    assert process.pid is not None


def test_a_zombie_counts_as_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_identity(child.pid) is None
    child.wait()


def test_identity_of_a_process_stays_and_differs_from_another_ones(process: ServerProcess) -> None:
    pid = process.start(_SLEEPER, os.environ)
    assert start_identity(pid) == start_identity(pid)
    assert start_identity(pid) != start_identity(os.getpid())


def test_output_of_every_start_is_kept_in_the_log(process: ServerProcess) -> None:
    for word in ("first", "second"):
        process.start([sys.executable, "-c", f"print('{word}')"], os.environ)
        assert process.wait_until_gone(_GONE_S)
    assert process.last_log_lines() == ["first", "second"]
    assert process.last_log_lines(1) == ["second"]


def test_a_forgotten_process_was_stopped_on_purpose(process: ServerProcess) -> None:
    process.start(_SLEEPER, os.environ)
    process.send(signal.SIGTERM)
    assert process.wait_until_gone(_GONE_S)
    process.forget()
    assert not process.recorded
    process.forget()
