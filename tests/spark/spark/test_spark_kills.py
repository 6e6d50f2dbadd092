"""The job as its user runs it: a process, killed with SIGKILL wherever it hurts, and its errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.verify import verify
from strandline_spark.commands.main import main

if TYPE_CHECKING:
    from support.fake_broker_sync import FakeBroker, FakeTopic

DEADLINE_S: Final = 300
DYING_DRIVER: Final = Path(__file__).parents[2] / "support" / "spark_driver_that_dies.py"
# The job must not depend on what PYSPARK_PYTHON says: its workers run its own interpreter.
ENVIRONMENT: Final = {**os.environ, "PYSPARK_PYTHON": "/nonexistent/python"}


def start(*command: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT if environment is None else environment,
        start_new_session=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """(exit status, standard output, standard error) of the process, within the deadline."""
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return process.returncode, out, err


def lines_until(process: subprocess.Popen[str], beginning: str) -> list[str]:
    """What the process says on standard error up to a line that begins so."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith(beginning):
            return lines
    raise AssertionError(f"the process ended without {beginning!r}: {lines}")


def fill(topic: FakeTopic, batches: int) -> None:
    for p, partition in enumerate(topic.partitions):
        for _ in range(batches):
            first = partition.log_end
            partition.append([(None, b"%d/%d" % (p, first + j)) for j in range(100)])


def job_arguments(broker: FakeBroker, root: Path) -> list[str]:
    return [
        *("ingest", "bronze", "--bootstrap", broker.address, "--topics", "t"),
        *("--table", str(root / "table"), "--checkpoint", str(root / "checkpoint")),
        *("--max-offsets-per-trigger", "1000", "--format", "json"),
    ]


def in_table(root: Path) -> list[tuple[int, int, bytes]]:
    table = BronzeTable.open(str(root / "table")).delta.to_pyarrow_table()
    rows = table.select(["partition", "offset", "value"]).to_pylist()
    return sorted((row["partition"], row["offset"], row["value"]) for row in rows)


@pytest.mark.spark
def test_every_record_is_in_the_table_once_wherever_the_driver_was_killed(
    broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 2)
    fill(topic, 8)
    arguments = job_arguments(broker, tmp_path)

    # On both sides of the table's commit, with more records each time. At other moments, as while a
    # task reads, test_spark_random_kills kills it.
    for point, batch in (("before-commit", 0), ("after-commit", 1)):
        fill(topic, 2)
        assert (
            finished(start(str(DYING_DRIVER), point, str(batch), *arguments))[0] == -signal.SIGKILL
        )
    process = start("-m", "strandline_spark.commands.main", *arguments, "--every", "1s")
    progress = lines_until(process, "batch 2: ")
    assert any(line.startswith("batch 1: the table has it already") for line in progress)
    # Ctrl-C at a terminal reaches the whole group; the job ends in order, in one line.
    os.killpg(process.pid, signal.SIGINT)
    status, out, err = finished(process)
    assert (status, out) == (130, "")
    (line,) = (one for one in err.splitlines() if not one.startswith("query bronze, "))
    assert line.startswith("interrupted; "), err

    assert in_table(tmp_path) == [(p, n, b"%d/%d" % (p, n)) for p in range(2) for n in range(1200)]
    assert all(one.sound for one in verify(str(tmp_path / "table"), "t", broker.address))


def one_line_error(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """The message of a command that must fail with one, and without a traceback."""
    command = start("-m", "strandline_spark.commands.main", *arguments, environment=environment)
    status, out, err = finished(command)
    assert (status, out) == (1, "")
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, err
    assert "Traceback" not in err
    return lines[0]


def test_without_java_the_job_says_so_in_one_line(broker: FakeBroker, tmp_path: Path) -> None:
    broker.create("t")
    bare = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    arguments = job_arguments(broker, tmp_path)
    message = one_line_error(*arguments, environment=bare | {"PATH": str(tmp_path)})
    assert "there is none on the PATH" in message
    assert "install a Java 17 runtime" in message
    message = one_line_error(*arguments, environment=bare | {"JAVA_HOME": "/nowhere"})
    assert "JAVA_HOME (/nowhere)" in message


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one message of a command that must fail, in this process."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (1, "")
    (line,) = (one for one in err.splitlines() if one.startswith("error: "))
    return line


@pytest.mark.spark
def test_an_unknown_topic_is_said_in_one_line(
    broker: FakeBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(capsys, *job_arguments(broker, tmp_path))
    assert "topic t does not exist; create it with `strandline topic create`" in message


def test_wrong_arguments_are_refused(
    broker: FakeBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = job_arguments(broker, tmp_path)
    for interval in ("soon", "0s", "1000000h"):
        said = refused(capsys, *arguments, "--every", interval)
        assert "give a number with s, m or h" in said
    assert "above 0" in refused(capsys, *arguments, "--max-offsets-per-trigger", "0")
    assert "not host:port" in refused(capsys, *arguments, "--bootstrap", "here")
    with pytest.raises(SystemExit) as ended:
        main(["ingest", "gold"])
    assert (ended.value.code, "invalid choice" in capsys.readouterr().err) == (2, True)
