"""Tables in an object store without Spark's JVM: commits, their conflicts, proofs and care."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_spark.bronze.audit import AuditCopier, audit_path
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.commits import CommittedRange
from strandline_spark.bronze.fenced_table import DataFile
from strandline_spark.bronze.task_files import write_range
from strandline_spark.bronze.verify import verify
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.commands.main import main
from strandline_spark.delta_log import commit as delta_commit
from strandline_spark.errors import EnvironmentProblem, FenceError, TableError
from strandline_spark.source.options import parse_options
from strandline_spark.source.splitting import PlannedRange
from strandline_spark.state.table import StateTable
from strandline_spark.stores import files, objects
from support.object_store import BUCKET, SECRET, by_duckdb, object_store
from support.silver_tables import SilverRow, take
from support.state_tables import States

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.fake_broker_sync import FakeBroker, FakeTopic


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with object_store() as address:
        yield address


@pytest.fixture
def lake(endpoint: str) -> str:
    return f"s3://{BUCKET}/{secrets.token_hex(4)}"


@pytest.fixture
def topic(broker: FakeBroker) -> FakeTopic:
    made = broker.create("t")
    made.partitions[0].append([(b"k", b"v%d" % n) for n in range(40)])
    return made


def ingest(broker: FakeBroker, topic: FakeTopic, root: str, start: int, stop: int) -> BronzeTable:
    """One batch, as a task and its driver do it."""
    table = BronzeTable.open_or_create(root)
    planned = PlannedRange(TopicPartition("t", 0), topic.topic_id, start, stop, 0)
    options = parse_options({"bootstrap.servers": broker.address, "subscribe": "t"})
    made = write_range(options, planned, root, start)
    commit(table, made, start, stop)
    AuditCopier(root).copy(table)
    return table


def commit(table: BronzeTable, made: dict[str, Any], start: int, stop: int) -> None:
    table.check_fence(TopicPartition("t", 0), start)
    fields = DataFile.__dataclass_fields__.keys() & made.keys()
    rows = stop - start
    taken = CommittedRange("t", made["topic_id"], 0, start, stop, rows, 0, 0)
    table.commit("j", start, [taken], [DataFile(**{name: made[name] for name in fields})])


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_batches_are_committed_proven_merged_and_read_by_duckdb(
    broker: FakeBroker, topic: FakeTopic, lake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = f"{lake}/bronze"
    for start in range(0, 40, 10):
        ingest(broker, topic, root, start, start + 10)
    with pytest.raises(FenceError, match=r"s3://.*holds t:0 up to offset 40.*doubled"):
        ingest(broker, topic, root, 30, 40)
    assert run("verify", root, "t", "--bootstrap", broker.address, "--complete", "--values") == 0
    assert run("compact", root, "--format", "json") == 0
    done = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (done["files_before"], done["files_after"]) == (4, 1)
    assert run("vacuum", root, "--keep", "1h") == 0
    assert run("verify", root, "t", "--bootstrap", broker.address, "--full") == 0
    assert by_duckdb(root, 'SELECT count(*), max("offset") FROM delta') == [[40, 39]]
    audited = by_duckdb(audit_path(root), "SELECT count(*), sum(rows)::int FROM delta")
    assert audited == [[4, 40]]
    assert run("report", root, "--output", "/dev/null/x.html") == 1
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err


def test_of_two_writers_of_one_batch_the_second_is_refused(
    broker: FakeBroker, topic: FakeTopic, lake: str
) -> None:
    root = f"{lake}/bronze"
    ingest(broker, topic, root, 0, 10)
    handles = [BronzeTable.open(root) for _ in range(2)]
    options = parse_options({"bootstrap.servers": broker.address, "subscribe": "t"})
    planned = PlannedRange(TopicPartition("t", 0), topic.topic_id, 10, 20, 0)
    made = [write_range(options, planned, root, 10) for _ in handles]
    commit(handles[0], made[0], 10, 20)
    with pytest.raises(TableError, match=r"another writer committed these partitions to s3://"):
        commit(handles[1], made[1], 10, 20)
    assert len(BronzeTable.open(root).file_paths()) == 2


def test_a_commit_whose_acknowledgement_was_lost_is_known_again(
    broker: FakeBroker, topic: FakeTopic, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library sends it again, and the store refuses that: its content is the same."""
    root = f"{lake}/bronze"
    ingest(broker, topic, root, 0, 10)
    made = objects._made

    def twice(address: str, content: bytes) -> bool:
        return made(address, content) and ("_delta_log" not in address or made(address, content))

    monkeypatch.setattr(objects, "_made", twice)
    table = ingest(broker, topic, root, 10, 20)
    assert (table.version, verify(root, "t", None)[0].sound) == (2, True)


def test_an_equal_entry_of_another_driver_is_not_taken_for_the_own_one(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_commit, "_now_ms", lambda: 1)
    state = BronzeTable.open_or_create(f"{lake}/bronze").state
    change = delta_commit.Change(transactions={"job": 1})
    assert delta_commit.commit(state, change) == 1
    with pytest.raises(delta_commit.ConflictError, match="version 1 has the transaction job"):
        delta_commit.commit(state, change)


def test_a_file_that_is_gone_or_cut_is_no_batch(
    broker: FakeBroker, topic: FakeTopic, lake: str
) -> None:
    root = f"{lake}/bronze"
    table = BronzeTable.open_or_create(root)
    options = parse_options({"bootstrap.servers": broker.address, "subscribe": "t"})
    planned = PlannedRange(TopicPartition("t", 0), topic.topic_id, 0, 10, 0)
    made = write_range(options, planned, root, 0)
    path = f"{root}/{made['path']}"
    content = objects.read(path)
    objects.write_over(path, content[:-1])
    with pytest.raises(TableError, match=r"and here it has .* bytes; nothing was committed"):
        commit(table, made, 0, 10)
    files.remove(path)
    with pytest.raises(TableError, match="there is no such file here"):
        commit(table, made, 0, 10)
    objects.write_over(path, content)
    commit(table, made, 0, 10)
    files.remove(path)
    with pytest.raises(TableError, match=r"1 of 1 files of the table s3://.* are not there"):
        BronzeTable.open(root).check_files()


def test_a_state_table_is_merged_and_of_two_drivers_the_second_is_refused(
    lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = States(tmp_path)
    states.step = replace(states.step, table=f"{lake}/state")
    take(states.silver, [SilverRow(0, n, 1000 + n, key=b"ab"[n % 2 :][:1]) for n in range(6)])
    states.run()
    assert states.records() == [(b"a", 0, 4), (b"b", 0, 5)]
    take(
        states.silver, [SilverRow(0, 6, None, key=b"a", carrier=None), SilverRow(0, 7, 9, key=b"c")]
    )
    merge = StateTable._merge

    def late(table: StateTable, *given: Any) -> None:
        monkeypatch.undo()
        states.run()
        merge(table, *given)

    monkeypatch.setattr(StateTable, "_merge", late)
    with pytest.raises(TableError, match="another driver committed step latest to s3://"):
        states.run()
    assert states.records() == [(b"b", 0, 5), (b"c", 0, 7)]
    assert states.verify().sound


def test_a_store_that_ignores_the_condition_gets_no_table(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_conditional", set())
    monkeypatch.setattr(objects, "_made", lambda address, content: True)
    with pytest.raises(EnvironmentProblem, match=r"^the store of s3://lake ignores the condition"):
        BronzeTable.open_or_create(f"{lake}/bronze")
    assert not files.is_folder(f"{lake}/bronze")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("AWS_S3_LOCKING_PROVIDER", "dynamodb", "AWS_S3_LOCKING_PROVIDER is set: the jobs take no"),
        ("AWS_S3_ALLOW_UNSAFE_RENAME", "true", "AWS_S3_ALLOW_UNSAFE_RENAME is set: with it two"),
        ("AWS_CONDITIONAL_PUT", "dynamo:t", "AWS_CONDITIONAL_PUT is set, and not to etag"),
        ("AWS_ALLOW_HTTP", "false", "AWS_ENDPOINT_URL is http://127.0.0.1.*, without encryption"),
    ],
)
def test_settings_with_which_two_writers_could_commit_are_refused(
    lake: str, name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(EnvironmentProblem, match=f"^{said}"):
        BronzeTable.open(f"{lake}/bronze")


def test_what_an_object_store_cannot_do_is_refused_by_name(
    broker: FakeBroker,
    topic: FakeTopic,
    lake: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("verify", f"{lake}/none", "t", "--bootstrap", broker.address) == 1
    assert "none is no Delta table" in capsys.readouterr().err
    bronze = ["ingest", "bronze", "--bootstrap", broker.address, "--topics", "t"]
    table = ["--table", f"{lake}/bronze", "--checkpoint"]
    assert run(*bronze, *table, str(tmp_path / "c"), "--mode", "dataframe") == 1
    assert "Spark writes to folders alone" in capsys.readouterr().err
    assert run(*bronze, *table, f"{lake}/checkpoint") == 1
    assert "is not a path of a local or mounted" in capsys.readouterr().err
    for wrong in ("s3://", "s3://lake", "s3://lake//x", "s3://lake/../x", "gs://lake/x"):
        assert run("verify", wrong, "t", "--bootstrap", broker.address) == 1
        assert f"TABLE: {wrong!r}" in capsys.readouterr().err
