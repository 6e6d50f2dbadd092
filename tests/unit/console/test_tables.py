"""The page of tables: what the files of a pipeline tell, without Spark."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from strandline_console.main import ConsoleError, pipeline_files
from strandline_console.recording.recorder import Recorder
from strandline_console.recording.scope import Scope
from strandline_console.serving.trace import trace_between
from strandline_console.tables.progress import PipelineFiles
from strandline_console.tables.reader import TablesReader
from support.hand_clock import HandClock
from support.scripted_controller import running
from support.silver_tables import SilverRow, take
from support.spark_tables import commit, taken, write_file
from support.state_tables import States

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_console.pipelines import Pipeline

FILE = """
[pipeline]
name = "numbers"
topics = ["t", "new"]
directory = "lake"

[silver]
format = "json"
event_time = "timestamp"

[silver.columns]
n = "int"

[[gold]]
name = "counts"
window = "1 minute"
watermark = "1 minute"
sql = "SELECT window_start, window_end, count(*) AS n FROM silver GROUP BY ALL"
"""


def a_pipeline(folder: Path) -> PipelineFiles:
    (folder / "pipeline.toml").write_text(FILE)
    return PipelineFiles(str(folder / "pipeline.toml"))


def plan(folder: Path, batch: int, end: int, *, done: bool) -> None:
    """A batch in the checkpoint, as Spark writes it."""
    checkpoint = folder / "lake" / "_checkpoint"
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text('{"id":"q"}')
    offset = json.dumps({"t": {"0": end}})
    (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offset}")
    if done:
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


def table(found: Pipeline, name: str) -> Any:
    (one,) = (each for each in found.tables if each.name == name)
    return one


def test_a_pipeline_that_has_not_run_has_no_tables_yet(tmp_path: Path) -> None:
    found = a_pipeline(tmp_path).read()
    assert (found.name, found.error, found.batches) == ("numbers", None, [])
    assert [(one.name, one.layer) for one in found.tables] == [
        ("bronze", "bronze"),
        ("silver", "silver"),
        ("quarantine", "quarantine"),
        ("gold counts", "gold"),
    ]
    assert {(one.version, one.rows, one.error) for one in found.tables} == {(None, None, None)}
    assert [(one.topic, one.planned) for one in found.topics] == [("t", None), ("new", None)]


def test_each_silver_table_of_several_stands_beside_its_quarantine(tmp_path: Path) -> None:
    text = FILE.replace("[silver]", '[[silver]]\nname = "a"\ntopics = ["t", "new"]')
    (tmp_path / "pipeline.toml").write_text(text)
    found = PipelineFiles(str(tmp_path / "pipeline.toml")).read()
    assert found.error is None
    assert [(one.name, one.layer) for one in found.tables[1:3]] == [
        ("silver a", "silver"),
        ("quarantine a", "quarantine"),
    ]


def test_planned_batches_stand_beside_committed_ones(tmp_path: Path) -> None:
    files = a_pipeline(tmp_path)
    bronze = str(tmp_path / "lake" / "bronze")
    plan(tmp_path, 0, 3, done=True)
    plan(tmp_path, 1, 5, done=False)
    commit(bronze, 0, taken(0, 3), write_file(bronze, [0, 1, 2]))
    found = files.read()
    assert [(one.number, one.state) for one in found.batches] == [(1, "planned"), (0, "committed")]
    assert [one.sources[0].planned for one in found.batches] == [5, 3]
    assert found.topics[0].planned == 5
    state = table(found, "bronze")
    assert (state.rows, state.files, state.batch) == (3, 1, 0)
    assert state.written_ms == found.batches[1].at_ms
    commit(bronze, 1, taken(3, 5), write_file(bronze, [3, 4]))
    again = files.read()
    assert (table(again, "bronze").rows, table(again, "bronze").batch) == (5, 1)
    assert again.batches[0].state == "committed"  # its rows are in the table


def test_a_table_is_read_again_for_another_version_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    actions = DeltaTable.get_add_actions

    def noted(table: DeltaTable, **options: Any) -> Any:
        read.append(table.table_uri)
        return actions(table, **options)

    files = a_pipeline(tmp_path)
    bronze = str(tmp_path / "lake" / "bronze")
    commit(bronze, 0, taken(0, 3), write_file(bronze, [0, 1, 2]))
    monkeypatch.setattr(DeltaTable, "get_add_actions", noted)
    files.read()
    assert len(read) == 1
    files.read()
    assert len(read) == 1


def test_rows_in_quarantine_are_counted(tmp_path: Path) -> None:
    files = a_pipeline(tmp_path)
    # Each fenced table has the same accounts: silver's say how many records went elsewhere.
    silver = str(tmp_path / "lake" / "silver")
    one = taken(0, 3, rows=1)
    commit(silver, 0, type(one)(**{**vars_of(one), "elsewhere": 2}), write_file(silver, [0]))
    assert table(files.read(), "silver").quarantined == 2
    assert table(files.read(), "bronze").quarantined is None


def vars_of(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


@pytest.mark.parametrize(
    ("damaged", "content", "word"),
    [
        ("pipeline.toml", "[pipeline", "is no TOML"),
        ("pipeline.toml", "[pipeline]\nname = 3", "pipeline"),
        ("lake/_checkpoint/offsets/0", "v9", "is not an offset log"),
        ("lake/_checkpoint/metadata", "[]", "query's id"),
    ],
)
def test_a_damaged_file_is_a_sentence_that_names_it(
    tmp_path: Path, damaged: str, content: str, word: str
) -> None:
    files = a_pipeline(tmp_path)
    plan(tmp_path, 0, 3, done=True)
    (tmp_path / damaged).write_text(content)
    found = files.read()
    assert found.error is not None
    assert word in found.error
    assert str(tmp_path / damaged) in found.error


def test_a_state_step_has_a_layer_of_its_own_and_its_commits(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(FILE + '[[state]]\nname = "latest"\n')
    (tmp_path / "made").mkdir()
    states = States(tmp_path / "made")
    take(states.silver, [SilverRow(0, 0, 1_000, key=b"a"), SilverRow(0, 1, 2_000, key=b"b")])
    states.run()
    (tmp_path / "lake" / "state").mkdir(parents=True)
    shutil.move(states.step.table, str(tmp_path / "lake" / "state" / "latest"))
    found = PipelineFiles(str(tmp_path / "pipeline.toml")).read()
    latest = table(found, "state latest")
    assert (latest.layer, latest.rows, latest.batch, latest.error) == ("state", 2, 1, None)
    (batch,) = (one for one in found.batches if one.table == "state latest")
    assert (batch.number, batch.state, batch.sources[0].planned) == (1, "committed", 2)


def test_a_damaged_table_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    files = a_pipeline(tmp_path)
    plan(tmp_path, 0, 3, done=True)
    bronze = tmp_path / "lake" / "bronze"
    commit(str(bronze), 0, taken(0, 3), write_file(str(bronze), [0, 1, 2]))
    (bronze / "_delta_log" / f"{1:020}.json").write_text('{"metaData":')
    found = files.read()
    assert str(bronze) in table(found, "bronze").error
    assert table(found, "bronze").version is None
    assert table(found, "silver").error is None
    assert [one.state for one in found.batches] == ["committed"]  # by Spark's checkpoint


class Reading:
    """A reader of one pipeline, and the recording that it writes."""

    def __init__(self, folder: Path) -> None:
        a_pipeline(folder)
        self.file = str(folder / "pipeline.toml")
        self.clock = HandClock()
        self.recorder = Recorder("run", lambda: int(self.clock.now_s * 1000))
        self.reader = TablesReader([self.file], self.recorder)

    @property
    def shown(self) -> Any:
        return self.recorder.live.maps["pipelines"].get(self.file)

    async def frame(self, **options: Any) -> int:
        """Reads the files; returns the instant of a frame with what they said."""
        self.clock.now_s += 1
        await self.reader.read(self.file, **options)
        return self.recorder.tick().at_ms


async def test_partitions_that_no_batch_has_read_are_named_too(tmp_path: Path) -> None:
    reading = Reading(tmp_path)
    plan(tmp_path, 0, 3, done=True)
    live = reading.recorder.live
    for topic, number in (("t", 0), ("t", 1), ("other", 0)):
        live.set("partitions", f"{topic}:{number}", {"topic": topic, "partition": number})
    await reading.frame()
    assert [(o["topic"], o["partition"], o["planned"]) for o in reading.shown["topics"]] == [
        ("new", 0, None),
        ("t", 0, 3),
        ("t", 1, None),
    ]


async def test_tables_are_kept_at_each_instant_and_in_a_saved_selection(tmp_path: Path) -> None:
    reading, bronze = Reading(tmp_path), str(tmp_path / "lake" / "bronze")
    plan(tmp_path, 0, 3, done=True)
    commit(bronze, 0, taken(0, 3), write_file(bronze, [0, 1, 2]))
    first = await reading.frame()
    plan(tmp_path, 1, 5, done=True)
    commit(bronze, 1, taken(3, 5), write_file(bronze, [3, 4]))
    second = await reading.frame()

    def rows(pipeline: Any) -> int:
        (found,) = (one for one in pipeline["tables"] if one["name"] == "bronze")
        return int(found["rows"])

    for instant, expected in ((first, 3), (second, 5)):
        state = reading.recorder.at(Scope(), instant_ms=instant).state
        assert rows(state.pipelines[reading.file]) == expected
    trace = trace_between(reading.recorder, first, second, made_ms=second)
    assert rows(trace.keyframe.state.pipelines[reading.file]) == 3
    assert rows(trace.deltas[-1].changed["pipelines"][reading.file]) == 5


async def test_the_files_are_read_again_and_again(tmp_path: Path) -> None:
    reading = Reading(tmp_path)
    reader = TablesReader([reading.file], reading.recorder, every_s=0)
    async with asyncio.timeout(60), running(reader.run()):
        for batch, end in ((0, 3), (1, 5)):
            plan(tmp_path, batch, end, done=True)
            while planned_in(reading.shown) != end:  # noqa: ASYNC110 - nothing tells of a change
                await asyncio.sleep(0)


def planned_in(pipeline: Any) -> int | None:
    return None if pipeline is None else pipeline["topics"][-1]["planned"]


async def test_a_look_that_finds_nothing_new_is_no_change(tmp_path: Path) -> None:
    reading = Reading(tmp_path)
    plan(tmp_path, 0, 3, done=True)
    await reading.frame()
    await reading.reader.read(reading.file)
    assert reading.recorder.tick().changed == {}


async def test_files_that_do_not_answer_are_named_and_the_last_answer_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, answers = Reading(tmp_path), threading.Event()
    plan(tmp_path, 0, 3, done=True)
    await reading.frame()
    read = PipelineFiles.read

    def slow(files: PipelineFiles) -> Any:
        answers.wait(60)
        return read(files)

    monkeypatch.setattr(PipelineFiles, "read", slow)
    late = asyncio.create_task(reading.reader.read(reading.file, patience_s=0))
    async with asyncio.timeout(60):
        while reading.shown["unread"] is None:  # noqa: ASYNC110 - nothing tells that it changed
            await asyncio.sleep(0)
    assert "were not read within 0 s" in reading.shown["unread"]
    assert reading.shown["topics"][1]["planned"] == 3
    answers.set()
    await late
    assert reading.shown["unread"] is None

    def broken(files: PipelineFiles) -> Any:
        raise OSError("the folder is stale")

    monkeypatch.setattr(PipelineFiles, "read", broken)
    await reading.frame()
    assert "the folder is stale" in str(reading.shown["unread"])


def test_a_pipeline_is_named_by_its_file_or_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(FILE)
    assert pipeline_files([str(tmp_path), str(file)]) == (str(file),)
    assert pipeline_files([]) == ()
    with pytest.raises(ConsoleError, match=r"there is no file .*nothing: give a pipeline\.toml"):
        pipeline_files([str(tmp_path / "nothing")])


def test_without_the_extra_the_console_names_it(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(FILE)
    program = (
        "import importlib.util, sys\n"
        "real = importlib.util.find_spec\n"
        "lacks = {'pyspark', 'deltalake'}\n"
        "gone = lambda name, *rest: None if name in lacks else real(name, *rest)\n"
        "importlib.util.find_spec = gone\n"
        "from strandline_cli.main import main\n"
        "sys.argv = ['strandline', 'console', '--bootstrap', '127.0.0.1:1', '--pipeline', '.']\n"
        "main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode != 0
    assert "deltalake is not installed: pip install 'strandline[spark]'" in ended.stderr


def test_spark_is_not_needed(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(FILE)
    program = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "from strandline_console.tables.progress import PipelineFiles\n"
        f"found = PipelineFiles({str(tmp_path / 'pipeline.toml')!r}).read()\n"
        "print(found.name, found.error)\n"
    )
    said = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=120)
    assert said == "numbers None\n"
