"""A state step over silver: what one commit holds, and what it reads, wherever a run ends."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.schema import Field

from strandline_spark.errors import OptionError, TableError
from strandline_spark.state import graves, reader, step, table
from strandline_spark.state.account import METADATA_KEY
from strandline_spark.state.table import StateTable
from support.silver_tables import SilverRow, create, take
from support.state_tables import PIPELINE, States


def row(offset: int, key: bytes | None, *, partition: int = 0, **more: Any) -> SilverRow:
    more.setdefault("time", 1_000 + offset)
    return SilverRow(partition, offset, key=key, **more)


def dead(offset: int, key: bytes | None, *, partition: int = 0, at: int = 0) -> SilverRow:
    return SilverRow(partition, offset, None, key=key, at=at, carrier=None)


@pytest.fixture
def states(tmp_path: Path) -> States:
    return States(tmp_path)


def newest(states: States) -> dict[str, Any]:
    """The newest entry of the state table's history."""
    entry: dict[str, Any] = DeltaTable(states.step.table).history(1)[0]
    return entry


def test_the_latest_row_of_each_key_is_kept_with_all_columns(states: States) -> None:
    take(states.silver, [row(0, b"a"), row(1, b"b"), row(2, b"a", carrier="AA", delay=2.5)])
    report = states.run()
    assert (report.rows, report.upserted, report.deleted, report.keys) == (3, 2, 0, 2)
    assert states.rows("key", "offset", "carrier", "delay") == [
        (b"a", 2, "AA", 2.5),
        (b"b", 1, "UA", 1.0),
    ]
    assert DeltaTable(states.step.table).schema() == DeltaTable(states.silver).schema()


def test_a_later_row_replaces_and_a_tombstone_deletes(states: States) -> None:
    take(states.silver, [row(0, b"a"), row(1, b"b"), row(2, b"c")])
    states.run()
    take(states.silver, [row(3, b"a"), dead(4, b"b"), dead(5, b"never there")])
    report = states.run()
    assert (report.upserted, report.deleted, report.keys) == (1, 1, 2)
    assert states.records() == [(b"a", 0, 3), (b"c", 0, 2)]
    take(states.silver, [row(6, b"b")])
    states.run()
    assert states.records() == [(b"a", 0, 3), (b"b", 0, 6), (b"c", 0, 2)]
    assert states.verify().sound


def test_a_condition_deletes_beside_tombstones(tmp_path: Path) -> None:
    states = States(tmp_path, delete_when="carrier = 'd' OR `delay` > 100 -- gone")
    rows = [row(0, b"a"), row(1, b"b"), row(2, b"c"), row(3, b"d", carrier=None)]
    take(states.silver, rows)
    take(states.silver, [row(4, b"a", carrier="d"), row(5, b"b", delay=101), dead(6, b"c")])
    states.run()
    # Null is not true: the row whose carrier is null stays.
    assert states.records() == [(b"d", 0, 3)]
    assert states.verify().sound


def test_the_changes_and_the_fences_are_one_merge(states: States) -> None:
    take(states.silver, [row(0, b"a"), row(0, b"b", partition=1)])
    states.run()
    take(states.silver, [row(7, b"a")])
    assert states.run().version == 2
    entry = newest(states)
    assert entry["operation"] == "MERGE"
    account = entry[METADATA_KEY]
    assert account["ends"] == {"t": {"0": 8, "1": 1}}
    assert (account["number"], account["rows"], account["upserted"]) == (2, 1, 1)


def test_rows_without_a_change_advance_the_fence_alone(states: States) -> None:
    take(states.silver, [row(0, b"a")])
    states.run()
    take(states.silver, [dead(1, b"x"), row(2, None)])
    assert (states.run().version, newest(states)[METADATA_KEY]["ends"]) == (2, {"t": {"0": 3}})
    assert states.run().version is None
    assert states.records() == [(b"a", 0, 0)]


def test_a_run_reads_only_files_since_the_last_commit(states: States) -> None:
    take(states.silver, [row(0, b"a"), row(0, b"b", partition=1)])
    states.run()
    for file in Path(states.silver).rglob("*.parquet"):
        file.write_bytes(b"unreadable")
    take(states.silver, [row(1, b"a")])
    states.run()
    assert states.records() == [(b"a", 0, 1), (b"b", 1, 0)]


def test_null_keys_are_counted_and_left_out(tmp_path: Path) -> None:
    states = States(tmp_path, key=("key", "carrier"))
    take(states.silver, [row(0, None), row(1, None), row(2, b"a", carrier=None), row(3, b"a")])
    assert states.run().left_out == {"key": 2, "carrier": 1}
    assert newest(states)[METADATA_KEY]["left_out"] == {"key": 2, "carrier": 1}
    assert states.records() == [(b"a", 0, 3)]
    found = states.verify()
    assert (found.left_out, found.silver, found.problems) == (3, 4, [])


def test_keys_of_several_columns_and_types(tmp_path: Path) -> None:
    states = States(tmp_path, key=("carrier", "topic", "partition", "ingest_date", "tombstone"))
    rows = [
        *(row(0, None, carrier="it's"), row(1, None, carrier='a"b'), row(2, None, carrier="\\")),
        *(row(3, None, carrier="it's"), row(0, None, carrier="it's", partition=1)),
        row(0, None, carrier="it's", topic="u"),
    ]
    take(states.silver, rows)
    states.run()
    take(states.silver, [row(4, None, carrier="\\")])
    states.run()
    assert states.rows("carrier", "topic", "partition", "offset") == [
        ("\\", "t", 0, 4),
        ('a"b', "t", 0, 1),
        ("it's", "t", 0, 3),
        ("it's", "t", 1, 0),
        ("it's", "u", 0, 0),
    ]
    assert states.verify().sound


@pytest.mark.parametrize("apart", [False, True])
def test_a_key_in_two_partitions_is_refused_without_an_order(states: States, apart: bool) -> None:
    first, second = row(0, b"a"), row(5, b"a", partition=1)
    if apart:
        take(states.silver, [first])
        states.run()
        take(states.silver, [second])
    else:
        take(states.silver, [first, second, row(6, b"b", partition=1)])
    with pytest.raises(
        TableError, match=r"key = b'a' .*t:0 at offset 0 and t:1 at offset 5.*order"
    ):
        states.run()
    if apart:
        assert states.records() == [(b"a", 0, 0)]


def test_a_tombstone_of_another_partition_is_refused_too(states: States) -> None:
    take(states.silver, [row(0, b"a"), dead(0, b"a", partition=1)])
    with pytest.raises(TableError, match="two partitions"):
        states.run()


def test_with_an_order_its_greatest_values_make_the_latest(tmp_path: Path) -> None:
    states = States(tmp_path, order=("delay", "event_time"))
    rows = [
        *(row(0, b"a", delay=2.0), row(1, b"a", delay=1.0)),
        *(row(0, b"a", delay=2.0, time=5_000, partition=1), row(2, b"b", delay=-1.0)),
        row(3, b"n", delay=float("nan")),
    ]
    take(states.silver, rows)
    take(states.silver, [row(4, b"b", delay=-2.0), row(5, b"n", delay=9.0)])
    states.run(rows_max=2)
    assert states.records() == [(b"a", 1, 0), (b"b", 0, 2), (b"n", 0, 3)]
    assert states.verify().sound


def test_equal_places_are_ordered_by_topic_partition_and_offset(tmp_path: Path) -> None:
    states = States(tmp_path, order=("event_time",))
    rows = [row(n, b"a", time=5, partition=p) for n, p in ((0, 0), (1, 0), (0, 1))]
    take(states.silver, [*rows, row(0, b"b", time=5, topic="a"), row(2, b"b", time=5)])
    states.run()
    assert states.records() == [(b"a", 1, 0), (b"b", 0, 2)]


def test_an_older_row_does_not_bring_a_deleted_key_back(tmp_path: Path) -> None:
    states = States(tmp_path, order=("event_time",), delete_when="carrier = 'd'")
    take(states.silver, [row(0, b"a", time=10), row(1, b"b", time=10)])
    states.run()
    # A tombstone has no event time: the record's timestamp stands for it.
    take(states.silver, [row(2, b"a", time=20, carrier="d"), dead(3, b"b", at=20)])
    states.run()
    assert states.records() == []
    take(states.silver, [row(0, b"a", time=15, partition=1), row(1, b"b", time=15, partition=1)])
    states.run()
    assert states.records() == []
    take(states.silver, [row(2, b"a", time=25, partition=1)])
    states.run()
    assert states.records() == [(b"a", 1, 2)]
    take(states.silver, [row(4, b"a", time=22), row(5, b"a", time=21, carrier="d")])
    states.run()
    assert states.records() == [(b"a", 1, 2)]
    assert states.verify().sound
    files = os.listdir(Path(states.step.table, graves.FOLDER))
    assert len(files) <= 2  # those of the newest commit and of the one before
    deleted = graves.read(states.step.table, newest(states)[METADATA_KEY]["graves"], "")
    assert deleted is not None
    assert deleted.column("key 0").to_pylist() == [b"b"]


def test_a_deletion_without_an_order_keeps_no_file_of_deleted_keys(states: States) -> None:
    take(states.silver, [row(0, b"a"), dead(1, b"a")])
    states.run()
    assert not os.path.exists(Path(states.step.table, graves.FOLDER))


def test_a_row_without_an_order_is_left_out(tmp_path: Path) -> None:
    states = States(tmp_path, order=("carrier",))
    take(states.silver, [row(0, b"a", carrier="x"), row(1, b"a", carrier=None), dead(2, b"a")])
    assert states.run().left_out == {"carrier": 2}
    assert states.records() == [(b"a", 0, 0)]
    assert states.verify().sound


class Killed(BaseException):
    pass


@pytest.mark.parametrize("at", ["reader", "before the commit", "after the commit"])
def test_a_run_that_is_killed_repeats_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    states = States(tmp_path, order=("event_time",))
    take(states.silver, [row(0, b"a"), row(1, b"b")])
    states.run()
    take(states.silver, [dead(2, b"a", at=9_000), row(3, b"c"), row(4, None)])

    def killed(*args: Any, **more: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patch:
        if at == "reader":
            patch.setattr(step, "new_rows", killed)
        elif at == "before the commit":
            patch.setattr(StateTable, "commit", killed)
        else:
            patch.setattr(StateTable, "_sync", killed)
        with pytest.raises(Killed):
            states.run()
    states.run()
    assert states.records() == [(b"b", 0, 1), (b"c", 0, 3)]
    accounts = [
        e[METADATA_KEY] for e in DeltaTable(states.step.table).history() if METADATA_KEY in e
    ]
    assert sum(one["rows"] for one in accounts) == 5
    assert sum(one["left_out"].get("key", 0) for one in accounts) == 1
    assert states.verify().sound


def test_of_two_drivers_the_later_commit_is_refused(
    states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(states.silver, [row(0, b"a")])
    commit = StateTable.commit

    def late(own: StateTable, *given: Any) -> int:
        with monkeypatch.context() as patch:
            patch.setattr(StateTable, "commit", commit)
            states.run()
        return commit(own, *given)

    with monkeypatch.context() as patch:
        patch.setattr(StateTable, "commit", late)
        with pytest.raises(TableError, match="another driver committed step latest"):
            states.run()
    assert states.run().version is None
    assert states.records() == [(b"a", 0, 0)]


@pytest.mark.parametrize("how", ["append", "delete", "property", "nothing"])
def test_a_conflict_with_a_foreign_writer_changes_nothing_and_the_next_run_goes_on(
    states: States, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    take(states.silver, [row(0, b"a"), row(1, b"b")])
    states.run()
    take(states.silver, [row(2, b"a")])
    commit = StateTable.commit

    def late(own: StateTable, *given: Any) -> int:
        foreign = DeltaTable(states.step.table)
        if how == "append":
            other = foreign.to_pyarrow_table().slice(0, 1)
            names = other.column_names
            other = other.set_column(names.index("key"), "key", pa.array([b"z"], pa.binary()))
            write_deltalake(states.step.table, other, mode="append")
        elif how == "delete":
            foreign.delete("key = X'62'")
        elif how == "nothing":
            foreign.create_write_transaction([], "append", foreign.schema())
        else:
            foreign.alter.set_table_properties({"delta.checkpointInterval": "30"})
        return commit(own, *given)

    with monkeypatch.context() as patch:
        patch.setattr(StateTable, "commit", late)
        with pytest.raises(
            TableError, match=r"another writer changed .* during the MERGE"
        ) as raised:
            states.run()
    assert "\n" not in str(raised.value)
    assert (b"a", 0, 0) in states.records()
    states.run()
    assert (b"a", 0, 2) in states.records()
    assert states.verify().sound is (how in ("property", "nothing"))


def test_a_rebuilt_silver_begins_the_state_again(states: States) -> None:
    take(states.silver, [row(0, b"a"), row(1, b"b")])
    states.run()
    shutil.rmtree(states.silver)
    create(states.silver)
    DeltaTable(states.silver).alter.set_table_properties(
        {"strandline.rebuild": "7"}, raise_if_not_exists=False
    )
    take(states.silver, [row(1, b"b", carrier="AA")])
    states.run()
    assert states.rows("key", "carrier") == [(b"b", "AA")]
    assert "silver was rebuilt, so it begins again" in states.notes[0]
    assert Path(states.notes[0].rpartition(": ")[2]).is_dir()


def test_a_new_silver_table_and_an_earlier_one_are_refused(states: States, tmp_path: Path) -> None:
    take(states.silver, [row(0, b"a")])
    shutil.copytree(states.silver, tmp_path / "earlier")
    take(states.silver, [row(1, b"a")])
    states.run()
    shutil.rmtree(states.silver)
    shutil.copytree(tmp_path / "earlier", states.silver)
    with pytest.raises(
        TableError, match=r"later version of it \(2, this is 1\).*state reset latest"
    ):
        states.run()
    shutil.rmtree(states.silver)
    take(states.silver, [row(0, b"a"), row(1, b"a"), row(2, b"a")])
    with pytest.raises(TableError, match=r"from another silver table.*state reset latest"):
        states.run()


@pytest.mark.parametrize(
    "changed", [{"key": ("carrier",)}, {"order": ("event_time",)}, {"delete_when": "true"}]
)
def test_a_changed_step_is_refused(states: States, tmp_path: Path, changed: Any) -> None:
    take(states.silver, [row(0, b"a")])
    states.run()
    other = States(tmp_path, **changed)
    for call in (other.run, other.verify):
        with pytest.raises(TableError, match=r"latest has changed \(key, order or delete_when\)"):
            call()


def test_another_spelling_of_a_condition_is_no_change(tmp_path: Path) -> None:
    take(str(tmp_path / "silver"), [row(0, b"a")])
    States(tmp_path, delete_when="carrier = 'd'").run()
    States(tmp_path, delete_when="carrier='d' -- deleted").run()


def test_a_column_that_silver_got_is_null_in_older_rows(states: States) -> None:
    take(states.silver, [row(0, b"a"), row(1, b"b")])
    states.run()
    field = pa.field("tail", pa.string())
    DeltaTable(states.silver).alter.add_columns([Field.from_arrow(field)])
    take(states.silver, [row(2, b"a")])
    states.run()
    assert states.rows("key", "offset", "tail") == [(b"a", 2, None), (b"b", 1, None)]
    assert states.verify().sound


def test_a_column_of_another_type_begins_the_state_again(states: States) -> None:
    take(states.silver, [row(0, b"a")])
    states.run()
    entry = Path(states.silver, "_delta_log", f"{0:020}.json")
    lines = entry.read_text("utf-8").replace(
        '\\"name\\":\\"delay\\",\\"type\\":\\"double\\"',
        '\\"name\\":\\"delay\\",\\"type\\":\\"string\\"',
    )
    assert lines != entry.read_text("utf-8")
    entry.write_text(lines, "utf-8")
    # So the newest entry is another file too, and the log is read again.
    max(entry.parent.glob("*.json")).touch()
    states.run()
    assert states.rows("key", "delay") == [(b"a", "1.0")]
    assert "column delay of silver has another type, so it begins again" in states.notes[0]


def test_a_file_that_a_loss_of_power_has_cut_is_named(states: States) -> None:
    take(states.silver, [row(0, b"a")])
    states.run()
    (file,) = Path(states.step.table).glob("*.parquet")
    file.write_bytes(file.read_bytes()[:100])
    take(states.silver, [row(1, b"a")])
    with pytest.raises(TableError, match=rf"{file.name} has 100 bytes.*state reset latest"):
        states.run()


def test_a_table_of_another_step_and_a_foreign_one_are_refused(
    states: States, tmp_path: Path
) -> None:
    take(states.silver, [row(0, b"a")])
    states.run()
    with pytest.raises(
        TableError, match="the table of step latest of pipeline clicks, not of step"
    ):
        step.run_step(states.step, states.silver, pipeline="other")
    shutil.rmtree(states.step.table)
    write_deltalake(states.step.table, pa.table({"a": [1]}))
    with pytest.raises(TableError, match="no state step has made"):
        states.run()


def test_a_long_backlog_takes_several_commits(states: States) -> None:
    take(states.silver, [row(n, b"%d" % (n % 3), partition=p) for p in (0,) for n in range(10)])
    report = states.run(rows_max=4)
    assert (report.rows, report.version) == (10, 3)
    assert states.records() == [(b"0", 0, 9), (b"1", 0, 7), (b"2", 0, 8)]
    ends = [e[METADATA_KEY]["ends"]["t"]["0"] for e in DeltaTable(states.step.table).history(3)]
    assert ends == [10, 8, 4]
    take(states.silver, [row(0, b"p", partition=1)])
    states.run()
    take(states.silver, [row(10, b"0"), row(11, b"1"), row(1, b"p", partition=1)])
    # The first commit takes of partition 0 alone, and does not forget how far partition 1 is.
    assert states.run(rows_max=1).rows == 3


def test_a_commit_that_does_not_move_the_fences_ends_the_run(
    states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(states.silver, [row(0, b"a")])
    with monkeypatch.context() as patch:
        patch.setattr(StateTable, "commit", lambda *given: 1)
        with pytest.raises(TableError, match=r"not moved the fences of step latest.*state reset"):
            states.run()
    states.run()
    assert states.records() == [(b"a", 0, 0)]


def test_offsets_without_a_row_cost_no_commit(states: States) -> None:
    far = 10**12
    take(states.silver, [row(far, b"a"), row(far + 5_000_000, b"b")])
    take(states.silver, [row(2 * far, b"a"), row(7, b"c", partition=3)])
    assert (states.run(rows_max=3).version, states.run().version) == (2, None)
    assert states.records() == [(b"a", 0, 2 * far), (b"b", 0, far + 5_000_000), (b"c", 3, 7)]


def test_rows_of_one_record_are_ordered_by_their_position(tmp_path: Path) -> None:
    states = States(tmp_path, key=("carrier",))
    create(states.silver)
    DeltaTable(states.silver).alter.set_table_properties(
        {"strandline.position": "delay"}, raise_if_not_exists=False
    )
    take(states.silver, [row(0, None, carrier="x", delay=n) for n in (2.0, 3.0, 1.0)])
    states.run()
    assert states.rows("offset", "delay") == [(0, 3.0)]
    assert states.verify().sound
    take(states.silver, [row(1, None, carrier=c, delay=n) for c, n in (("x", 0.0), ("y", 1.0))])
    states.run()
    assert states.rows("carrier", "offset", "delay") == [("x", 1, 0.0), ("y", 1, 1.0)]
    assert states.verify().sound


def test_nested_columns_are_merged_and_named_in_conditions(tmp_path: Path) -> None:
    states = States(tmp_path, delete_when="page['op'] = 'd'")
    nested = pa.struct([("op", pa.string()), ("urls", pa.list_(pa.string()))])
    more = {"page": nested, "held": pa.map_(pa.string(), pa.string()), "new": nested}

    def add(offset: int, key: bytes, op: str | None) -> None:
        create(states.silver)
        page = None if op is None else {"op": op, "urls": ["/a", None]}
        own = pa.schema(DeltaTable(states.silver).schema())
        values: dict[str, Any] = dict.fromkeys(own.names) | {
            **{"topic": "t", "partition": 0, "offset": offset, "key": key, "tombstone": False},
            **{"page": page, "held": [("k", "v")], "new": page},
        }
        schema = own
        for name, kind in more.items():
            if name not in own.names:
                schema = schema.append(pa.field(name, kind))
        write_deltalake(
            states.silver,
            pa.Table.from_pylist([values], schema=schema),
            mode="append",
            schema_mode="merge",
            commit_properties=CommitProperties(
                app_transactions=[Transaction("strandline/t/0", offset + 1)]
            ),
        )

    add(0, b"a", "c")
    add(1, b"b", None)
    states.run()
    add(2, b"b", "u")
    add(3, b"a", "d")
    states.run()
    page = {"op": "u", "urls": ["/a", None]}
    assert states.rows("key", "page", "held", "new") == [(b"b", page, [("k", "v")], page)]
    assert states.verify().sound


def test_many_partitions_are_read_in_several_queries(states: States) -> None:
    many = reader._PARTITIONS_MAX + 5
    take(states.silver, [row(0, b"%03d" % n, partition=n) for n in range(many)])
    assert states.run().rows == many
    take(states.silver, [row(1, b"%03d" % n, partition=n) for n in range(0, many, 2)])
    assert states.run().rows == (many + 1) // 2
    wanted = [(b"%03d" % n, n, 1 - n % 2) for n in range(many)]
    assert states.records() == wanted


def test_a_file_without_a_column_or_statistics_is_read(states: States) -> None:
    take(states.silver, [row(0, b"a"), row(1, b"b")], without=("delay",))
    entry = Path(states.silver, "_delta_log", f"{1:020}.json")
    lines = [json.loads(line) for line in entry.read_text("utf-8").splitlines()]
    for one in lines:
        if "add" in one:
            one["add"]["stats"] = None
    entry.write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
    take(states.silver, [row(2, b"b")])
    states.run(rows_max=1)
    assert states.rows("key", "offset", "delay") == [(b"a", 0, None), (b"b", 2, 1.0)]
    assert states.verify().sound


def test_replaced_files_leave_after_an_hour(
    states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_VACUUM_EVERY", 4)
    for n in range(4):
        take(states.silver, [row(n, b"a")])
        states.run()
    files = Path(states.step.table)
    old = list(files.glob("*.parquet"))
    assert len(old) == 4
    for entry in Path(files, "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in entry.read_text("utf-8").splitlines()]
        for one in lines:
            if "remove" in one:
                one["remove"]["deletionTimestamp"] -= 3_700_000
        entry.write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
    for file in old:
        os.utime(file, (1, 1))
    for n in range(4, 8):
        take(states.silver, [row(n, b"a")])
        states.run()
    # The last of the four was replaced a moment ago.
    assert sum(file.exists() for file in old) == 1
    assert states.records() == [(b"a", 0, 7)]
    assert states.verify().sound


def test_the_condition_may_fail_on_a_row(tmp_path: Path) -> None:
    states = States(tmp_path, delete_when="1 / (offset - 1) > 5")
    take(states.silver, [row(0, b"a")])
    states.run()
    take(states.silver, [row(1, b"a")])
    said = r"\[\[state\]\] latest, delete_when: .*failed on the rows of silver: .*Divide by zero"
    with pytest.raises(OptionError, match=said):
        states.run()


def test_the_owner_is_the_pipeline_and_the_step(states: States) -> None:
    take(states.silver, [row(0, b"a")])
    states.run()
    settings = DeltaTable(states.step.table).metadata().configuration
    assert settings["strandline.pipeline"] == PIPELINE
    assert settings["strandline.state"] == "latest"
