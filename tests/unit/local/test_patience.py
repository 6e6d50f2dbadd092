"""A wait for processes of our own: what counts against them, and what does not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strandline_local.patience import STRETCH, Patience, work_of


class Machine:
    """A clock, and what processes have done by it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.work = {1: (5.0, 0), 2: (7.0, 0)}

    def patience(self, wait_s: float) -> Patience:
        return Patience(wait_s, lambda: self.work, work=self.work.__getitem__, now=lambda: self.now)

    def pass_time(self, seconds: float, *, busy_s: float = 0.0, read: int = 0) -> None:
        self.now += seconds
        done_s, done_bytes = self.work[2]
        self.work[2] = done_s + busy_s, done_bytes + read


def test_idle_processes_have_the_time_that_they_were_given() -> None:
    machine = Machine()
    patience = machine.patience(10.0)
    machine.pass_time(9.9)
    assert not patience.is_over()
    machine.pass_time(0.2)
    assert patience.is_over()


def test_time_in_which_one_works_or_waits_for_a_processor_does_not_count() -> None:
    machine = Machine()
    patience = machine.patience(10.0)
    for _ in range(5):
        machine.pass_time(8.0, busy_s=8.0)
        assert not patience.is_over()
    machine.pass_time(9.0, busy_s=4.0)
    assert not patience.is_over()
    machine.pass_time(5.5)
    assert patience.is_over()


def test_a_thread_that_ends_takes_nothing_from_the_time_that_is_left() -> None:
    """A server's threads end when it stops, and with them goes what they had worked."""
    machine = Machine()
    patience = machine.patience(10.0)
    machine.pass_time(0.3, busy_s=-6.0)
    assert not patience.is_over()
    machine.pass_time(6.0)
    assert not patience.is_over()
    machine.pass_time(4.0)
    assert patience.is_over()


def test_time_in_which_one_reads_from_the_disk_does_not_count() -> None:
    machine = Machine()
    patience = machine.patience(10.0)
    machine.pass_time(30.0, read=4096)
    assert not patience.is_over()


def test_a_process_that_works_for_ever_is_not_waited_for_for_ever() -> None:
    machine = Machine()
    patience = machine.patience(10.0)
    machine.pass_time(10.0 * STRETCH, busy_s=10.0 * STRETCH)
    assert patience.is_over()


def test_without_processes_it_is_a_plain_deadline() -> None:
    machine = Machine()
    machine.work.clear()
    patience = machine.patience(1.0)
    machine.now = 1.1
    assert patience.is_over()


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the system does not tell")
def test_a_process_that_computes_works_and_one_that_is_stopped_does_not() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        try:
            deadline = time.monotonic() + 60
            while work_of(spinning.pid)[0] < 0.2:
                assert time.monotonic() < deadline
            spinning.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, spinning.pid, os.WSTOPPED | os.WNOWAIT)
            assert work_of(spinning.pid) == work_of(spinning.pid)
        finally:
            spinning.kill()


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert work_of(gone.pid) == (0.0, 0)


def test_a_process_may_end_between_two_looks_at_its_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    monkeypatch.setattr(Path, "is_dir", lambda _: True)
    assert work_of(gone.pid) == (0.0, 0)
