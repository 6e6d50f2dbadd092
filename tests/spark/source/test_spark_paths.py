"""Paths with signs that mean something to a parser of URLs or patterns: each is right, or refused
in a line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from deltalake import DeltaTable

from strandline_spark.bronze.audit import AuditCopier, audit_path
from strandline_spark.bronze.bronze import BronzeJob, prepare, stream
from strandline_spark.bronze.columns import BronzeTable
from strandline_spark.commands.main import main
from strandline_spark.commands.pipeline import _written
from strandline_spark.errors import OptionError, TableError
from strandline_spark.gold.silver import Silver
from strandline_spark.gold.table import GoldTable
from strandline_spark.pipeline.verify import verify_parsed, verify_raw
from strandline_spark.report.accounts import read_table
from strandline_spark.silver.latest import latest
from strandline_spark.silver.tables import QuarantineTable, SilverTable
from strandline_spark.source.option_values import local_path
from support.pipelines import of_file, rows_of, run_pipeline_once
from support.spark_tables import take

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strandline_spark.pipeline.config import Pipeline
    from support.fake_broker_sync import FakeBroker

RIGHT: Final = (
    *(
        " a b ",
        "a%",
        "%zz",
        "100%",
        "ü日本",
        "e\u0301",
        "'q'",
        '"q"',
        "a*",
        "[a-z]",
        "{a,b}",
        "${x}",
    ),
    *("a:b", "s3:x", "file:x", "a+b", "a&b", "a=b", "topic=t", "a;b", "a,b", "a|b", "<a>", "a^b"),
    *(
        "`a`",
        "~",
        "a$b",
        "a@b",
        "!",
        "(a)",
        ".a",
        "_a",
        "-a",
        "a...",
        "\u2028",
        "a\x85b",
        "x" * 200,
    ),
)
REFUSED: Final = {
    **{"a#b": "#", "#": "#", "a?b": "?", "a b?": "?"},
    **{"a%20b": "%20", "a%2Fb": "%2F", "a%2fb": "%2f", "a%23": "%23", "a%00": "%00", "%41": "%41"},
    **{"a\\b": "\\", "\\": "\\"},
    **{"a\tb": "\t", "a\nb": "\n", "a\x01b": "\x01", "a\x7f": "\x7f", "a\udcffb": "\udcff"},
}
"""With the sign that is named."""
PIPELINE: Final = """
[pipeline]
name = "paths"
topics = ["t"]
MORE

[silver]
format = "json"
event_time = "timestamp"

[silver.columns]
n = "bigint"

[[gold]]
name = "counts"
window = "1 day"
watermark = "1 second"
sql = "SELECT window_start, window_end, sum(n) AS total FROM silver GROUP BY ALL"
"""


def pipeline_in(folder: Path, more: str = "") -> Pipeline:
    return of_file(PIPELINE.replace("MORE", more), folder)


@pytest.mark.parametrize("name", RIGHT)
def test_a_table_lies_where_its_path_says_with_its_history_and_audit(
    name: str, tmp_path: Path
) -> None:
    root = str(tmp_path / name / "t")
    take(root, 0, 10)
    take(root, 10, 15)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    table = BronzeTable.open(root)
    assert [c.ranges[0].end for c in table.commits()] == [15, 10]
    assert AuditCopier(root).copy(table) == 0
    audit = sorted(rows_of(audit_path(root), "start_offset", "end_offset", "rows"))
    assert audit == [(0, 10, 10), (10, 15, 5)]
    assert read_table(root).rows == 15


@pytest.mark.parametrize(("name", "sign"), REFUSED.items())
def test_a_path_that_delta_does_not_read_as_it_stands_is_refused_and_nothing_is_made(
    name: str, sign: str, tmp_path: Path
) -> None:
    path = str(tmp_path / name)
    step = pipeline_in(tmp_path).gold[0]
    object.__setattr__(step, "table", path)
    acts = (
        *(BronzeTable.open, BronzeTable.open_or_create, BronzeTable.find, SilverTable.open),
        *(QuarantineTable.find, Silver.open, read_table, lambda path: GoldTable.open(step, "p")),
    )
    for act in acts:
        with pytest.raises(TableError) as refused:
            act(path)
        (line,) = str(refused.value).splitlines()
        assert f"cannot be the path of a table: delta-rs does not read {sign!r} in a path" in line
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_such_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a#b").mkdir()
    (tmp_path / "link").symlink_to("a#b")
    with pytest.raises(TableError, match="does not read '#' in a path"):
        BronzeTable.open_or_create(str(tmp_path / "link" / "t"))
    assert list((tmp_path / "a#b").iterdir()) == []


@pytest.mark.parametrize("key", ["bronze.table", "silver.table", "silver.quarantine"])
@pytest.mark.parametrize("name", [name for name in REFUSED if name.isprintable()])
def test_a_pipeline_file_that_names_one_is_refused_with_its_key_and_line(
    name: str, key: str, tmp_path: Path
) -> None:
    section, word = key.split(".")
    more = f"[{section}]\n{word} = {json.dumps(name)}\n"
    text = PIPELINE.replace("MORE", more if section == "bronze" else "")
    text = text.replace("[silver]\n", more) if section == "silver" else text
    at = text[: text.index(f"{word} = ")].count("\n") + 1
    with pytest.raises(OptionError) as refused:
        of_file(text, tmp_path)
    assert f": [{section}] {word} (line {at}) is the folder " in str(refused.value)
    assert f": there can be no {REFUSED[name]!r} in its path; rename the" in str(refused.value)


def test_the_folder_of_the_file_counts_too(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"\[silver\] table \(line 7\) .*no '#' in its path"):
        pipeline_in(tmp_path / "a#b")


@pytest.mark.parametrize(
    "url",
    ["file:///a%20b", "file:///a#b", "file:/a?b=c", "dbfs:/t", "s3a:/t", "s3://t", "hdfs://h/"],
)
def test_a_url_is_no_path(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compact", url])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: TABLE: {url!r}")


def test_an_unprintable_path_is_refused_for_whatever_is_named_by_it() -> None:
    for sign in "\n\x00\x7f\udcff":
        with pytest.raises(OptionError, match="give a path without it"):
            local_path("--checkpoint", f"/a{sign}b")
    assert local_path("--checkpoint", "/a#b?%20\\") == "/a#b?%20\\"


@pytest.mark.spark
def test_a_pipeline_in_a_folder_of_odd_names_gives_what_it_gives_elsewhere(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    folder = tmp_path / " a b%zz" / "[a]{b,c}*$x" / "ü日本'\"`;,:+&=" / "~(x)|^!@"
    folder.mkdir(parents=True)
    topic = broker.create("t")
    topic.partitions[0].append([(b"k%d" % n, b'{"n": %d}' % n) for n in range(10)])
    topic.partitions[0].append([(b"k", b"{")])
    pipeline = pipeline_in(folder, 'checkpoint = "c#?%20\\\\"')
    run_pipeline_once(spark, pipeline, broker.address, close=True)
    assert all(one.sound for one in verify_raw(pipeline, broker.address, complete=True))
    assert all(one.sound for one in verify_parsed(pipeline))
    assert rows_of(pipeline.gold[0].table, "total") == [(45,)]
    for path in (pipeline.bronze, pipeline.silver, pipeline.quarantine):
        assert DeltaTable(audit_path(path)).to_pyarrow_table().num_rows == 1, path
    assert _written(spark, latest(spark, pipeline.silver), str(folder / "out")) == 10
    assert Path(pipeline.checkpoint, "commits", "0").is_file()
    assert Path(pipeline.checkpoint).name == "c#?%20\\"


@pytest.mark.spark
def test_spark_writes_a_table_in_a_folder_of_odd_names_too(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    broker.create("t").partitions[0].append([(b"k", b"v")] * 7)
    folder = tmp_path / " a b%zz" / "[a]{b,c}*$x" / "ü日本'\"`;,:+&="
    job = BronzeJob(
        bootstrap=broker.address,
        topics=("t",),
        table=str(folder / "table"),
        checkpoint=str(folder / "checkpoint"),
        direct=False,
    )
    stream(spark, job, prepare(job), lambda report: None)
    assert rows_of(job.table, "offset", "value") == [(n, b"v") for n in range(7)]
    assert rows_of(audit_path(job.table), "start_offset", "end_offset", "rows") == [(0, 7, 7)]
