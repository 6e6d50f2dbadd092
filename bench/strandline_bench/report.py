"""Figures on stdout, with the facts needed to judge them: machine, commit, configuration."""

import json
import math
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol


class Configured(Protocol):
    """The options of a benchmark."""

    def configuration(self) -> dict[str, object]: ...


Figures = dict[str, float | int | str]
_DIGITS: Final = {"ms": 2, "us": 2, "s": 3, "mb": 1, "share": 3}


class Report:
    """Prints one object (or one line of text) for each measure."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def environment(self, options: Configured) -> None:
        """Print the first object: the machine, commit and configuration of the figures."""
        self.put("environment", {**machine(), "commit": commit(), **options.configuration()})

    def measured(self, measure: str, figures: Figures) -> None:
        self.put(measure, {name: rounded(name, value) for name, value in figures.items()})

    def put(self, measure: str, fields: dict[str, object]) -> None:
        """Print the fields unchanged."""
        if self._as_json:
            print(json.dumps({"measure": measure, **fields}), flush=True)
        else:
            print(measure, *(f"{name}={value}" for name, value in fields.items()), flush=True)


def rounded(name: str, value: float | int | str) -> float | int | str:
    """A figure rounded to the digits that matter in its unit, the end of its name."""
    if not isinstance(value, float):
        return value
    if "mb_s" in name or "records_s" in name:
        return round(value, 1) if value < 1000 else round(value)
    unit = next((unit for unit in _DIGITS if unit in name.split("_")), None)
    return round(value, 2 if unit is None else _DIGITS[unit])


def machine() -> dict[str, object]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 1e9, 1),
        "cpu": _cpu_name(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit() -> str:
    """The commit of this checkout, `+` if files have changed since; the build outside of one."""
    here = Path(__file__).resolve().parent
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        from strandline_runtime.build_id import build_id

        return f"build {build_id()}"
    return told.stdout.strip()


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)
