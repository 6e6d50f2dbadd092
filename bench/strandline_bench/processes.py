"""The processor time of groups of processes, and of all others on this machine meanwhile."""

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

TICKS: Final = os.sysconf("SC_CLK_TCK")
_BUSY: Final = (0, 1, 2, 5, 6)
"""Fields in the first line of /proc/stat: user, nice, system, irq, softirq."""
_LISTENING: Final = "0A"


class _Process(NamedTuple):
    parent: int
    name: str
    own_s: float
    ended_s: float
    """Seconds of children that have ended."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds of a core."""

    jvm: float
    python: float
    brokers: float
    busy: float
    """Seconds of the whole machine."""

    @property
    def others(self) -> float:
        return max(0.0, self.busy - self.jvm - self.python - self.brokers)

    def since(self, before: "Usage") -> "Usage":
        return Usage(
            self.jvm - before.jvm,
            self.python - before.python,
            self.brokers - before.brokers,
            self.busy - before.busy,
        )


def usage(brokers: Collection[int]) -> Usage:
    """The usage of this process and its children, of the given brokers apart, and of the
    machine.
    """
    processes = dict(_processes())
    jvm = python = 0.0
    for pid in _below(os.getpid(), processes, brokers):
        one = processes[pid]
        if one.name == "java":
            jvm += one.own_s
            python += one.ended_s  # the JVM's children are Python's workers and planners
        else:
            python += one.own_s + one.ended_s
    served = sum(processes[pid].own_s for pid in brokers if pid in processes)
    return Usage(jvm, python, served, _busy_s())


def workers(driver: int) -> list[int]:
    """Python's processes below the JVMs of `driver`."""
    processes = dict(_processes())
    jvms = [pid for pid in _below(driver, processes, ()) if processes[pid].name == "java"]
    below = {pid for jvm in jvms for pid in _below(jvm, processes, ())}
    return sorted(pid for pid in below if processes[pid].name != "java")


def listening(ports: Collection[int]) -> list[int]:
    """The processes of this machine that listen on any of the ports."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(ports)}
    found = []
    for pid in _pids() if sockets else ():
        if sockets & set(_held(pid)):
            found.append(pid)
    return found


def resident_mb_max(pid: int) -> float | None:
    """The most resident memory that a process has had, in units of 10^6 bytes; None if it ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    except OSError:
        return None
    peak = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return peak[0] * 1024 / 1e6 if peak else None


def _held(pid: int) -> Iterable[str]:
    """The open files of a process; empty if it is gone or belongs to another user."""
    try:
        files = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for file in files:
        try:
            yield os.readlink(f"/proc/{pid}/fd/{file}")
        except OSError:
            continue  # closed meanwhile


def _inodes(ports: Collection[int]) -> Iterable[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text("utf-8").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) in ports:
                yield fields[9]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _processes() -> Iterable[tuple[int, _Process]]:
    for pid in _pids():
        try:
            text = Path(f"/proc/{pid}/stat").read_text("utf-8")
        except OSError:
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        fields = text.rpartition(")")[2].split()
        own = (int(fields[11]) + int(fields[12])) / TICKS
        ended = (int(fields[13]) + int(fields[14])) / TICKS
        yield pid, _Process(int(fields[1]), name, own, ended)


def _below(root: int, processes: dict[int, _Process], without: Collection[int]) -> list[int]:
    """`root` and its descendants, except `without` and theirs."""
    children: dict[int, list[int]] = {}
    for pid, one in processes.items():
        children.setdefault(one.parent, []).append(pid)
    found, left = [], [root]
    while left:
        pid = left.pop()
        if pid not in without and pid in processes:
            found.append(pid)
            left += children.get(pid, [])
    return found


def _busy_s() -> float:
    fields = Path("/proc/stat").read_text("utf-8").splitlines()[0].split()[1:]
    return sum(int(fields[i]) for i in _BUSY) / TICKS
