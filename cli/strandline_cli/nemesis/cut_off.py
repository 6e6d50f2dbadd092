"""`python -m strandline_cli.nemesis.cut_off NAME PID PORT...`: a process of this machine without a
network.

Packets on loopback from and to the ports vanish, and those of the process's own connections. A
control group finds the connections that the process opens later. It says `ready`, and takes
everything back when standard input closes, even by the death of its parent.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from strandline_cli.errors import CliError, ClusterError
from strandline_cli.nemesis.disks import has_sys_admin
from strandline_local.tools import run_tool

PROC: Final = Path("/proc")
_LISTENS: Final = "0A"
_LAST_S: Final = 10.0
_PROBE: Final = "strandline-probe"
_WAIT: Final = ("-w", "5")
"""iptables waits for other programs that change the rules."""


def cannot_cut_off() -> str | None:
    """The reason why no process of this machine can be cut off; None if one can."""
    if not has_sys_admin():
        return "only root can drop packets on loopback"
    if shutil.which("iptables") is None:
        return "no iptables here: nothing can drop packets on loopback"
    root = find_groups()
    if root is None:
        return "no cgroup2 is mounted here: the connections of one process cannot be told apart"
    group = root / _PROBE
    try:
        group.mkdir(exist_ok=True)
        _rule("-A", "OUTPUT", *_of_group(_PROBE))
        _rule("-D", "OUTPUT", *_of_group(_PROBE))
    except (OSError, ClusterError) as why:
        return f"this kernel does not drop the packets of one process: {why}"
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()
    return None


def find_groups() -> Path | None:
    """The directory at which the control groups of version 2 are mounted."""
    for line in (PROC / "mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    return None


class CutOff:
    """A process that is cut off from `begin` to `end`."""

    def __init__(self, name: str, pid: int, ports: Iterable[int]) -> None:
        """`name`: that of the control group, which no other fault of this machine has. `ports`:
        those on which the process listens.
        """
        self._words = [sys.executable, "-m", __name__, name, str(pid), *map(str, ports)]
        self._holder: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Cut the process off. Raises CliError."""
        holder = subprocess.Popen(
            self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() == b"":
            why = holder.stderr.read().decode(errors="replace").strip()
            _end(holder)
            raise CliError(f"the process was not cut off: {why.splitlines()[-1] if why else ''}")
        self._holder = holder

    def end(self) -> None:
        """Join the process again."""
        holder, self._holder = self._holder, None
        if holder is not None:
            _end(holder)


def _end(holder: subprocess.Popen[bytes]) -> None:
    for stream in (holder.stdin, holder.stdout, holder.stderr):
        assert stream is not None
        stream.close()
    holder.wait(_LAST_S)


def local_ports(pid: int) -> set[int]:
    """The local ports of the process's open TCP connections."""
    sockets = set()
    for entry in (PROC / str(pid) / "fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            target = os.readlink(entry)
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        file = PROC / str(pid) / "net" / table
        for line in file.read_text().splitlines()[1:] if file.exists() else ():
            fields = line.split()
            if fields[9] in sockets and fields[3] != _LISTENS:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def rules(name: str, ports: Iterable[int]) -> list[list[str]]:
    """The rules that cut the process off, without the command."""
    found = [["OUTPUT", *_of_group(name)]]
    for port in sorted(ports):
        for side in ("--sport", "--dport"):
            found.append(["INPUT", "-i", "lo", "-p", "tcp", side, str(port), "-j", "DROP"])
    return found


def _of_group(name: str) -> list[str]:
    return ["-o", "lo", "-m", "cgroup", "--path", name, "-j", "DROP"]


def _rule(action: str, *words: str) -> None:
    run_tool("iptables", *_WAIT, action, *words)


def _hold(name: str, pid: int, ports: Iterable[int]) -> None:
    """Cut the process off until standard input closes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    root = find_groups()
    if root is None:
        raise CliError("no cgroup2 is mounted here")
    group, before = root / name, _group_of(pid)
    group.mkdir(exist_ok=True)
    done: list[list[str]] = []
    try:
        (group / "cgroup.procs").write_text(str(pid))
        for words in rules(name, {*ports, *local_ports(pid)}):
            _rule("-I", *words)
            done.append(words)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        for words in done:
            with contextlib.suppress(ClusterError):
                _rule("-D", *words)
        with contextlib.suppress(OSError):
            for member in (group / "cgroup.procs").read_text().split():
                (root / before / "cgroup.procs").write_text(member)
            group.rmdir()


def _group_of(pid: int) -> str:
    """The path of the process's control group of version 2."""
    lines = (PROC / str(pid) / "cgroup").read_text().splitlines()
    return next(line.split("::", 1)[1] for line in lines if line.startswith("0::")).lstrip("/")


if __name__ == "__main__":
    try:
        _hold(sys.argv[1], int(sys.argv[2]), [int(port) for port in sys.argv[3:]])
    except (ClusterError, OSError) as why:
        sys.exit(str(why))
