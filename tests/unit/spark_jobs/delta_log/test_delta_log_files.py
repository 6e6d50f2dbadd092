"""The index of silver's files answers as plain loops over delta-rs' list of files do, however the
table came about; and a batch on an old table reads no more of its log than one on a new table.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.delta_log.commit import Change, commit
from strandline_spark.delta_log.table_log import Snapshot, snapshot
from strandline_spark.gold import silver as gold_silver
from strandline_spark.gold.silver import Silver
from strandline_spark.gold.watermark import GoldCommit
from support.silver_tables import SilverRow, take

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = [TopicPartition("t", n) for n in range(3)]


def rewrite(root: str, chance: random.Random) -> None:
    """Replaces a file by a copy of it, as a compaction does; sometimes without statistics."""
    actions = pa.table(snapshot(root).handle().get_add_actions()).to_pylist()
    one = chance.choice(actions)
    old, name = one["path"], f"again-{chance.randrange(1 << 40)}.parquet"
    new = f"{old.rpartition('/')[0]}/{name}"
    with open(f"{root}/{old}", "rb") as source, open(f"{root}/{new}", "wb") as copy:
        copy.write(source.read())
    values = {name: str(value) for name, value in one["partition"].items()}
    change = Change()
    change.remove(old, one["size_bytes"], values, data_change=False)
    stats = json.dumps({"numRecords": one["num_records"]})
    change.add(new, one["size_bytes"], values, stats, data_change=False)
    commit(snapshot(root), change)


def rows_of(silver: Silver) -> dict[str, list[tuple[TopicPartition, int, int | None]]]:
    """Partition, offset and event time of each row, read from the files."""
    found = silver.delta.to_pyarrow_dataset().get_fragments()
    out = {}
    for fragment in found:
        rows = fragment.to_table(columns=["partition", "offset", "event_time"])
        times = rows["event_time"].cast(pa.int64()).to_pylist()
        places = zip(*(rows[name].to_pylist() for name in ("partition", "offset")), strict=True)
        path = fragment.path.rpartition("topic=")
        out[f"topic={path[2]}"] = [
            (TopicPartition("t", partition), offset, time)
            for (partition, offset), time in zip(places, times, strict=True)
        ]
    return out


def check(root: str, chance: random.Random) -> None:
    silver = Silver.open(root)
    rows = rows_of(silver)
    assert {file.path for file in silver.files} == rows.keys()
    assert silver.index.partitions() == sorted({tp for own in rows.values() for tp, *_ in own})
    latest: dict[TopicPartition, int | None] = {}
    for own in rows.values():
        for tp, _, time in own:
            known = [one for one in (latest.get(tp), time) if one is not None]
            latest[tp] = max(known, default=None)
    seen = silver.index.latest()
    assert seen.keys() == latest.keys()
    for tp, time in latest.items():
        there = seen[tp]
        assert (there is None) == (time is None)
        assert there is None or time is None or time - 1000 < there <= time
    ends = {tp: chance.randrange(40) for tp in PARTITIONS}
    first, end = sorted((chance.randrange(50_000), chance.randrange(50_000)))
    wanted = {
        path
        for path, own in rows.items()
        for tp, offset, time in own
        if time is not None and first <= time < end and offset < ends[tp]
    }
    assert wanted <= {file.path for file in silver.overlapping(first, end, ends)}
    before = GoldCommit(first, {tp: chance.randrange(40) for tp in PARTITIONS})
    late = {
        path
        for path, own in rows.items()
        for tp, offset, time in own
        if time is not None and time < first and before.ends[tp] <= offset < ends[tp]
    }
    found = silver.late(before, ends, lambda time: time < first)
    assert late <= {file.path for file in found}


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(2, 6))]
)
def test_the_index_follows_commits_and_rewritten_files(tmp_path: Path, seed: int) -> None:
    chance, root = random.Random(seed), str(tmp_path / "silver")
    ends = dict.fromkeys(PARTITIONS, 0)
    for _ in range(12):
        rows = []
        for tp in chance.sample(PARTITIONS, chance.randrange(1, 4)):
            for _ in range(chance.randrange(1, 4)):
                time = None if chance.random() < 0.2 else chance.randrange(50_000)
                rows.append(SilverRow(tp.partition, ends[tp], time))
                ends[tp] += 1
        take(root, rows, digits=chance.choice((3, 6)))
        if chance.random() < 0.3:
            rewrite(root, chance)
        if chance.random() < 0.2:
            snapshot(root).handle().create_checkpoint()
        if chance.random() < 0.7:
            check(root, chance)
    check(root, chance)
    known = Silver.open(root)
    followed = {file.path: file for file in known.files}
    gold_silver._INDEXES.clear()
    whole = {file.path: file for file in Silver.open(root).files}
    assert followed == whole


def test_a_batch_reads_no_list_of_files_and_no_old_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(tmp_path / "silver")
    for n in range(20):
        take(root, [SilverRow(n % 2, n, 100 * n)])
    silver = Silver.open(root)
    assert len(silver.files) == 20
    assert silver.backlog().keys() == set(PARTITIONS[:2])
    take(root, [SilverRow(0, 20, 3_000)])

    def refused(*_: Any) -> Any:
        raise AssertionError("the whole list of files is read")

    monkeypatch.setattr(Snapshot, "handle", refused)
    silver = Silver.open(root)
    assert silver.ends == {PARTITIONS[0]: 21, PARTITIONS[1]: 20}
    assert [one.event_time_max for one in silver.progress(silver.backlog())] == [3_000, 1_900]
    assert len(silver.overlapping(2_900, 3_001, silver.ends)) == 1
    assert len(silver.files) == 21
