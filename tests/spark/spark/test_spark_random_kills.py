"""What a pipeline's tables are built from, killed at random: the job's driver and JVM, Spark's
executors and their Python workers, the leader that is read, the controller. After each kill bronze
and silver have every record once, and each state table the latest row of its keys. At the end gold
and state are what a run without kills gives.

Among the tests each of `KINDS` is killed once, on a local master, a server and a process of the job
at the same time, for the JVM and the controller by `make proof`; the driver dies in
test_spark_kills.py. `make spark-kills` kills ten times in two million records on a standalone
cluster, executors too (KILLS=, RECORDS=, SEED=).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from deltalake import DeltaTable

from strandline import NewTopic
from strandline.sync import Admin, Producer
from strandline_local.cluster_files import CONTROLLER
from strandline_spark.bronze.verify import verify
from strandline_spark.gold.verify import verify_step
from strandline_spark.pipeline.config import load_pipeline
from strandline_spark.pipeline.failures import Failures
from strandline_spark.pipeline.gold import GoldSteps
from strandline_spark.pipeline.state import StateSteps
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.state.verify import verify_step as verify_state_step
from support.cluster import eventually, make_cluster
from support.pipelines import rows_of
from support.spark_standalone import end_session, spark_standalone, start_job, with_word

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from strandline_local.local_cluster import LocalCluster
    from strandline_spark.pipeline.config import Pipeline
    from support.cluster import MakeCluster
    from support.spark_standalone import SparkStandalone

__all__ = ["make_cluster"]

KINDS: Final = ("driver", "JVM", "Python worker", "leader", "controller")
TOGETHER: Final = (("Python worker", "leader"), ("JVM", "controller"))
KILLS: Final = int(os.environ.get("TEST_SPARK_KILLS", "0"))
"""With none said: `TOGETHER`, each in a test of its own."""
RECORDS: Final = int(os.environ.get("TEST_SPARK_RECORDS", "2000"))
SEED: Final = int(os.environ.get("TEST_SPARK_SEED", "1"))
PARTITIONS: Final = 4
CHUNK: Final = 500
DEADLINE_S: Final = 300
WORKERS: Final = ("127.0.0.2", "127.0.0.3")[: int(os.environ.get("TEST_SPARK_WORKERS", "0"))]
"""Each has an executor of its own, a JVM more to start after every kill of the job; without any
the tasks run in the job's JVM, and what kills executors is test_spark_standalone.py.
"""
QUERY: Final = Path(__file__).parents[2] / "support" / "duckdb_query.py"
COUNTS: Final = "select count(*), count(distinct value) from delta"


PER_SECOND: Final = 100
"""Records whose event times lie in one second."""
BEGIN: Final = datetime(2026, 3, 1, tzinfo=UTC)
WINDOW_S: Final = 10
SLOTS: Final = 997
"""Keys of the state table whose rows come from all partitions."""
PIPELINE: Final = f"""
[pipeline]
name = "numbers"
topics = ["t"]

[bronze]
max_offsets_per_trigger = {max(1000, RECORDS // 40)}

[silver]
format = "json"
event_time = "at"
max_ahead = "unlimited"
quarantine_limit = 0

[silver.columns]
n = "bigint"
slot = "bigint"
chunk = "bigint"
at = "timestamp"

[[gold]]
name = "sums"
window = "{WINDOW_S} seconds"
watermark = "30 seconds"
sql = "SELECT window_start, window_end, count(*) AS n, sum(n) AS total FROM silver GROUP BY ALL"

[[state]]
name = "slots"
key = ["slot"]
order = ["event_time"]
delete_when = "n % 7 = 0"

[[state]]
name = "chunks"
key = ["chunk"]
"""


class Job:
    """A pipeline, which is started again when it was killed."""

    def __init__(self, spark: SparkStandalone | None, bootstrap: str, root: Path) -> None:
        self._spark, self._bootstrap, self._root = spark, bootstrap, root
        self.file = root / "pipeline.toml"
        self.file.write_text(PIPELINE)
        self.pipeline = load_pipeline(str(self.file))
        self._delta: DeltaTable | None = None
        self.process: subprocess.Popen[str] | None = None
        self.may_end = False
        """It was killed, or its JVM was, and has not been started again."""
        self.says = ""
        """What it says then, in one line."""
        self.starts = 0

    def start(self) -> None:
        self.starts += 1
        with (self._root / "job.out").open("a") as out, (self._root / "job.err").open("a") as err:
            run, outputs, every = ("run", str(self.file)), (out, err), ("--every", "1s")
            if self._spark is None:
                self.process = start_job(run, self._bootstrap, *every, outputs=outputs)
            else:
                self.process = self._spark.start_job(
                    WORKERS[0], self._bootstrap, self._root, *every, job=run, outputs=outputs
                )

    def rows(self) -> int:
        """In silver; the job is started again if it has ended and may have."""
        assert self.process is not None
        status = self.process.poll()
        if status is not None:
            said = (self._root / "job.err").read_text()
            assert self.may_end, f"the job has ended with {status}: {said[-3000:]}"
            # A state step, which needs no JVM, may say later that it has ended well.
            assert self.says in said.rpartition("starting Spark (")[2], said
            assert "Traceback" not in said
            self.may_end = False
            end_session(self.process.pid)
            self.start()
        if self._delta is None:
            if not DeltaTable.is_deltatable(self.pipeline.silver):
                return 0
            self._delta = DeltaTable(self.pipeline.silver)
        self._delta.update_incremental()
        actions: Any = self._delta.get_add_actions(flatten=True)
        return sum(actions.column("num_records").to_pylist())

    def sessions_of_tasks(self) -> list[int]:
        """Of the workers, or of the job itself on a local master."""
        if self._spark is not None:
            return [self._spark.pids[host] for host in WORKERS]
        assert self.process is not None
        return [self.process.pid]

    def wait_for(self, enough: Callable[[int], bool], what: str) -> None:
        """A look at the table costs the processor that the job needs."""
        eventually(lambda: enough(self.rows()), what, DEADLINE_S, poll_s=0.5)

    def end(self) -> None:
        """By a kill, as good as any other end."""
        if self.process is not None:
            end_session(self.process.pid)
            self.process.wait(60)


class Striker:
    """Kills a process of each kind; what Spark does not start again by itself is started again."""

    def __init__(self, cluster: LocalCluster, job: Job, strike: tuple[str, ...]) -> None:
        self._cluster, self._job, self._strike = cluster, job, strike
        self.draw = random.Random(SEED)
        self.kinds: dict[str, Callable[[], None]] = {
            "driver": self._driver,
            "JVM": self._jvm,
            "Python worker": self._python,
            "executor": self._executor,
            "leader": self._leader,
            "controller": lambda: self._server(CONTROLLER),
        }

    def order(self) -> list[tuple[str, ...]]:
        """What is killed at the same time. Each kind comes once before one comes again."""
        if KILLS == 0:
            return [self._strike]
        kinds = (*KINDS, "executor") if WORKERS else KINDS
        drawn: list[str] = []
        while len(drawn) < KILLS:
            drawn += self.draw.sample(kinds, len(kinds))
        return [(kind,) for kind in drawn[:KILLS]]

    def _driver(self) -> None:
        assert self._job.process is not None
        self._job.may_end, self._job.says = True, ""
        self._job.process.kill()

    def _jvm(self) -> None:
        assert self._job.process is not None
        self._job.may_end = True
        self._job.says = "error: Spark's JVM has ended (killed, or short of memory?"
        self._kill(self._job.process.pid, "org.apache.spark.deploy.SparkSubmit")

    def _python(self) -> None:
        self._kill_where_tasks_run("pyspark.daemon")

    def _executor(self) -> None:
        self._kill_where_tasks_run("CoarseGrainedExecutorBackend")

    def _kill_where_tasks_run(self, word: str) -> None:
        sessions = self._job.sessions_of_tasks()
        eventually(lambda: any(with_word(pid, word) for pid in sessions), f"{word} runs")
        self._kill(self.draw.choice([pid for pid in sessions if with_word(pid, word)]), word)

    def _kill(self, session: int, word: str) -> None:
        found = eventually(lambda: with_word(session, word), f"{word} runs")
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.draw.choice(found), signal.SIGKILL)

    def _leader(self) -> None:
        with Admin(self._cluster.bootstrap) as admin:
            led = admin.describe_topics(["t"])["t"].partitions
        self._server(self.draw.choice(led).leader)

    def _server(self, name: Any) -> None:
        self._cluster.kill(name)
        time.sleep(self.draw.uniform(0, 2))
        self._cluster.start(name)


def produce(bootstrap: str, first: int, stop: int) -> None:
    """The numbers, each in the partition that its chunk has."""
    with Producer(bootstrap) as producer:
        for start in range(first, stop, CHUNK):
            values = (value(n) for n in range(start, min(start + CHUNK, stop)))
            producer.send_many("t", values, partition=start // CHUNK % PARTITIONS)


def value(n: int) -> bytes:
    at = BEGIN + timedelta(seconds=n / PER_SECOND)
    row = {"n": n, "slot": n % SLOTS, "chunk": n // CHUNK, "at": at.isoformat()}
    return json.dumps(row).encode()


def check(cluster: LocalCluster, pipeline: Pipeline, total: int) -> None:
    found = verify(pipeline.bronze, "t", cluster.bootstrap, complete=True, values=True)
    assert all(one.sound for one in found), found
    assert sum(one.rows for one in found) == total
    # Quarantine, where nothing goes, is committed behind silver.
    eventually(
        lambda: all(one.sound for one in verify_parsed(pipeline)), "silver is sound", DEADLINE_S
    )
    for step in pipeline.state:
        eventually(lambda s=step: DeltaTable.is_deltatable(s.table), step.name, DEADLINE_S)  # type: ignore[misc]
        state = verify_state_step(step, pipeline.silver, pipeline=pipeline.name)
        assert state.sound, state


def check_table(pipeline: Pipeline, total: int) -> None:
    """As another engine reads it."""
    command = [sys.executable, str(QUERY), pipeline.bronze, COUNTS]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [[total, total]]


def check_gold(spark: SparkSession, pipeline: Pipeline, total: int) -> None:
    """Once the windows that are still open are closed; and `verify` finds the same."""
    notes: list[str] = []
    failures = Failures(notes.append)
    GoldSteps(spark, pipeline, notes.append, failures).run(spark, close=True)
    assert failures.said() == {}
    (step,) = pipeline.gold
    found = verify_step(spark, step, pipeline.silver, pipeline=pipeline.name)
    assert found.sound, found
    assert found.late == 0
    expected = []
    per_window = WINDOW_S * PER_SECOND
    for first in range(0, total, per_window):
        own = range(first, min(first + per_window, total))
        start = BEGIN + timedelta(seconds=first / PER_SECOND)
        end = start + timedelta(seconds=WINDOW_S)
        expected.append((start, end, len(own), sum(own)))
    rows = rows_of(step.table, "window_start", "window_end", "n", "total")
    assert rows == sorted(expected, key=repr)


def check_state(pipeline: Pipeline, total: int) -> None:
    """Once what the last kill has left is merged; and the rows are those of a plain loop."""
    notes: list[str] = []
    failures = Failures(notes.append)
    StateSteps(pipeline, notes.append, failures).run()
    assert failures.said() == {}
    slots, chunks = pipeline.state
    for step in (slots, chunks):
        found = verify_state_step(step, pipeline.silver, pipeline=pipeline.name)
        assert (found.problems, found.behind, found.silver) == ([], 0, total)
    newest = {n % SLOTS: n for n in range(total)}
    held = sorted((slot, n) for slot, n in newest.items() if n % 7)
    assert sorted(rows_of(slots.table, "slot", "n")) == held
    ends = {n // CHUNK: n for n in range(total)}
    assert sorted(rows_of(chunks.table, "chunk", "n")) == sorted(ends.items())


STRIKES: Final = (
    [pytest.param((), id=f"{KILLS} kills")]
    if KILLS
    else [
        pytest.param(TOGETHER[0], id=" and ".join(TOGETHER[0])),
        pytest.param(TOGETHER[1], id=" and ".join(TOGETHER[1])),
    ]
)


def with_topic(make_cluster: MakeCluster) -> LocalCluster:
    cluster = make_cluster(brokers=3)
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic("t", PARTITIONS, 3)])
    return cluster


@pytest.mark.spark
@pytest.mark.proof
@pytest.mark.parametrize("strike", STRIKES)
def test_every_record_is_in_the_table_once_whatever_was_killed(
    make_cluster: MakeCluster, spark: SparkSession, tmp_path: Path, strike: tuple[str, ...]
) -> None:
    with contextlib.ExitStack() as stack:
        beside = stack.enter_context(ThreadPoolExecutor(1))
        starting = beside.submit(with_topic, make_cluster)
        standalone = None
        if WORKERS:
            standalone = stack.enter_context(spark_standalone(tmp_path / "spark"))
            for host in WORKERS:
                standalone.add_worker(host)
        cluster = starting.result()
        job = Job(standalone, cluster.bootstrap, tmp_path)
        striker = Striker(cluster, job, strike)
        job.start()
        strikes = striker.order()
        share = -(-RECORDS // (len(strikes) * CHUNK)) * CHUNK
        print(f"seed {SEED}: {len(strikes)} times in {share * len(strikes):,} records")  # noqa: T201 - progress
        try:
            done = 0
            for number, victims in enumerate(strikes, start=1):
                goal = done + share
                writer = threading.Thread(target=produce, args=(cluster.bootstrap, done, goal))
                writer.start()
                before = done
                job.wait_for(lambda rows, b=before: rows > b, "the job goes on")  # type: ignore[misc]
                time.sleep(striker.draw.uniform(0, 1))
                for victim in victims:
                    striker.kinds[victim]()
                writer.join(DEADLINE_S)
                assert not writer.is_alive()
                job.wait_for(
                    lambda rows, g=goal: rows >= g and not job.may_end,  # type: ignore[misc]
                    "all is in the table, and the job runs again",
                )
                assert job.rows() == goal, "rows were doubled"
                check(cluster, job.pipeline, goal)
                if WORKERS:
                    check_table(job.pipeline, goal)
                done = goal
                killed = " and ".join(victims)
                print(f"{number}: {killed} killed, {done:,} rows, each once")  # noqa: T201 - progress
        finally:
            job.end()
        counting = beside.submit(check_table, job.pipeline, done)
        check_gold(spark, job.pipeline, done)
        check_state(job.pipeline, done)
        counting.result()
