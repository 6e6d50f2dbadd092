"""Pipelines on the shared session: what goes where, once, whatever breaks off."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from strandline_spark.bronze.audit import AuditCopier, accounts
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.bronze.fenced_table import FencedTable
from strandline_spark.commands.main import main
from strandline_spark.errors import (
    EnvironmentProblem,
    OptionError,
    StrandlineSparkError,
    TableError,
    UnknownTopic,
)
from strandline_spark.gold.table import GoldTable
from strandline_spark.gold.verify import verify_step
from strandline_spark.pipeline.failures import StepsFailed
from strandline_spark.pipeline.job import PipelineRun, bronze_job, prepare_pipeline
from strandline_spark.pipeline.verify import verify_parsed, verify_raw
from strandline_spark.silver import judge
from strandline_spark.silver.latest import latest
from strandline_spark.silver.tables import QuarantineTable, SilverTable
from support.pipelines import of_file, rows_of, run_pipeline_once
from support.silver_tables import SilverRow, take
from support.spark_tables import clean_log, taken, write_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from strandline_spark.pipeline.config import Pipeline
    from support.fake_broker_sync import FakeBroker, FakeTopic

pytestmark = pytest.mark.spark

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLICKS: Final = """
[pipeline]
name = "clicks"
topics = ["t"]
MORE_PIPELINE

[bronze]
max_offsets_per_trigger = 100

[silver]
format = "json"
event_time = "at"
MORE_SILVER

[silver.columns]
n = "bigint"
at = "timestamp"

[[gold]]
name = "per_minute"
window = "1 minute"
watermark = "10 seconds"
sql = '''
SELECT window_start, window_end, count(*) AS clicks, sum(n) AS total
FROM silver
GROUP BY ALL
'''
"""


def clicks(folder: Path, *, top: str = "", silver: str = "", text: str = CLICKS) -> Pipeline:
    return of_file(text.replace("MORE_PIPELINE", top).replace("MORE_SILVER", silver), folder)


def value(n: int, **more: Any) -> bytes:
    at = (NOON + timedelta(seconds=n)).isoformat()
    return json.dumps({"n": n, "at": at, **more}).encode()


def fill(topic: FakeTopic, *values: bytes | None, partition: int = 0) -> None:
    records = [(b"k%d" % (i % 3), one) for i, one in enumerate(values)]
    topic.partitions[partition].append(records, timestamp_ms=round(NOON.timestamp() * 1000))


def per_minute(numbers: list[int]) -> list[tuple[Any, ...]]:
    """What gold holds of these clicks once all windows are closed."""
    minutes: dict[int, list[int]] = {}
    for n in numbers:
        minutes.setdefault(n // 60, []).append(n)
    return sorted(
        (
            (NOON + timedelta(minutes=m), NOON + timedelta(minutes=m + 1), len(own), sum(own))
            for m, own in minutes.items()
        ),
        key=repr,
    )


def gold_of(pipeline: Pipeline) -> list[tuple[Any, ...]]:
    return rows_of(pipeline.gold[0].table, "window_start", "window_end", "clicks", "total")


def check(pipeline: Pipeline, bootstrap: str) -> None:
    assert all(one.sound for one in verify_raw(pipeline, bootstrap, complete=True))
    found = verify_parsed(pipeline)
    assert all(one.sound for one in found), found


def test_records_go_to_silver_or_quarantine_and_closed_windows_to_gold(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 2)
    fill(topic, *(value(n) for n in range(150)))
    fill(topic, value(200), b"{", b"[]", value(1) + value(2), None, b'{"n": 1}', partition=1)
    pipeline = clicks(tmp_path)
    reports = run_pipeline_once(spark, pipeline, broker.address)
    assert sum(report.rows for report in reports) == 156
    assert sum(report.quarantined for report in reports) == 4
    check(pipeline, broker.address)
    silver = rows_of(pipeline.silver, "partition", "offset", "n", "tombstone", "event_time", "key")
    assert {row[2] for row in silver} == {*range(150), 200, None}
    (tombstone,) = [row for row in silver if row[3]]
    assert tombstone == (1, 4, None, True, None, b"k1")
    bad = rows_of(pipeline.quarantine, "offset", "reason", "value")
    assert [(offset, raw) for offset, _, raw in bad] == [
        (1, b"{"),
        (2, b"[]"),
        (3, value(1) + value(2)),
        (5, b'{"n": 1}'),
    ]
    assert gold_of(pipeline) == per_minute([*range(150)])
    run_pipeline_once(spark, pipeline, broker.address, close=True)
    assert gold_of(pipeline) == per_minute([*range(150), 200])
    for kind, path in ((SilverTable, pipeline.silver), (QuarantineTable, pipeline.quarantine)):
        before = counted(kind.open(path))
        clean_log(path, kind.open(path).version)
        assert counted(kind.open(path)) == before
    clean_log(pipeline.bronze, BronzeTable.open(pipeline.bronze).version)
    check(pipeline, broker.address)


def counted(table: FencedTable) -> list[tuple[int, ...]]:
    return [(n, one.partition, one.end, one.rows, one.elsewhere) for n, one in accounts(table)]


def test_what_commits_counted_is_compared_though_they_have_left_the_log(tmp_path: Path) -> None:
    """Silver lacks a row that it counted, and quarantine has one more."""
    pipeline = clicks(tmp_path)
    silver = SilverTable.open_or_create(pipeline.silver, {}, "clicks")
    quarantine = QuarantineTable.open_or_create(pipeline.quarantine, "clicks")
    bronze = BronzeTable.open_or_create(pipeline.bronze)
    for batch_id, (start, middle) in enumerate(((0, 4), (10, 15))):
        every = taken(start, start + 10)
        half = replace(every, rows=5, elsewhere=5)
        for table, account, held in (
            (silver, half, range(start, middle)),
            (quarantine, half, range(middle, start + 10)),
            (bronze, every, range(start, start + 10)),
        ):
            file = write_file(pipeline.bronze, list(held))
            (Path(table.path) / file.path).parent.mkdir(parents=True, exist_ok=True)
            Path(pipeline.bronze, file.path).rename(Path(table.path, file.path))
            table.commit("j", batch_id, [account], [file])
    (found,) = verify_parsed(pipeline)
    assert found.problems == [
        "[0, 10) was committed with 5 rows to silver, 4 are there",
        "[0, 10) was committed with 5 rows to quarantine, 6 are there",
    ]
    for table in (silver, quarantine, bronze):
        AuditCopier(table.path).copy(table)
        clean_log(table.path, 2)
    assert verify_parsed(pipeline) == [found]


class Breaks:
    """After the first commit to a table of one kind nothing is committed any more, as if the driver
    had died.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._is_dead = False

    def of(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        def committed(table: Any, *rest: Any) -> Any:
            if self._is_dead:
                raise TableError("broken off")
            done = commit(table, *rest)
            if getattr(table, "KIND", "gold") == self._kind:
                self._is_dead = True
                raise TableError("broken off")
            return done

        return committed


def test_wherever_a_run_breaks_off_the_next_one_gives_the_same_tables(
    spark: SparkSession,
    broker: FakeBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = broker.create("t", 1)
    pipeline = clicks(tmp_path)
    numbers: list[int] = []

    def some_more() -> None:
        """Of the next minute, so that gold closes the one before."""
        fresh = [*range(numbers[-1] // 60 * 60 + 60, numbers[-1] // 60 * 60 + 100)]
        fill(topic, *(value(n) for n in fresh), b"?")
        numbers.extend(fresh)

    numbers.append(0)
    fill(topic, value(0))
    for kind in ("bronze", "silver", "quarantine", "gold"):
        some_more()
        with monkeypatch.context() as patch:
            breaks = Breaks(kind)
            for table in (FencedTable, GoldTable):
                patch.setattr(table, "commit", breaks.of(table.commit))
            # That gold holds the commit is found out at once, as nothing closes any more.
            with (
                contextlib.suppress(StepsFailed)
                if kind == "gold"
                else pytest.raises(StrandlineSparkError, match="broken off")
            ):
                run_pipeline_once(spark, pipeline, broker.address)
        run_pipeline_once(spark, pipeline, broker.address)
        check(pipeline, broker.address)
    run_pipeline_once(spark, pipeline, broker.address, close=True)
    assert gold_of(pipeline) == per_minute(numbers)
    assert sorted(n for (n,) in rows_of(pipeline.silver, "n")) == numbers


def test_a_new_field_becomes_a_column_with_the_type_that_fits_or_stops_the_job(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 2)
    fill(topic, value(0), value(1))
    pipeline = clicks(tmp_path)
    run_pipeline_once(spark, pipeline, broker.address)
    fill(topic, value(2, who="x", score=1), value(3, who={"name": "y"}))
    fill(topic, value(4, score=1.5), partition=1)
    with pytest.raises(
        StrandlineSparkError, match=r"fields that are no columns: score .*who.*on_new_field"
    ):
        run_pipeline_once(spark, pipeline, broker.address)
    adds = clicks(tmp_path, silver='on_new_field = "add"')
    notes: list[str] = []
    run_pipeline_once(spark, adds, broker.address, note=notes.append)
    assert any("new columns" in note and "score double, who string" in note for note in notes)
    fill(topic, value(5, score="high"), value(6, who=7))
    run_pipeline_once(spark, adds, broker.address, note=notes.append)
    assert any("score string in place of double" in note for note in notes)
    check(adds, broker.address)
    assert rows_of(adds.silver, "n", "who", "score") == [
        (0, None, None),
        (1, None, None),
        (2, "x", "1"),
        (3, '{"name": "y"}', None),
        (4, None, "1.5"),
        (5, None, "high"),
        (6, "7", None),
    ]
    assert rows_of(adds.quarantine, "reason") == []
    fill(topic, value(7))
    with pytest.raises(StepsFailed, match=r"silver: .*column n of type long, and .*says string"):
        run_pipeline_once(
            spark, clicks(tmp_path, text=CLICKS.replace("bigint", "string")), broker.address
        )
    assert len(rows_of(adds.bronze, "offset")) == 8
    run_pipeline_once(spark, adds, broker.address)
    check(adds, broker.address)


ODD_FIELDS: Final = {
    "timestamp": ("bigint", "the table has a column timestamp already"),
    "N": ("double", "the table has a column n already"),
    "": ("string", "a table cannot have a column named ''"),
    "window_end": ("boolean", "gold steps add a column window_end"),
    "who": ("string", "the table has a column Who already"),
    'new\n"line"': ("string", "a table cannot have a column named 'new"),
}


def test_a_field_that_cannot_become_a_column_stops_silver_which_says_how_it_is_read(
    spark: SparkSession,
    broker: FakeBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = broker.create("t", 1)
    row = {"timestamp": 7, "N": 0.5, "": "x", "window_end": True, "Who": "a", "who": "b"}
    row['new\n"line"'] = "c"
    fill(topic, value(0, **row))
    adds = clicks(tmp_path, silver='on_new_field = "add"')
    with pytest.raises(StepsFailed, match="nothing was committed to silver") as raised:
        run_pipeline_once(spark, adds, broker.address)
    assert len(rows_of(adds.bronze, "offset")) == 1
    for name, (kind, why) in ODD_FIELDS.items():
        shown = name if name.isalpha() or "_" in name else repr(name)
        assert f"{shown} ({kind}, in topic t; {why}" in str(raised.value)
    assert 'my_column = { type = "string", field = "" }' in str(raised.value)
    columns = {f"c{n}": (name, kind) for n, (name, (kind, _)) in enumerate(ODD_FIELDS.items())}
    named = "".join(
        f'{column} = {{ type = "{kind}", field = {json.dumps(name)} }}\n'
        for column, (name, kind) in columns.items()
    )
    text = CLICKS.replace('at = "timestamp"\n', f'at = "timestamp"\n{named}')
    adds = clicks(tmp_path, silver='on_new_field = "add"', text=text)
    run_pipeline_once(spark, adds, broker.address)
    found = rows_of(adds.silver, "Who", *columns)
    assert found == [("a", *(row[name] for name in ODD_FIELDS))]
    check(adds, broker.address)
    monkeypatch.setattr(judge, "COLUMNS_MAX", 9)
    fill(topic, value(1, u1=1, u2=1))
    with pytest.raises(StrandlineSparkError, match=r"u1 .*u2 .* over 9 columns: such names are"):
        run_pipeline_once(spark, adds, broker.address)
    reads_who = text.replace("[[gold]]", 'c9 = { type = "string", field = "Who" }\n\n[[gold]]')
    with pytest.raises(StepsFailed, match=r"has the column Who, and \[silver.columns\] c9"):
        run_pipeline_once(spark, clicks(tmp_path, text=reads_who), broker.address)


def test_more_bad_records_than_the_limit_stop_silver_while_bronze_goes_on(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 1)
    fill(topic, *(value(n) for n in range(8)), b"?", b'{"n": "x"}')
    strict = clicks(tmp_path, silver="quarantine_limit = 1")
    words = r"silver: 2 of 10 records .*quarantine_limit = 1 .*t:0 offset 8"
    with pytest.raises(StepsFailed, match=words):
        run_pipeline_once(spark, strict, broker.address)
    assert len(rows_of(strict.bronze, "offset")) == 10
    fill(topic, *(value(n) for n in range(60, 70)))
    with pytest.raises(StepsFailed, match=words):
        run_pipeline_once(spark, strict, broker.address, close=True)
    assert len(rows_of(strict.bronze, "offset")) == 20
    assert rows_of(strict.silver, "offset") == []
    assert not os.path.exists(strict.gold[0].table)
    assert list(Path(strict.silver).rglob("*.parquet")) == []
    looser = clicks(tmp_path, silver="quarantine_limit = 2")
    run_pipeline_once(spark, looser, broker.address, close=True)
    check(looser, broker.address)
    assert gold_of(looser) == per_minute([*range(8), *range(60, 70)])
    batches = rows_of(looser.silver, "offset", "batch_id", "ingest_date")
    assert set(batches) < set(rows_of(looser.bronze, "offset", "batch_id", "ingest_date"))


def test_a_share_of_bad_records_says_nothing_of_a_small_batch(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 1)
    pipeline = clicks(tmp_path, silver='quarantine_limit = "1%"')
    pipeline = replace(pipeline, max_offsets_per_trigger=None)
    fill(topic, value(0), value(1), b"?")
    run_pipeline_once(spark, pipeline, broker.address)
    fill(topic, *(value(n) for n in range(2, 991)), *[b"?"] * 11)
    with pytest.raises(StepsFailed, match=r"11 of 1,000 records .*quarantine_limit = 1%"):
        run_pipeline_once(spark, pipeline, broker.address)
    assert len(rows_of(pipeline.quarantine, "offset")) == 1
    fill(topic, value(991))
    fixed = clicks(tmp_path, silver='quarantine_limit = "1.1%"')
    run_pipeline_once(spark, fixed, broker.address)
    check(fixed, broker.address)
    assert len(rows_of(pipeline.quarantine, "offset")) == 12


def test_a_time_far_ahead_is_quarantined_and_gold_goes_on(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 1)
    pipeline = clicks(tmp_path)
    fill(topic, *(value(n) for n in range(100)), value(10 * 365 * 86_400), value(3601), value(3599))
    run_pipeline_once(spark, pipeline, broker.address)
    fill(topic, *(value(n) for n in range(3400, 3500)))
    run_pipeline_once(spark, pipeline, broker.address, close=True)
    late = [one.late for one in GoldTable.open(pipeline.gold[0], "clicks").accounts()]
    assert sum(late) == 100, "the time that is allowed has closed their windows"
    assert gold_of(pipeline) == per_minute([*range(100), 3599])
    assert rows_of(pipeline.quarantine, "offset", "reason", "detail") == [
        (
            *(100, "event time ahead"),
            "at is 2036-02-27T12:00:00.000000Z, more than max_ahead after its record's"
            " 2026-03-01T12:00:00.000000Z",
        ),
        (
            *(101, "event time ahead"),
            "at is 2026-03-01T13:00:01.000000Z, more than max_ahead after its record's"
            " 2026-03-01T12:00:00.000000Z",
        ),
    ]
    check(pipeline, broker.address)


def test_a_topic_with_history_that_joins_is_late_and_each_run_says_so(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    first, second = broker.create("t", 1), broker.create("u", 1)
    fill(first, value(10), value(100))
    run_pipeline_once(spark, clicks(tmp_path), broker.address)
    both = clicks(tmp_path, text=CLICKS.replace('["t"]', '["t", "u"]'))
    fill(second, *(value(n - 3000) for n in range(30)))
    for late in ("30", "0"):
        notes: list[str] = []
        run_pipeline_once(spark, both, broker.address, note=notes.append)
        said = [note for note in notes if "came late" in note]
        assert said == [
            "gold per_minute: 30 rows came late, after their window was closed"
            " (closed up to 2026-03-01T12:01:30Z before)"
        ] * (late == "30")
    fill(second, value(20))
    fill(first, value(900))
    run_pipeline_once(spark, both, broker.address)
    assert gold_of(both) == per_minute([10, 100])
    assert len(rows_of(both.silver, "n")) == 34
    gold = GoldTable.open(both.gold[0], "clicks")
    assert [(one.rows, one.late) for one in gold.accounts()] == [(1, 0), (0, 30), (1, 1)]
    found = verify_step(spark, both.gold[0], both.silver, pipeline="clicks")
    assert (found.problems, found.late) == ([], 31)
    assert found.watermark == "2026-03-01T12:14:50Z"
    page = str(tmp_path / "page.html")
    with pytest.raises(SystemExit):
        main(["report", both.gold[0].table, "--output", page])
    text = Path(page).read_text()
    assert "31 rows of silver came after their window was closed, and are not in it" in text
    assert "2026-03-01T12:14:50Z" in text
    assert "Good." not in text


def test_a_clock_that_jumps_closes_windows_and_loses_no_row(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 1)
    pipeline = clicks(tmp_path, silver='max_ahead = "unlimited"')
    ahead, back = (
        int((datetime(year, 12, 30, tzinfo=UTC) - NOON).total_seconds()) for year in (9999, 1)
    )
    fill(topic, value(10), value(ahead))
    run_pipeline_once(spark, pipeline, broker.address)
    beyond = json.dumps({"n": 0, "at": "+10000-01-01T00:00:00Z"}).encode()
    fill(topic, value(20), value(back), value(ahead + 60), beyond)
    notes: list[str] = []
    run_pipeline_once(spark, pipeline, broker.address, close=True, note=notes.append)
    assert gold_of(pipeline) == per_minute([10, ahead, ahead + 60])
    assert any("2 rows came late" in note for note in notes), notes
    silver = [n for (n,) in rows_of(pipeline.silver, "n")]
    assert sorted(silver) == sorted([10, ahead, 20, back, ahead + 60])
    assert [reason for (reason,) in rows_of(pipeline.quarantine, "reason")] == ["wrong type"]
    check(pipeline, broker.address)


def test_tables_of_another_pipeline_are_refused_and_new_ones_are_filled_from_bronze(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 1)
    fill(topic, value(0))
    pipeline = clicks(tmp_path)
    run_pipeline_once(spark, pipeline, broker.address)
    other = clicks(tmp_path, text=CLICKS.replace('name = "clicks"', 'name = "other"'))
    with pytest.raises(TableError, match="belongs to the pipeline clicks, not to other"):
        run_pipeline_once(spark, other, broker.address)
    anew = clicks(tmp_path, top='checkpoint = "again"\ndirectory = "lake"')
    beside = of_file(
        CLICKS.replace("MORE_PIPELINE", 'checkpoint = "again"').replace(
            "MORE_SILVER", 'table = "silver-2"'
        ),
        tmp_path,
    )
    run_pipeline_once(spark, beside, broker.address)
    assert rows_of(beside.silver, "n") == [(0,)]
    fill(topic, value(1))
    assert [one.rows for one in run_pipeline_once(spark, anew, broker.address)] == [1]
    check(anew, broker.address)


def test_a_run_that_cannot_begin_makes_no_table(broker: FakeBroker, tmp_path: Path) -> None:
    pipeline = clicks(tmp_path)
    job = bronze_job(pipeline, PipelineRun(broker.address))
    with pytest.raises(UnknownTopic, match="t does not exist"):
        prepare_pipeline(pipeline, job)
    broker.create("t", 1)
    with pytest.raises(EnvironmentProblem, match="cannot run nowhere"):
        prepare_pipeline(pipeline, replace(job, worker_python="nowhere"))
    Path(pipeline.quarantine).parent.mkdir(exist_ok=True)
    Path(pipeline.quarantine).touch()
    with pytest.raises(TableError, match="quarantine exists and is no Delta table"):
        prepare_pipeline(pipeline, job)
    made = (pipeline.silver, pipeline.bronze, pipeline.checkpoint)
    assert not any(map(os.path.exists, made))


def test_a_statement_that_does_not_compile_ends_the_run_before_a_batch_is_read(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    topic = broker.create("t", 1)
    fill(topic, value(0))
    text = CLICKS.replace("sum(n)", "sum(nn)")
    with pytest.raises(OptionError, match=r"\[\[gold\]\] per_minute, key sql, line \d+.*nn"):
        run_pipeline_once(spark, clicks(tmp_path, text=text), broker.address)
    assert rows_of(clicks(tmp_path).bronze, "offset") == []


def test_an_empty_topic_makes_empty_tables(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    broker.create("t", 1)
    pipeline = clicks(tmp_path)
    run_pipeline_once(spark, pipeline, broker.address, close=True)
    for table in (pipeline.bronze, pipeline.silver, pipeline.quarantine):
        assert rows_of(table, "offset") == []
    check(pipeline, broker.address)
    assert verify_raw(pipeline, None) == []
    fill(broker.topics["t"], value(0))
    (found,) = verify_raw(pipeline, broker.address, complete=True)
    assert found.problems == ["1 offsets of the topic are not in the table yet"]


def test_a_verdict_says_nothing_of_gold_that_is_not_there(
    broker: FakeBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And Spark's flags, which gold alone needs, are refused where there is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STRANDLINE_BOOTSTRAP", broker.address)
    broker.create("t", 1)
    pipeline = clicks(tmp_path)
    prepare_pipeline(pipeline, bronze_job(pipeline, PipelineRun(broker.address)))
    text = CLICKS.replace("MORE_PIPELINE", "").replace("MORE_SILVER", "")

    def told(text: str, *more: str) -> tuple[object, list[str]]:
        Path(pipeline.file).write_text(text)
        with pytest.raises(SystemExit) as ended:
            main(["verify", pipeline.file, *more])
        out, err = capsys.readouterr()
        return ended.value.code, (out + err).splitlines()

    status, lines = told(text)
    assert (status, lines[-2:]) == (
        0,
        [
            "per_minute: it has no table yet; the next run makes it",
            "sound: bronze and silver; there is no gold yet",
        ],
    )
    without = text.partition("[[gold]]")[0]
    status, lines = told(without)
    assert (status, lines[-1]) == (0, "sound: bronze and silver")
    status, lines = told(without, "--master", "local[1]")
    assert status == 1
    assert lines[-1].startswith("error: --master: ")
    assert "has no gold step" in lines[-1]


def test_the_latest_row_of_each_key_is_there_unless_it_is_a_tombstone(
    spark: SparkSession, tmp_path: Path
) -> None:
    times = (0, 1, 2, 3, None)
    rows = [SilverRow(0, n, at, key=b"k%d" % (n % 3)) for n, at in enumerate(times)]
    take(str(tmp_path), [*rows, SilverRow(0, 5, 5, key=None), SilverRow(1, 0, 6, key=b"k0")])
    found = sorted(
        (row.partition, row.key, row.offset) for row in latest(spark, str(tmp_path)).collect()
    )
    assert found == [(0, b"k0", 3), (0, b"k2", 2), (1, b"k0", 0)]
