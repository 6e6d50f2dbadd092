"""`lag`: a checkpoint's offsets against the topics' high watermarks, and what it says is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from strandline_spark.bronze.checkpoint_lag import PartitionLag, checkpoint_lag
from strandline_spark.commands.main import main
from strandline_spark.errors import TableError
from support.spark_stream import EngineOfSpark

if TYPE_CHECKING:
    from pathlib import Path

    from support.fake_broker_sync import FakeBroker, FakeTopic


@pytest.fixture
def topic(broker: FakeBroker) -> FakeTopic:
    """Two partitions of 30 records each."""
    made = broker.create("t", 2)
    for partition in made.partitions:
        partition.append([(None, b"")] * 30)
    return made


@pytest.fixture
def query(broker: FakeBroker, topic: FakeTopic) -> EngineOfSpark:
    return EngineOfSpark(broker.address, startingOffsets='{"t": {"0": 5, "1": 0}}')


def stored(query: EngineOfSpark, path: Path) -> str:
    """What Spark would have in the checkpoint's folder."""
    for folder in ("offsets", "commits"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    (path / "metadata").write_text('{"id": "q"}')
    for batch, end in enumerate(query.log):
        (path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{end}")
        (path / "offsets" / f".{batch}.crc").touch()
    for batch in range(query.done):
        (path / "commits" / str(batch)).write_text("v1\n{}")
    return str(path)


def test_done_and_planned_are_compared_with_the_marks(
    broker: FakeBroker, topic: FakeTopic, query: EngineOfSpark, tmp_path: Path
) -> None:
    servers = (broker.address,)
    query.plan(20)
    # The first batch is on its way: nothing is done but where it began.
    first, second = checkpoint_lag(stored(query, tmp_path), servers)
    assert (first.done, first.planned, first.lag) == (5, query.ends["t"]["0"], 25)
    assert (second.done, second.planned, second.lag) == (0, query.ends["t"]["1"], 30)
    query.done = 1
    query.plan()
    ends = json.loads(query.log[0])["t"]
    found = checkpoint_lag(stored(query, tmp_path), servers)
    assert [(one.done, one.planned) for one in found] == [(ends["0"], 30), (ends["1"], 30)]
    assert [one.lag for one in found] == [30 - ends["0"], 30 - ends["1"]]
    query.done = 2
    topic.partitions[0].append([(None, b"")] * 7)
    topic.partitions[1].held_back = 0
    assert checkpoint_lag(stored(query, tmp_path), servers) == [
        PartitionLag("t", 0, 30, 30, 0, 37, 7),
        PartitionLag("t", 1, 30, 30, 0, 30, 0),
    ]


def test_what_is_gone_or_another_is_said(
    broker: FakeBroker, topic: FakeTopic, query: EngineOfSpark, tmp_path: Path
) -> None:
    query.trigger(20)
    query.done = 1
    path = stored(query, tmp_path)

    def problems() -> list[str]:
        return [text for one in checkpoint_lag(path, (broker.address,)) for text in one.problems]

    at = json.loads(query.log[0])["t"]
    topic.partitions[0].log_start = 25
    assert problems()[0].startswith(f"retention took [{at['0']}, 25) before it was read")
    topic.partitions[0].log_start = 0
    topic.partitions[1].held_back = 29
    assert f"up to {at['1']}, past the high watermark 1" in problems()[0]
    topic.partitions[1].held_back = 0
    own = topic.topic_id
    topic.topic_id = bytes(16)
    assert ["deleted and created again" in text for text in problems()] == [True, True]
    topic.topic_id = own
    assert problems() == []
    del topic.partitions[1]
    assert problems() == ["the cluster has no such partition"]


def test_a_partition_that_came_since_is_behind_by_all_that_it_has(
    broker: FakeBroker, topic: FakeTopic, query: EngineOfSpark, tmp_path: Path
) -> None:
    query.trigger()
    query.done = 1
    added = topic.partitions[1].__class__()
    added.append([(None, b"")] * 4)
    topic.partitions.append(added)
    found = checkpoint_lag(stored(query, tmp_path), (broker.address,))
    assert found[2] == PartitionLag("t", 2, -1, -1, 0, 4, 4)


def test_the_command_prints_it_and_its_status_says_what_is_wrong(
    broker: FakeBroker,
    topic: FakeTopic,
    query: EngineOfSpark,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(path: str, *more: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            main(["lag", path, "--bootstrap", broker.address, *more])
        out, err = capsys.readouterr()
        return ended.value.code, out + err

    query.trigger()
    query.done = 1
    topic.partitions[0].append([(None, b"")] * 7)
    path = stored(query, tmp_path / "c")
    status, out = run(path)
    assert (status, out.splitlines()[-1]) == (0, "7 offsets behind")
    assert out.splitlines()[1].split() == ["t", "0", "30", "30", "0", "37", "7"]
    topic.partitions[1].log_start = 31
    status, out = run(path, "--format", "json")
    assert (status, json.loads(out)["lag"]) == (1, 8)
    assert "retention took [30, 31)" in json.loads(out)["partitions"][1]["problems"][0]
    own, broker.topics["t"] = topic, broker.create("other", 2)
    status, out = run(path)
    assert (status, out.splitlines()[-1]) == (1, "how far it is behind cannot be said")
    broker.topics["t"] = own
    del topic.partitions[1]
    status, out = run(path)
    last = "7 offsets behind, and 1 of 2 partitions with an unknown lag"
    assert (status, out.splitlines()[-1]) == (1, last)
    status, out = run(str(tmp_path / "none"))
    assert (status, out.splitlines()) == (1, [out.strip()])
    assert "is no checkpoint of a query that has begun" in out


@pytest.mark.parametrize("line", ['{"t": {"0": -2, "1": 0}}', "no JSON"])
def test_offsets_that_no_query_can_have_reached_are_refused_with_their_file(
    broker: FakeBroker, query: EngineOfSpark, tmp_path: Path, line: str
) -> None:
    query.trigger()
    query.log[-1] = line
    with pytest.raises(TableError, match=r"offsets/0 is not .* restore it, or start a new check"):
        checkpoint_lag(stored(query, tmp_path), (broker.address,))


def test_a_folder_without_a_query_is_refused(broker: FakeBroker, tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    with pytest.raises(TableError, match="give the path that the job was given as --checkpoint"):
        checkpoint_lag(str(tmp_path), (broker.address,))
