"""The table of the demo, written by Spark or, without Java, by a plain consumer."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strandline_cli.errors import CliError

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

INGEST_S: Final = 240.0
READ_S: Final = 60.0
_STOP_S: Final = 10.0
NO_JAVA: Final = (
    "no Java found, which Spark needs: install a JRE 17 (openjdk-17-jre-headless, for instance) or"
    " set JAVA_HOME; with --no-spark the demo checks the topic itself instead of a table"
)


def check_java() -> None:
    """Raises CliError with the remedy where Spark cannot run."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return
    if shutil.which("java") is None:
        raise CliError(NO_JAVA)


def ingest_bronze(
    *, bootstrap: str, topic: str, table: Path, checkpoint: Path, log_file: Path
) -> None:
    """Run the bronze job once over everything committed. Raises CliError with its last log
    lines.
    """
    places = ("--table", str(table), "--checkpoint", str(checkpoint))
    _run_job(
        ["ingest", "bronze", "--bootstrap", bootstrap, "--topics", topic, *places, "--once"],
        log_file,
    )


def run_pipeline(name: str, *, bootstrap: str, directory: Path, log_file: Path) -> None:
    """Run a built-in pipeline once over everything committed, and close its windows; its tables are
    written to `directory`/lake. Raises CliError with its last log lines.
    """
    from strandline_spark.examples import text_of

    file = directory / "pipeline.toml"
    file.write_text(text_of(name))
    _run_job(["run", str(file), "--bootstrap", bootstrap, "--once", "--close"], log_file)


def _run_job(arguments: list[str], log_file: Path) -> None:
    program = "from strandline_spark.commands.main import main; main()"
    argv = [sys.executable, "-c", program, *arguments]
    with log_file.open("wb") as log:
        job = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        status = job.wait(timeout=INGEST_S)
    except subprocess.TimeoutExpired:
        raise CliError(
            f"the Spark job did not end within {INGEST_S:.0f} s; see {log_file}"
        ) from None
    finally:
        _end_group(job)
    if status != 0:
        text = log_file.read_text(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()][-8:]
        last = "".join(f"\n  {line}" for line in lines)
        raise CliError(f"the Spark job ended with exit status {status}; its log ends with:{last}")


def _end_group(job: "subprocess.Popen[bytes]") -> None:
    """The job and the Java processes it has started, if any of them lives."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(job.pid, number)
            job.wait(timeout=_STOP_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


async def read_topic(bootstrap: str, topic: str) -> "pa.Table":
    """Every committed record of the topic, with the columns that the check needs."""
    import pyarrow as pa

    from strandline import Consumer, TopicPartition

    columns: dict[str, list[object]] = {
        name: [] for name in ("partition", "offset", "value", "key", "timestamp", "leader_epoch")
    }
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="error") as consumer:
        partitions = [TopicPartition(topic, p) for p in await consumer.partitions_for_topic(topic)]
        await consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        async with asyncio.timeout(READ_S):
            while not all([await consumer.position(p) >= end for p, end in ends.items()]):
                found = await consumer.getmany(timeout_ms=1000, max_records=5000)
                for records in found.values():
                    for name, column in columns.items():
                        column.extend(getattr(record, name) for record in records)
    kinds = {"partition": pa.int32(), "leader_epoch": pa.int32()}
    kinds |= {"offset": pa.int64(), "timestamp": pa.int64()}
    return pa.table(
        {name: pa.array(column, kinds.get(name, pa.binary())) for name, column in columns.items()}
    )
