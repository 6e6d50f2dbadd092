"""The list of paths and topics is delta-rs' own, whatever the log has gone through."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable, write_deltalake

from strandline_spark.delta_log import file_list
from strandline_spark.delta_log.entries import LogError
from strandline_spark.delta_log.table_log import snapshot

if TYPE_CHECKING:
    from strandline_spark.delta_log.file_list import FileList


def write(root: str, *topics: str) -> None:
    rows = pa.table({"topic": pa.array(topics), "n": pa.array(range(len(topics)), pa.int64())})
    write_deltalake(root, rows, partition_by=["topic"], mode="append")


def read(root: str) -> FileList:
    """The list, which must be that of delta-rs."""
    listed = file_list.read(snapshot(root))
    found = pa.table(DeltaTable(root).get_add_actions(flatten=True))
    pairs = [found.column(name).to_pylist() for name in ("path", "partition.topic")]
    ours = list(zip(listed.paths.to_pylist(), listed.topics.to_pylist(), strict=True))
    # delta-rs leaves paths as the log has them.
    assert sorted(ours) == sorted(
        (unquote(path), topic) for path, topic in zip(*pairs, strict=True)
    )
    assert all(os.path.isfile(os.path.join(root, path)) for path, _ in ours)
    return listed


def test_entries_and_a_checkpoint_make_the_list(tmp_path: Path) -> None:
    root = str(tmp_path)
    write(root, "t", "u")
    for checkpoint in (False, True, False):
        write(root, "t", "a b%/ü", "%41")
        if checkpoint:
            DeltaTable(root).create_checkpoint()
        read(root)
    assert len(read(root).of_topic("t")) == 4
    assert len(read(root).of_topic("a b%/ü")) == len(read(root).of_topic("%41")) == 3
    assert len(read(root).of_topic("v")) == 0


def test_files_that_left_the_table_are_not_in_the_list(tmp_path: Path) -> None:
    root = str(tmp_path)
    for n in range(3):
        write(root, "t", f"u {n}")
    DeltaTable(root).create_checkpoint()
    write(root, "t")
    DeltaTable(root).optimize.compact()
    assert len(read(root).of_topic("t")) == 1
    DeltaTable(root).delete("topic = 'u 1'")
    assert len(read(root).of_topic("u 1")) == 0
    DeltaTable(root).create_checkpoint()
    assert len(read(root).paths) == 3


def test_a_file_that_comes_again_is_listed_once(tmp_path: Path) -> None:
    root = str(tmp_path)
    write(root, "t")
    DeltaTable(root).create_checkpoint()
    before = snapshot(root)
    (add,) = (one for one in map(json.loads, entry(root, 0)) if "add" in one)
    gone = {"remove": {"path": add["add"]["path"], "dataChange": False}}
    Path(root, "_delta_log", f"{1:020}.json").write_text(
        "\n".join(json.dumps(one) for one in (add, gone)) + "\n"
    )
    assert read(root).paths.to_pylist() == file_list.read(before).paths.to_pylist()


def entry(root: str, version: int) -> list[str]:
    return Path(root, "_delta_log", f"{version:020}.json").read_text().splitlines()


def test_a_version_of_the_past_has_its_own_list(tmp_path: Path) -> None:
    root = str(tmp_path)
    write(root, "t")
    state = snapshot(root)
    write(root, "t")
    DeltaTable(root).create_checkpoint()
    assert len(file_list.read(state).paths) == 1


def test_what_does_not_read_is_named(tmp_path: Path) -> None:
    root = str(tmp_path)
    for _ in range(3):
        write(root, "t")
    state = snapshot(root)
    path = Path(root, "_delta_log", f"{1:020}.json")
    text = path.read_text()
    for damage in ('{"add": 1}', '{"remove": {}}', "["):
        path.write_text(damage)
        with pytest.raises(LogError, match="does not read"):
            file_list.read(state)
    path.unlink()
    with pytest.raises(LogError, match="has lost the entry of version 1"):
        file_list.read(state)
    path.write_text(text)
    checkpoint = Path(root, "_delta_log", f"{2:020}.checkpoint.parquet")
    checkpoint.write_bytes(b"PAR1")
    with pytest.raises(LogError, match=r"checkpoint .* does not read"):
        file_list.read(state)
    pq.write_table(pa.table({"add": [1]}), checkpoint)
    with pytest.raises(LogError, match=r"checkpoint .* does not read"):
        file_list.read(state)
