"""A whole pipeline in an object store: bronze, silver, quarantine, gold and state. Its tables
are proven, and DuckDB and Spark read them.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from support.object_store import BUCKET, SECRET, by_duckdb, object_store, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.fake_broker_sync import FakeBroker

pytestmark = pytest.mark.spark

DIES: Final = Path(__file__).parents[2] / "support" / "spark_driver_that_dies.py"
TOGETHER: Final = DIES.with_name("spark_commands.py")
COMMANDS: Final = ("-m", "strandline_spark.commands.main")
DEADLINE_S: Final = 400
PIPELINE: Final = """
[pipeline]
name = "orders"
topics = ["t"]
directory = "LAKE"
checkpoint = "checkpoint"

[storage]
aws_endpoint_url = "ENDPOINT"
aws_allow_http = true
aws_region = "us-east-1"

[bronze]
max_offsets_per_trigger = 40

[silver]
format = "json"
event_time = "at"

[silver.columns]
id = "bigint"
kind = "string"
at = { type = "timestamp", format = "epoch_s" }

[[gold]]
name = "kinds"
window = "1 minute"
watermark = "0 seconds"
sql = "SELECT window_start, window_end, kind, count(*) AS n FROM silver GROUP BY ALL"

[[state]]
name = "latest"
key = ["id"]
order = ["event_time"]
"""
AT_S: Final = 1_700_000_000 - 1_700_000_000 % 60
RECORDS: Final = 120


def orders() -> list[tuple[int, str, int]]:
    """Number, kind and second of each order; every tenth record is no order."""
    return [(n % 17, "ab"[n % 2], AT_S + 2 * n) for n in range(RECORDS) if n % 10]


@pytest.fixture
def endpoint() -> Iterator[str]:
    with object_store() as address:
        yield address


def run(
    endpoint: str, folder: Path, *words: str, program: tuple[str, ...] = COMMANDS
) -> subprocess.CompletedProcess[str]:
    """One command; of the store's settings its environment has the credentials alone."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith("AWS_")}
    own = {n: v for n, v in settings(endpoint).items() if "KEY" in n}
    return subprocess.run(
        [sys.executable, *program, *words],
        capture_output=True,
        text=True,
        env=environment | own,
        cwd=folder,
        timeout=DEADLINE_S,
        check=False,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    "is_killed", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["whole", "killed"]
)
def test_a_pipeline_is_proven_and_read_by_duckdb(
    endpoint: str, broker: FakeBroker, tmp_path: Path, worker_python: str, *, is_killed: bool
) -> None:
    """Also after the driver was killed before a commit; on a disk test_spark_kills kills it."""
    topic = broker.create("t", 2)
    for n in range(RECORDS):
        order = {"id": n % 17, "kind": "ab"[n % 2], "at": AT_S + 2 * n}
        value = json.dumps(order).encode() if n % 10 else b"none"
        topic.partitions[n % 2].append([(b"k", value)])
    lake = f"s3://{BUCKET}/{secrets.token_hex(4)}"
    text = PIPELINE.replace("LAKE", lake).replace("ENDPOINT", endpoint)
    (tmp_path / "pipeline.toml").write_text(text)
    once = (
        *("run", "pipeline.toml", "--bootstrap", broker.address, "--once", "--close"),
        *("--worker-python", worker_python),
    )
    said = ""
    if is_killed:
        killed = run(endpoint, tmp_path, *once, program=(str(DIES), "before-commit", "1"))
        assert killed.returncode < 0
        said = killed.stdout + killed.stderr
    proof = ("verify", "pipeline.toml", "--bootstrap", broker.address, "--complete", "--full")
    commands = json.dumps([once, proof])
    proven = run(endpoint, tmp_path, "pipeline.toml", commands, program=(str(TOGETHER),))
    assert proven.returncode == 0, proven.stdout + proven.stderr
    assert "sound: bronze, silver, gold and state" in proven.stdout
    logs = "".join(one.read_text(errors="replace") for one in tmp_path.rglob("*.log"))
    assert SECRET not in said + proven.stdout + proven.stderr + logs

    counts = json.loads(proven.stdout.splitlines()[-1])
    assert counts["spark"] == counts["duckdb"]
    assert counts["spark"]["silver"] == len(orders())

    assert by_duckdb(f"{lake}/bronze", "SELECT count(*) FROM delta") == [[RECORDS]]
    silver = 'SELECT id, kind, epoch(event_time)::bigint FROM delta ORDER BY "partition", "offset"'
    found = [tuple(row) for row in by_duckdb(f"{lake}/silver", silver)]
    assert sorted(found) == sorted(orders())
    bad = by_duckdb(f"{lake}/quarantine", "SELECT count(*) FROM delta")
    assert bad == [[RECORDS - len(orders())]]
    windows = Counter((at - at % 60, kind) for _, kind, at in orders())
    gold = "SELECT epoch(window_start)::bigint, kind, n FROM delta"
    assert {(at, kind): n for at, kind, n in by_duckdb(f"{lake}/gold/kinds", gold)} == windows
    latest = {number: (kind, at) for number, kind, at in sorted(orders(), key=lambda one: one[2])}
    state = "SELECT id, kind, epoch(event_time)::bigint FROM delta"
    assert {n: (kind, at) for n, kind, at in by_duckdb(f"{lake}/state/latest", state)} == latest
