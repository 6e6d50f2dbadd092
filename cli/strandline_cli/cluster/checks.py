"""The checks of `strandline doctor` besides addresses: Java, file descriptors, clocks, disks.

A check that cannot be made says so; it is neither a warning nor a problem.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OK: Final = "ok"
WARNING: Final = "warning"
PROBLEM: Final = "problem"

JAVA_MIN: Final = 17
DESCRIPTORS_MIN: Final = 4096
"""Below this limit of open files, a broker keeps few files open and few connections."""
FREE_MIN: Final = 0.1
"""Part of a disk below which its free space is a warning."""
CLOCK_WARNING_MS: Final = 1_000
CLOCK_PROBLEM_MS: Final = 10_000

_JAVA: Final = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_S: Final = 30.0
HERE: Final = "this machine"


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one look."""

    subject: str
    where: str
    state: str
    said: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """The outcome and the remedy as a sentence."""
        return f"{self.where}: {self.said}; {self.remedy}"


def _java_version(java: str) -> str:
    answer = subprocess.run(
        [java, "-version"], capture_output=True, text=True, timeout=_JAVA_S, check=False
    )
    return answer.stderr + answer.stdout


def java_check(
    *,
    has_spark: bool,
    environ: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
    version: Callable[[str], str] = _java_version,
) -> Check:
    """Spark's jobs need Java 17. Without the extra `spark` nothing does."""
    if not has_spark:
        return Check("java", HERE, OK, "not needed: the extra `spark` is not installed")
    remedy = (
        f"install a Java {JAVA_MIN} runtime, or set JAVA_HOME to one; only Spark's jobs need it"
    )
    home = environ.get("JAVA_HOME")
    java = which(os.path.join(home, "bin", "java") if home else "java")
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        return Check("java", HERE, WARNING, f"no Java {where}", remedy)
    try:
        found = _JAVA.search(version(java))
    except (OSError, subprocess.SubprocessError) as why:
        return Check("java", HERE, WARNING, f"{java} does not run ({why})", remedy)
    if found is None:
        return Check("java", HERE, OK, f"{java} does not tell its version")
    if int(found[1]) < JAVA_MIN:
        return Check("java", HERE, WARNING, f"{java} is Java {found[1]}", remedy)
    return Check("java", HERE, OK, f"Java {found[1]}")


def descriptors_check(hard: int | None = None) -> Check:
    """The limit of open files that a server started from this shell gets."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if hard is None else hard
    if limit == resource.RLIM_INFINITY or limit >= DESCRIPTORS_MIN:
        text = "any number of" if limit == resource.RLIM_INFINITY else f"up to {limit}"
        return Check("descriptors", HERE, OK, f"{text} files may be open")
    return Check(
        "descriptors",
        HERE,
        WARNING,
        f"a limit of {limit} open files",
        f"raise it to {DESCRIPTORS_MIN} or more (ulimit -Hn, LimitNOFILE=) before servers start",
    )


def process_descriptors(where: str, pid: int, proc: Path = Path("/proc")) -> Check | None:
    """The open files of a local process against its limit; None if the system does not say."""
    try:
        used = len(os.listdir(proc / str(pid) / "fd"))
        limits = (proc / str(pid) / "limits").read_text("utf-8")
    except OSError:
        return None
    found = re.search(r"^Max open files +(\d+)", limits, re.MULTILINE)
    if found is None:
        return None
    limit = int(found[1])
    said = f"{used} of {limit} files are open"
    if used < limit * (1 - FREE_MIN):
        return Check("descriptors", where, OK, said)
    remedy = "raise its limit (ulimit -Hn, LimitNOFILE=) and restart it, or close connections"
    return Check("descriptors", where, WARNING, said, remedy)


def clock_check(where: str, *, ahead_ms: float, round_trip_ms: float) -> Check:
    """The check of a server's clock against the one here. The call's duration blurs it."""
    least = max(0.0, abs(ahead_ms) - round_trip_ms)
    seconds = (
        f"{abs(ahead_ms) / 1000:.1f} s {'ahead of' if ahead_ms > 0 else 'behind'} this machine"
    )
    if least <= CLOCK_WARNING_MS:
        return Check("clock", where, OK, "its clock agrees with this machine")
    state = PROBLEM if least > CLOCK_PROBLEM_MS else WARNING
    remedy = "synchronise both (chrony, systemd-timesyncd): times of records and retention differ"
    return Check("clock", where, state, f"its clock is {seconds}", remedy)


def disk_check(where: str, path: str, *, failure: str, free: int, total: int) -> Check:
    """One data directory of a broker; sizes are -1 if its disk does not tell them."""
    if failure:
        remedy = "repair or replace the disk, then restart the broker"
        return Check("disk", where, PROBLEM, f"{path} is out of service ({failure})", remedy)
    if free < 0 or total <= 0:
        return Check("disk", where, OK, f"{path} does not tell its free space")
    said = f"{path} has {100 * free / total:.0f} % free"
    if free >= total * FREE_MIN:
        return Check("disk", where, OK, said)
    remedy = "add space, or shorten retention; `strandline log-dirs --replicas` shows what is large"
    return Check("disk", where, WARNING, said, remedy)
