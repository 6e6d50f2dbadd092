"""Processor time and memory of processes, as the system counts them."""

import os
from pathlib import Path


def cpu_s(pid: int) -> float:
    """Seconds of a core that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int | None) -> float:
    """Resident memory of a process, in units of 10^6 bytes."""
    assert pid is not None
    for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise AssertionError(f"/proc/{pid}/status has no VmRSS")
