"""Files of tables in a folder and in an object store: one set of tests for both."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from strandline_spark.stores import files
from strandline_spark.stores.durable import check_writes, sync, sync_names, write_new
from support.object_store import BUCKET, object_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = pa.table({"n": list(range(1000))})


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with object_store():
        yield f"s3://{BUCKET}"


@pytest.fixture(params=["folder", "object store"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "table")
    return f"{request.getfixturevalue('store')}/{secrets.token_hex(4)}/table"


def test_a_file_is_made_once_and_replaced_as_a_whole(root: str) -> None:
    path = f"{root}/_delta_log/0.json"
    assert not files.exists(root)
    files.make_folder(os.path.dirname(path))
    check_writes(path)
    write_new(path, "one\ntwo\n")
    with pytest.raises(FileExistsError):
        write_new(path, "three\n")
    assert files.read_text(path) == "one\ntwo\n"
    assert [line.strip() for line in files.lines(path)] == ["one", "two"]
    mark = files.mark(path)
    assert files.mark(path) == mark
    assert (mark[2], files.size(path)) == (8, 8)
    files.write_over(path, "another")
    assert files.read_text(path) == "another"
    assert files.mark(path) != mark
    sync(path)
    sync_names(path, root)
    assert files.names(os.path.dirname(path)) == ["0.json"]


def test_folders_and_files_are_told_apart(root: str) -> None:
    for name in ("a/1.txt", "a/b/2.txt", "ab/3.txt"):
        files.write_over(f"{root}/{name}", name)
    assert sorted(files.names(root)) == ["a", "ab"]
    assert sorted(files.names(f"{root}/a")) == ["1.txt", "b"]
    for path, is_folder, is_file in (
        ("a", True, False),
        ("a/1.txt", False, True),
        ("a/b", True, False),
        ("c", False, False),
    ):
        full = f"{root}/{path}"
        assert (files.is_folder(full), files.is_file(full)) == (is_folder, is_file)
        assert files.exists(full) == (is_folder or is_file)
    files.remove_tree(f"{root}/a")
    assert files.names(root) == ["ab"]


def test_what_is_not_there_is_said_as_by_a_file_system(root: str) -> None:
    for act in (files.read_text, files.size, files.mark, files.remove, files.names, files.parquet):
        with pytest.raises(FileNotFoundError):
            act(f"{root}/none")


def test_rows_are_written_and_read_back(root: str) -> None:
    path = f"{root}/topic=a b/f.parquet"
    files.make_folder(os.path.dirname(path))
    with files.parquet_writer(path, ROWS.schema, compression="zstd") as writer:
        writer.write_table(ROWS)
        writer.write_table(ROWS)
    assert files.parquet(path).read().num_rows == 2 * ROWS.num_rows
    assert files.footer(path).num_row_groups == 2
    files.write_parquet(ROWS, path)
    with files.parquet(path) as opened:
        assert opened.read().equals(ROWS)
    files.replace_parquet(ROWS.slice(0, 10), path)
    assert files.footer(path).num_rows == 10
    target = f"{root.rpartition('/')[2]}.local"
    os.makedirs("/tmp", exist_ok=True)
    copy = os.path.join(os.environ.get("PYTEST_TMP", "/tmp"), f"{secrets.token_hex(4)}-{target}")
    files.fetch(path, copy)
    try:
        assert files.footer(copy).num_rows == 10
    finally:
        os.unlink(copy)
    files.remove(path)
    assert not files.is_file(path)


def test_names_after_one_are_listed_alone(store: str) -> None:
    root = f"{store}/{secrets.token_hex(4)}"
    for n in range(5):
        files.write_over(f"{root}/{n:03}.json", "")
    assert files.names(root, "002.json") == ["003.json", "004.json"]
    assert files.names(root, "009.json") == []
