"""The state steps of a pipeline, and the commands that run and reset them, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from strandline_spark.commands.main import main
from strandline_spark.errors import OptionError
from strandline_spark.pipeline.config import Pipeline, load_pipeline
from strandline_spark.pipeline.failures import Failures
from strandline_spark.pipeline.metrics import JobMetrics
from strandline_spark.pipeline.state import StateSteps
from strandline_spark.state.table import StateTable
from support.silver_tables import SilverRow, create, take

TEXT = """
[pipeline]
name = "flights"
topics = ["t"]

[silver]
format = "json"
event_time = "timestamp"

[silver.columns]
carrier = "string"
delay = "double"

[[state]]
name = "planes"

[[state]]
name = "carriers"
key = ["carrier"]
order = ["event_time"]
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    file = tmp_path / "pipeline.toml"
    file.write_text(TEXT)
    found = load_pipeline(str(file))
    create(found.silver)
    return found


def rows(*keys: tuple[int, int, bytes | None]) -> list[SilverRow]:
    return [SilverRow(partition, offset, 10 + offset, key=key) for partition, offset, key in keys]


def keys_of(pipeline: Pipeline, number: int) -> list[bytes]:
    table = DeltaTable(pipeline.state[number].table).to_pyarrow_table(columns=["key"])
    return sorted(table.column("key").to_pylist())


def command(*words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def test_a_step_that_fails_is_named_and_the_others_go_on(pipeline: Pipeline) -> None:
    notes: list[str] = []
    metrics = JobMetrics("flights")
    failures = Failures(notes.append)
    steps = StateSteps(pipeline, notes.append, failures, metrics.state)
    take(pipeline.silver, rows((0, 0, b"a"), (0, 1, None), (1, 0, b"b")))
    steps.run()
    assert notes == [
        "state planes: 3 rows of silver, 2 keys changed and 0 deleted; 2 keys",
        "state planes: 1 rows are left out, because key is null in them",
        "state carriers: 3 rows of silver, 1 keys changed and 0 deleted; 1 keys",
    ]
    notes.clear()
    take(pipeline.silver, rows((1, 5, b"a")))
    steps.run()
    assert list(failures.said()) == ["state planes"]
    assert notes[0].startswith(
        "state planes stands still, the other steps go on: the key key = b'a'"
    )
    assert keys_of(pipeline, 1) == [b"a"]
    steps.run(again=False)
    assert len(notes) == 2

    def shown(name: str, **labels: str) -> float | None:
        labels |= {"pipeline": "flights"}
        return metrics.registry.get_sample_value(f"strandline_spark_state_{name}", labels)

    assert shown("keys", step="planes") == 2
    assert shown("changes_total", step="carriers", change="upserted") == 2
    assert shown("changes_total", step="planes", change="deleted") == 0
    assert shown("left_out_rows_total", step="planes", column="key") == 1


def test_a_conflict_with_a_foreign_writer_is_one_line_and_is_tried_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    now = [0.0]
    steps = StateSteps(pipeline, notes.append, Failures(notes.append, lambda: now[0]))
    take(pipeline.silver, rows((0, 0, b"a")))
    steps.run()
    take(pipeline.silver, rows((0, 1, b"a")))
    commit = StateTable.commit

    def late(own: StateTable, *given: Any) -> int:
        DeltaTable(own.path).delete("partition = 0")
        return commit(own, *given)

    notes.clear()
    with monkeypatch.context() as patch:
        patch.setattr(StateTable, "commit", late)
        steps.run(again=False)
    assert len(notes) == 2
    for note, name in zip(notes, ("planes", "carriers"), strict=True):
        assert note.startswith(f"state {name} stands still, the other steps go on: another writer")
        assert "\n" not in note
    steps.run(again=False)
    assert len(notes) == 2
    now[0] = 61.0
    steps.run(again=False)
    assert [one for one in notes if "goes on again" in one] == [
        "state planes goes on again",
        "state carriers goes on again",
    ]


def test_a_mistake_in_a_step_is_refused_before_a_batch(pipeline: Pipeline) -> None:
    Path(pipeline.file).write_text(TEXT + 'delete_when = "op = 1"\n')
    wrong = load_pipeline(pipeline.file)
    with pytest.raises(OptionError, match=r"\[\[state\]\] carriers, delete_when = 'op = 1'"):
        StateSteps(wrong, print, Failures(print))


def test_the_command_runs_and_resets_steps(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    take(pipeline.silver, rows((0, 0, b"a")))
    assert command("state", pipeline.file) == 0
    assert "state planes: 1 rows of silver" in capsys.readouterr().err
    assert command("state", "reset", "planes", pipeline.file) == 0
    said = capsys.readouterr().out
    assert said.startswith("planes: the next run computes it from all of silver. The table as it")
    aside = said.strip().rpartition(": ")[2]
    assert DeltaTable(aside).to_pyarrow_table().num_rows == 1
    assert command("state", "reset", pipeline.file, "planes") == 0
    assert "it has no table" in capsys.readouterr().out
    assert command("state", pipeline.file) == 0
    assert keys_of(pipeline, 0) == [b"a"]
    for words, told in (
        (["reset", "plane", pipeline.file], "has no step of that name; it has planes, carriers"),
        (["reset"], "state reset: name one step"),
        (["a.toml", "b.toml"], "state a.toml b.toml: give one path"),
    ):
        assert command("state", *words) == 1
        assert told in capsys.readouterr().err
    Path(pipeline.file).write_text(TEXT.partition("[[state]]")[0])
    assert command("state", pipeline.file) == 1
    assert "has no [[state]] step; add one" in capsys.readouterr().err


def test_other_commands_refuse_a_state_table(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    take(pipeline.silver, rows((0, 0, b"a")))
    assert command("state", pipeline.file) == 0
    table = pipeline.state[0].table
    assert command("report", table, "--output", str(tmp_path / "report.html")) == 1
    assert f"{table} is a state table, which has no ranges to show" in capsys.readouterr().err
    for name, said in (("compact", "a state"), ("vacuum", "a state"), ("latest", "not a")):
        assert command(name, table) == 1
        assert f"{table} is {said}" in capsys.readouterr().err
