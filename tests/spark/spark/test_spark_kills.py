"""The job as its user runs it: a process, killed with SIGKILL wherever it hurts, and its errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.commands.main import main
from strandline_spark.pipeline.config import load_pipeline
from strandline_spark.pipeline.verify import verify_parsed, verify_raw
from strandline_spark.state.verify import verify_step
from support.pipelines import rows_of

if TYPE_CHECKING:
    from strandline_spark.pipeline.config import Pipeline
    from support.fake_broker_sync import FakeBroker, FakeTopic

DEADLINE_S: Final = 300
PIPELINE: Final = """
[pipeline]
name = "clicks"
topics = ["t"]

[bronze]
table = "table"
max_offsets_per_trigger = 1000

[silver]
format = "json"
event_time = "at"

[silver.columns]
n = "bigint"
at = { type = "timestamp", format = "epoch_s" }

[[gold]]
name = "per_minute"
window = "1 minute"
watermark = "0 seconds"
sql = "SELECT window_start, window_end, count(*) AS clicks FROM silver GROUP BY ALL"

[[state]]
name = "latest"
key = ["n"]
order = ["event_time"]
"""
_STEPS: Final = ("gold per_minute: ", "state latest: ")
AT_S: Final = 1_700_000_000 - 1_700_000_000 % 60
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


def click(partition: int, offset: int) -> bytes:
    """Four clicks a second, of 16 visitors; every tenth record is no click."""
    if offset % 10 == 0:
        return b"%d/%d" % (partition, offset)
    return json.dumps({"n": offset % 16, "at": AT_S + offset // 4}).encode()


def fill(topic: FakeTopic, batches: int) -> None:
    for p, partition in enumerate(topic.partitions):
        for _ in range(batches):
            first = partition.log_end
            partition.append([(None, click(p, first + j)) for j in range(100)])


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


BEFORE_GOLD: Final = ("gold-before-commit", 2)
"""Between the commits of one batch to silver and to gold."""


@pytest.mark.spark
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param([BEFORE_GOLD], id="before gold"),
        pytest.param([("before-commit", 0), BEFORE_GOLD], id="twice", marks=pytest.mark.proof),
    ],
)
def test_every_record_is_in_each_table_once_wherever_the_driver_was_killed(
    broker: FakeBroker, tmp_path: Path, worker_python: str, kills: list[tuple[str, int]]
) -> None:
    """With more records each time. Before the first commit of all `make proof` kills it too, and
    test_spark_object_pipeline before a commit; while a task reads, test_spark_random_kills.
    """
    topic = broker.create("t", 2)
    fill(topic, 12 - 2 * len(kills))
    file = tmp_path / "pipeline.toml"
    file.write_text(PIPELINE)
    arguments = ["run", str(file), "--bootstrap", broker.address]

    for point, number in kills:
        fill(topic, 2)
        forking = ("--every", "1s", "--worker-python", worker_python)
        killed = start(str(DYING_DRIVER), point, str(number), *arguments, *forking)
        assert finished(killed)[0] == -signal.SIGKILL
    process = start("-m", "strandline_spark.commands.main", *arguments, "--every", "1s")
    progress = lines_until(process, "batch 2: ")
    assert any(line.startswith("batch 1: the tables have it already") for line in progress)
    # Ctrl-C at a terminal reaches the whole group; the job ends in order, in one line.
    os.killpg(process.pid, signal.SIGINT)
    status, out, err = finished(process)
    assert (status, out) == (130, "")
    *steps, line = (one for one in err.splitlines() if not one.startswith("query bronze, "))
    assert line.startswith("interrupted; "), err
    assert all(one.startswith(_STEPS) for one in steps), err

    records = [(p, n, click(p, n)) for p in range(2) for n in range(1200)]
    assert in_table(tmp_path) == records
    pipeline = load_pipeline(str(file))
    assert all(one.sound for one in verify_raw(pipeline, broker.address, complete=True))
    check_parsed_tables(pipeline, records)


def check_parsed_tables(pipeline: Pipeline, records: list[tuple[int, int, bytes]]) -> None:
    """Compares the tables with plain loops over the records; the newest batch may be without gold
    and state.
    """
    clicks = [(p, n, json.loads(value)) for p, n, value in records if value.startswith(b"{")]
    wanted = [(p, n, one["n"]) for p, n, one in clicks]
    assert rows_of(pipeline.silver, "partition", "offset", "n") == sorted(wanted, key=repr)
    bad = [(p, n, value) for p, n, value in records if not value.startswith(b"{")]
    assert rows_of(pipeline.quarantine, "partition", "offset", "value") == sorted(bad, key=repr)
    assert all(one.sound for one in verify_parsed(pipeline))
    minutes = Counter(one["at"] // 60 * 60 for _, _, one in clicks)
    gold = rows_of(pipeline.gold[0].table, "window_start", "clicks")
    counts = {round(start.timestamp()): count for start, count in gold}
    assert len(counts) == len(gold) >= 3
    assert counts == dict(sorted(minutes.items())[: len(counts)])
    (state,) = pipeline.state
    found = verify_step(state, pipeline.silver, pipeline=pipeline.name)
    assert (found.problems, found.keys) == ([], 16)


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
