"""Duplicates between bronze and silver, against a plain loop over the records of each partition."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from strandline_spark.errors import OptionError, TableError
from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.pipeline.verify import verify_parsed
from strandline_spark.silver import catch_up as catch_up_module
from strandline_spark.silver import duplicates
from strandline_spark.silver.rebuild import Rebuild
from strandline_spark.silver.tables import QuarantineTable, SilverTable
from support.bronze_values import InlineSpark, Record, take
from support.deduped import FILE, WITHIN, level, make, pipeline_in, record

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_spark.pipeline.config import Pipeline


def history(chance: random.Random, rows: int = 45) -> list[Record]:
    """Times rise, out of order by more than the window; offsets have gaps."""
    out: list[Record] = []
    offsets, now = Counter[int](), 100
    for _ in range(rows):
        now += chance.choice([0, 0, 1, 3])
        partition = chance.randint(0, 1)
        offsets[partition] += chance.randint(1, 2)
        offset = offsets[partition]
        if chance.random() < 0.05:
            out.append(Record(partition, offset, chance.choice([None, b"no json"])))
            continue
        id_ = None if chance.random() < 0.1 else chance.randint(1, 5)
        out.append(record(partition, offset, id_, max(0, now - chance.choice([0, 0, 2, 9, 25]))))
    return out


def plain(records: list[Record]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(partition, offset) of the rows that stay, and of the duplicates. Each record is compared
    with all rows before it.
    """
    stay: list[tuple[int, int]] = []
    repeats: list[tuple[int, int]] = []
    for partition in sorted({one.partition for one in records}):
        kept: list[tuple[Any, int]] = []
        for one in records:
            if one.partition != partition or one.value == b"no json":
                continue
            if one.value is None:
                stay.append((partition, one.offset))
                continue
            value = json.loads(one.value)
            newest = max((at for _, at in kept), default=0)
            if any(
                id_ == value["id"] is not None
                and abs(at - value["at"]) <= WITHIN
                and at >= newest - WITHIN
                for id_, at in kept
            ):
                repeats.append((partition, one.offset))
            else:
                stay.append((partition, one.offset))
                kept.append((value["id"], value["at"]))
    return sorted(stay), sorted(repeats)


def places(path: str, reason: str | None = None) -> list[tuple[int, int]]:
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    wanted = [one for one in rows if reason is None or one["reason"] == reason]
    return sorted((one["partition"], one["offset"]) for one in wanted)


def commit_in_cuts(pipeline: Pipeline, records: list[Record], chance: random.Random) -> None:
    left, number = list(records), 0
    while left:
        size = chance.randint(1, 15)
        take(pipeline.bronze, number, left[:size])
        left, number = left[size:], number + 1


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    duplicates._KNOWN.clear()


def test_the_same_rows_stay_however_batches_are_cut_and_runs_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(1)
    records = history(chance)
    expected = plain(records)
    assert all(expected)
    for cut in range(2):
        pipeline = pipeline_in(tmp_path / str(cut))
        make(pipeline)
        left, number, found = list(records), 0, 0
        while left:
            for _ in range(chance.randint(1, 3)):
                size = chance.randint(1, 12)
                if left[:size]:
                    take(pipeline.bronze, number, left[:size])
                left, number = left[size:], number + 1
            monkeypatch.setattr(catch_up_module, "CHUNK_RANGES", chance.randint(1, 8))
            if chance.random() < 0.5:  # another process
                duplicates._KNOWN.clear()
            found += level(pipeline, steps=chance.randint(1, 3))
        found += level(pipeline)
        assert (places(pipeline.silver), places(pipeline.quarantine, "duplicate")) == expected
        assert found == len(expected[1])
        for one in verify_parsed(pipeline, values=True):
            assert one.problems == []
            assert one.duplicates == sum(p == one.partition for p, _ in expected[1])


rows_of_one = st.lists(st.tuples(st.sampled_from([None, 1, 2, 3]), st.integers(0, 45)), max_size=30)


@given(rows_of_one, st.data())
def test_what_is_remembered_follows_from_the_rows_that_stayed(
    drawn: list[tuple[int | None, int]], data: st.DataObject
) -> None:
    """However often it is read again from silver, with rows that are too old or without them."""
    records = [record(0, n, id_, at) for n, (id_, at) in enumerate(drawn)]
    _, repeats = plain(records)
    seen = duplicates.Seen(("id",), WITHIN * 10**6)
    found: list[tuple[int, int]] = []
    held: list[dict[str, Any]] = []
    at = 0
    while at < len(records):
        size = data.draw(st.integers(1, 10))
        rows = [row(n, drawn[n]) for n in range(at, min(at + size, len(records)))]
        repeated = seen.take(table(rows).to_batches()[0])
        found += [(0, rows[place]["offset"]) for place in repeated.rows]
        held += [one for place, one in enumerate(rows) if place not in repeated.rows]
        at += size
        if data.draw(st.booleans()):
            newest = max(one["event_time"] for one in held)
            needed = [one for one in held if one["event_time"] >= newest - WITHIN * 10**6]
            more = [one for one in held if one not in needed and data.draw(st.booleans())]
            seen = duplicates.Seen(("id",), WITHIN * 10**6)
            seen.remember(table(data.draw(st.permutations([*needed, *more]))))
    assert sorted(found) == repeats


def row(offset: int, drawn: tuple[int | None, int]) -> dict[str, Any]:
    id_, at = drawn
    return {"offset": offset, "event_time": at * 10**6, "tombstone": False, "id": id_}


def table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa  # type: ignore[import-untyped]

    schema = pa.schema(
        [
            ("offset", pa.int64()),
            ("event_time", pa.timestamp("us", "UTC")),
            ("tombstone", pa.bool_()),
            ("id", pa.int64()),
        ]
    )
    return pa.Table.from_pylist(rows, schema=schema)


def test_a_crash_between_the_two_commits_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = history(random.Random(7), 40)
    expected = plain(records)
    for first in ("silver", "quarantine"):
        duplicates._KNOWN.clear()
        pipeline = pipeline_in(tmp_path / first)
        make(pipeline)
        take(pipeline.bronze, 0, records[:20])
        take(pipeline.bronze, 1, records[20:])
        skipped = QuarantineTable if first == "silver" else SilverTable

        with monkeypatch.context() as patch:
            patch.setattr(skipped, "commit", lambda *_: None)
            level(pipeline, steps=1)
        duplicates._KNOWN.clear()
        level(pipeline)
        assert (places(pipeline.silver), places(pipeline.quarantine, "duplicate")) == expected
        assert all(one.sound for one in verify_parsed(pipeline, values=True))


def test_a_rebuild_gives_the_same_rows(tmp_path: Path) -> None:
    records = history(random.Random(3))
    pipeline = pipeline_in(tmp_path)
    make(pipeline)
    commit_in_cuts(pipeline, records, random.Random(4))
    level(pipeline)
    spark: Any = InlineSpark()
    Rebuild(pipeline, lambda _: None).run(spark)
    assert (places(pipeline.silver), places(pipeline.quarantine, "duplicate")) == plain(records)
    with pytest.raises(OptionError, match=r"--quarantine-only .* dedupe .*: leave the flag out"):
        Rebuild(pipeline, lambda _: None, quarantine_only=True).run(spark)


def test_a_duplicate_is_in_quarantine_with_the_row_that_it_repeats(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    make(pipeline)
    take(pipeline.bronze, 0, [record(0, n, 1, at) for n, at in enumerate([100, 110, 111, 121])])
    assert level(pipeline) == 2
    rows = DeltaTable(pipeline.quarantine).to_pyarrow_table().sort_by("offset").to_pylist()
    said = [(one["offset"], one["reason"], one["detail"]) for one in rows]
    assert said == [
        (1, "duplicate", "it repeats the row at offset 0"),
        (3, "duplicate", "it repeats the row at offset 2"),
    ]
    assert json.loads(rows[0]["value"])["at"] == 110


def test_duplicates_are_not_among_the_records_that_quarantine_limit_counts(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    make(pipeline)
    bad = [Record(0, n, b"no json") for n in range(3)]
    take(pipeline.bronze, 0, [*bad, *(record(0, n, 1, 100) for n in range(3, 13))])
    assert level(pipeline) == 9
    take(pipeline.bronze, 1, [Record(0, n, b"no json") for n in range(13, 17)])
    with pytest.raises(TableError, match=r"4 of 4 records .* \(not JSON 4\)"):
        level(pipeline)


def test_a_row_without_a_key_and_a_tombstone_are_no_duplicates(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    make(pipeline)
    rows = [
        record(0, 0, None, 100),
        record(0, 1, None, 100),
        Record(0, 2, None),
        Record(0, 3, None),
    ]
    take(pipeline.bronze, 0, rows)
    assert level(pipeline) == 0
    assert len(places(pipeline.silver)) == 4


def test_the_other_partition_has_rows_of_its_own(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    make(pipeline)
    take(pipeline.bronze, 0, [record(0, 0, 1, 100), record(1, 0, 1, 100)])
    assert level(pipeline) == 0


def test_only_files_near_the_newest_event_time_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_in(tmp_path)
    make(pipeline)
    read: list[str] = []
    plain_read = duplicates._read

    def counted(path: str, columns: list[str]) -> Any:
        read.append(path)
        return plain_read(path, columns)

    monkeypatch.setattr(duplicates, "_read", counted)
    for n in range(8):
        take(pipeline.bronze, n, [record(0, n, 1, 100 + 4 * n)])
        duplicates._KNOWN.clear()
        read.clear()
        level(pipeline)
    # Of the rows at 100, 112 and 124 the last one is within ten seconds of the newest, 124.
    assert places(pipeline.silver) == [(0, 0), (0, 3), (0, 6)]
    assert len(read) == 1
    read.clear()
    take(pipeline.bronze, 8, [record(0, 8, 1, 125)])
    assert level(pipeline) == 1
    assert read == []  # this process has seen the rows itself


def test_another_way_to_find_duplicates_makes_rows_of_another_kind(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    make(pipeline)
    silver = SilverTable.open(pipeline.silver)
    silver.check_kind(pipeline.parse, pipeline.file)
    for text, said in (
        (
            FILE.replace('"10 seconds"', '"1 day"'),
            r'was made with dedupe = { key = \["id", "kind"\]'
            r', within = "10 seconds" }, and \[silver\] of .* has dedupe = .*"86400 seconds" }',
        ),
        (FILE.replace("dedupe =", "# dedupe ="), "has no dedupe: its rows would be of two kinds"),
    ):
        with pytest.raises(TableError, match=said):
            silver.check_kind(pipeline_in(tmp_path, text).parse, pipeline.file)
    plain_table = pipeline_in(tmp_path / "plain", FILE.replace("dedupe =", "# dedupe ="))
    make(plain_table)
    with pytest.raises(TableError, match=r"was made with no dedupe, and .* rebuild silver"):
        SilverTable.open(plain_table.silver).check_kind(pipeline.parse, pipeline.file)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{ key = [], within = "1 day" }', r"\[silver\] dedupe \(line 11\), key = \[\]: name one"),
        ('{ key = ["id", "id"], within = "1 day" }', "each once"),
        ('{ key = ["idd"], within = "1 day" }', r"key = 'idd' is no column \(did you mean id\?\)"),
        ('{ key = ["offset"], within = "1 day" }', "'offset' is no column: name one of"),
        ('{ key = ["id"], within = "soon" }', "within = 'soon': give a whole number .*'5 minutes'"),
        ('{ key = ["id"], within = "0 days" }', "within = '0 days': give a whole number"),
        ('{ key = ["id"] }', r"\[silver\] dedupe, within is missing \(line 11\)"),
        (
            '{ key = ["id"], within = "1 day", by = 1 }',
            "dedupe, by .*: unknown key; there are key, within",
        ),
        ('{ key = "id", within = "1 day" }', r"dedupe.*Expected `array`"),
        ('"id"', r"dedupe.*Expected `object"),
        ('{ key = ["price"], within = "1 day" }', "'price': a double is no key, because equal"),
        (
            '{ key = ["parts"], within = "1 day" }',
            "'parts': a column of type array<string> is no key; name",
        ),
    ],
)
def test_a_mistake_is_named_with_its_key_value_and_remedy(given: str, said: str) -> None:
    text = FILE.replace('{ key = ["id", "kind"], within = "10 seconds" }', given)
    text += 'price = "double"\nparts = "array<string>"\n'
    with pytest.raises(OptionError, match=said):
        parse_pipeline(text, "/srv/pipeline.toml")


def test_elements_are_no_duplicates_of_each_other() -> None:
    text = FILE.replace("[silver.columns]", 'explode = "items"\n[silver.columns]')
    with pytest.raises(OptionError, match=r"dedupe \(line 11\) is for rows that are records"):
        parse_pipeline(text, "/srv/pipeline.toml")
