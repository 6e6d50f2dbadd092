"""What `strandline doctor` finds besides addresses, and what it advises."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_cli.cluster.checks import (
    CLOCK_PROBLEM_MS,
    CLOCK_WARNING_MS,
    DESCRIPTORS_MIN,
    Check,
    clock_check,
    descriptors_check,
    disk_check,
    java_check,
    process_descriptors,
)
from strandline_cli.commands.doctor import _Known, all_checks
from strandline_cli.errors import CliError
from strandline_local import probe
from strandline_local.probe import BrokerState
from strandline_proto.v1.log_dirs_pb2 import DescribeLogDirsResponse


def java(
    printed: str | Exception = "", *, home: str = "", found: bool = True, has_spark: bool = True
) -> Check:
    def version(_: str) -> str:
        if isinstance(printed, Exception):
            raise printed
        return printed

    return java_check(
        has_spark=has_spark,
        environ={"JAVA_HOME": home} if home else {},
        which=lambda program: f"/bin/{program}" if found else None,
        version=version,
    )


@pytest.mark.parametrize(
    ("check", "state", "said"),
    [
        (java('openjdk version "17.0.9"'), "ok", "Java 17"),
        (java('java version "21"'), "ok", "Java 21"),
        (java('java version "1.8.0_392"'), "warning", "/bin/java is Java 8"),
        (java(found=False), "warning", "no Java on the PATH"),
        (java(found=False, home="/jdk"), "warning", "no Java in JAVA_HOME (/jdk)"),
        (java(OSError("bad format")), "warning", "/bin/java does not run (bad format)"),
        (java(subprocess.TimeoutExpired("java", 30)), "warning", "/bin/java does not run"),
        (java("hello"), "ok", "/bin/java does not tell its version"),
        (java(found=False, has_spark=False), "ok", "not needed: the extra `spark` is not"),
    ],
)
def test_java_is_missed_where_spark_is_installed(check: Check, state: str, said: str) -> None:
    assert check.state == state
    assert check.said.startswith(said)
    assert (check.state == "ok") == (check.remedy == "")


def test_a_low_limit_of_open_files_is_a_warning() -> None:
    low = descriptors_check(DESCRIPTORS_MIN - 1)
    assert (low.state, low.said) == ("warning", f"a limit of {DESCRIPTORS_MIN - 1} open files")
    assert "ulimit -Hn" in low.text
    assert descriptors_check(DESCRIPTORS_MIN).state == "ok"
    assert descriptors_check(-1).said == "any number of files may be open"


@pytest.mark.parametrize(("used", "state"), [(8, "ok"), (9, "warning"), (10, "warning")])
def test_a_process_near_its_limit_is_a_warning(tmp_path: Path, used: int, state: str) -> None:
    (tmp_path / "7" / "fd").mkdir(parents=True)
    for number in range(used):
        (tmp_path / "7" / "fd" / str(number)).touch()
    limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            10   4096   files\n"
    (tmp_path / "7" / "limits").write_text(limits)
    check = process_descriptors("broker 1", 7, tmp_path)
    assert check is not None
    assert (check.state, check.said) == (state, f"{used} of 10 files are open")
    assert process_descriptors("broker 1", 8, tmp_path) is None


@pytest.mark.parametrize(
    ("ahead_ms", "took_ms", "state", "said"),
    [
        (0, 5, "ok", "its clock agrees with this machine"),
        (CLOCK_WARNING_MS + 5, 5, "ok", "its clock agrees with this machine"),
        (CLOCK_WARNING_MS + 6, 5, "warning", "its clock is 1.0 s ahead of this machine"),
        (-3000, 5, "warning", "its clock is 3.0 s behind this machine"),
        (-CLOCK_PROBLEM_MS - 6, 5, "problem", "its clock is 10.0 s behind this machine"),
        (20_000, 15_000, "warning", "its clock is 20.0 s ahead of this machine"),
    ],
)
def test_a_clock_is_judged_beyond_the_duration_of_the_call(
    ahead_ms: float, took_ms: float, state: str, said: str
) -> None:
    check = clock_check("broker 1", ahead_ms=ahead_ms, round_trip_ms=took_ms)
    assert (check.state, check.said) == (state, said)


@pytest.mark.parametrize(
    ("failure", "free", "total", "state", "said"),
    [
        ("", 10, 100, "ok", "/d has 10 % free"),
        ("", 9, 100, "warning", "/d has 9 % free"),
        ("", -1, -1, "ok", "/d does not tell its free space"),
        ("input/output error", -1, -1, "problem", "/d is out of service (input/output error)"),
    ],
)
def test_a_disk_with_little_room_is_a_warning_and_a_lost_one_a_problem(
    failure: str, free: int, total: int, state: str, said: str
) -> None:
    check = disk_check("broker 1", "/d", failure=failure, free=free, total=total)
    assert (check.state, check.said) == (state, said)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two brokers that answer: the second has a wrong clock, and knows no log directories."""
    asked: list[str] = []

    def clock(address: str, _: float) -> tuple[float, float]:
        asked.append(address)
        return (0.0, 1.0) if address == "a:1" else (60_000.0, 1.0)

    def log_dirs(address: str, _: list[str], __: float) -> DescribeLogDirsResponse:
        if address != "a:1":
            raise CliError("b:1 does not answer: its build does not know this call")
        answer = DescribeLogDirsResponse()
        answer.log_dirs.add(path="/d", total_bytes=100, usable_bytes=50)
        return answer

    monkeypatch.setattr(probe, "ask_clock", clock)
    monkeypatch.setattr(probe, "ask_log_dirs", log_dirs)
    return asked


def test_each_broker_that_answers_is_looked_at(brokers: list[str]) -> None:
    target: Any = SimpleNamespace(local=None)
    states = [BrokerState(1, 5, "a:1", "UNFENCED", full_log_dirs=("/d",), lacks_descriptors=True)]
    known = _Known([], [], {1: "a:1", 2: "b:1", 3: "c:1"}, states)
    checks = all_checks(target, known, {"c:1"}, 5.0)
    of_brokers = [(c.subject, c.where, c.state) for c in checks if c.where != "this machine"]
    assert of_brokers == [
        ("descriptors", "broker 1", "problem"),
        ("disk", "broker 1", "problem"),
        ("clock", "broker 1", "ok"),
        ("disk", "broker 1", "ok"),
        ("clock", "broker 2", "problem"),
        ("disk", "broker 2", "ok"),
    ]
    assert checks[-1].said.startswith("not looked at: b:1 does not answer")
    assert brokers == ["a:1", "b:1"]
