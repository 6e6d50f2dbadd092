"""One server process on this machine: started, signalled and watched through its pid file.

A pid file names the process by pid *and* start time. So a number that the system has since given to
another process is never signalled. Where the system has pid descriptors, the check and the signal
concern the same process even if it ends in between.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from strandline_local.patience import Patience

_HAS_PROC: Final = Path("/proc/self/stat").exists()
_POLL_S: Final = 0.02
_LOOK_S: Final = 0.1
_REAP_S: Final = 5.0
_KILLED_S: Final = 20.0


def start_identity(pid: int) -> str | None:
    """An identity that distinguishes this process from any other with its pid. None if the process
    has ended; a zombie has ended when its last thread has.
    """
    if not _HAS_PROC:
        return _start_identity_by_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name stands in parentheses and may hold anything, so the fields are counted
    # behind it.
    fields = stat.rpartition(")")[2].split()
    state, start_ticks = fields[0], fields[19]
    if state in "ZX" and not _has_living_thread(pid):
        return None
    return f"{boot}/{start_ticks}"


def _has_living_thread(pid: int) -> bool:
    """True if a process lives on after its first thread: it holds its locks and ports until its
    last thread ends.
    """
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):  # its parent has taken its status
        return False
    for thread in threads:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
            if stat.rpartition(")")[2].split()[0] not in "ZX":
                return True
    return False


def _start_identity_by_ps(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return None if state == "" or state.startswith("Z") else started.strip()


def how_it_ended(status: int) -> str:
    """The exit status in words; negative for a signal."""
    if status >= 0:
        return f"ended with exit status {status}"
    return f"was ended by {signal.Signals(-status).name}"


def spawn(
    argv: Sequence[str],
    environ: Mapping[str, str],
    output: int,
    inherited: Sequence[int] = (),
    groups: Sequence[int] | None = None,
) -> "subprocess.Popen[bytes]":
    """Run `argv` in a session of its own, with its output to this descriptor. The process inherits
    the descriptors `inherited`, and is in these supplementary groups of users (None: as here).
    """
    # Ctrl-C at the terminal reaches the command alone, which then stops the servers in order.
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=dict(environ),
        start_new_session=True,
        pass_fds=inherited,
        extra_groups=groups,
    )


class ServerProcess:
    """The process called `name`, with its pid file and its log file."""

    def __init__(self, *, name: str, pid_file: Path, log_file: Path) -> None:
        self.name = name
        self.pid_file = pid_file
        self.log_file = log_file
        self._child: subprocess.Popen[bytes] | None = None

    def start(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        *,
        inherited: Sequence[int] = (),
        groups: Sequence[int] | None = None,
    ) -> int:
        """Run `argv` in a new session, its output appended to the log file."""
        assert self.pid is None, (self.name, self.pid)
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self.pid_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            child = spawn(argv, environ, log.fileno(), inherited, groups)
        self._child = child
        try:
            self._write_pid_file(child.pid)
        except BaseException:  # a full disk: what no file names could not be stopped
            child.kill()
            child.wait()
            raise
        return child.pid

    def _write_pid_file(self, pid: int) -> None:
        fresh = self.pid_file.with_suffix(".new")
        fresh.write_text(f"{pid}\n{start_identity(pid) or 'ended'}\n")
        fresh.replace(self.pid_file)

    def _recorded(self) -> tuple[int, str] | None:
        try:
            lines = self.pid_file.read_text().splitlines()
            return int(lines[0]), lines[1]
        except (FileNotFoundError, ValueError, IndexError):
            return None

    @property
    def recorded(self) -> bool:
        """True if the process was started, and was not stopped on purpose since."""
        return self._recorded() is not None

    @property
    def pid(self) -> int | None:
        """The pid while the process lives, else None."""
        self._reap()
        recorded = self._recorded()
        if recorded is None or start_identity(recorded[0]) != recorded[1]:
            return None
        return recorded[0]

    def _reap(self, wait_s: float = 0.0) -> None:
        """Take its exit status if it has ended; a zombie would stay otherwise."""
        if self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(timeout=wait_s)

    @property
    def exit_status(self) -> int | None:
        """Exit status, negative for a signal, if this program started the process; else None."""
        if self._child is None or self.pid is not None:
            return None
        self._reap(_REAP_S)  # its status comes a moment after its end
        return self._child.returncode

    def send(self, signal_number: signal.Signals) -> bool:
        """Send the signal. False if the process had ended, or its pid belongs to another process
        now.
        """
        recorded = self._recorded()
        if recorded is None:
            return False
        pid, identity = recorded
        with _PidDescriptor(pid) as descriptor:
            if start_identity(pid) != identity:
                return False
            try:
                if descriptor is None:
                    os.kill(pid, signal_number)
                else:
                    signal.pidfd_send_signal(descriptor, signal_number)
            except ProcessLookupError:
                return False
        return True

    def wait_until_gone(self, patience: "float | Patience") -> bool:
        """Wait for the end of the process; False if it outlives `patience`."""
        if not isinstance(patience, Patience):
            patience = Patience(patience, tuple)
        while (pid := self.pid) is not None:
            if patience.is_over():
                return False
            with _PidDescriptor(pid) as descriptor:
                if descriptor is None:
                    time.sleep(_POLL_S)
                else:
                    ended = select.poll()
                    ended.register(descriptor, select.POLLIN)
                    ended.poll(_LOOK_S * 1000)
        self._reap(_REAP_S)
        return True

    def end_by(self, patience: Patience) -> bool:
        """Wait for the end of the process, and kill it when `patience` is over. True if it ended by
        itself, even at the moment of the kill.
        """
        if self.wait_until_gone(patience) or not self.send(signal.SIGKILL):
            return True
        self.wait_until_gone(_KILLED_S)
        return self.exit_status not in (None, -signal.SIGKILL)

    def forget(self) -> None:
        """Remove the pid file after a deliberate stop."""
        self.pid_file.unlink(missing_ok=True)

    def last_log_lines(self, count: int = 8) -> list[str]:
        """The last lines of its log, for a message about its death."""
        try:
            with self.log_file.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(0, size - 16_384))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        return [line for line in text.splitlines() if line.strip()][-count:]


class _PidDescriptor(contextlib.AbstractContextManager[int | None]):
    """A pid descriptor, or None where the system has none or the process is gone."""

    def __init__(self, pid: int) -> None:
        self._descriptor: int | None = None
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._descriptor = os.pidfd_open(pid)

    def __enter__(self) -> int | None:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
