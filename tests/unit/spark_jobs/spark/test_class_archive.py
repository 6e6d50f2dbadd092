"""The archive of Spark's classes: where it is, when it is used, and that a wrong one harms nobody.

`make test` writes one before the tests, so that every test of Spark runs from it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from strandline_spark.errors import EnvironmentProblem
from strandline_spark.spark.class_archive import archive_path, java_options, prepare


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_session_uses_the_archive_once_it_is_there() -> None:
    assert java_options() == []
    path = Path(archive_path())
    path.parent.mkdir()
    path.write_bytes(b"")
    assert java_options() == [f"-XX:SharedArchiveFile={path}"]


def test_an_archive_that_java_would_not_find_is_not_used_and_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a:b"))
    path = Path(archive_path())
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    assert java_options() == []
    with pytest.raises(EnvironmentProblem, match=r"takes ':' in its path .*set XDG_CACHE_HOME"):
        prepare()


def test_another_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = archive_path()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert archive_path() != before


def test_without_a_cache_of_its_own_it_lies_in_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/somewhere")
    assert archive_path().startswith("/somewhere/.cache/strandline/spark-")


@pytest.mark.spark
def test_a_jvm_goes_on_without_an_archive_that_is_not_its_own() -> None:
    path = Path(archive_path())
    path.parent.mkdir()
    path.write_bytes(os.urandom(4096))
    command = ["java", *java_options(), "-version"]
    assert subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == 0


def test_where_it_cannot_be_written_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(EnvironmentProblem, match="set XDG_CACHE_HOME"):
        prepare()
