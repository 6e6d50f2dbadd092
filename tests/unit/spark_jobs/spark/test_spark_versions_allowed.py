"""The versions of PySpark: `pyproject.toml`, `make sparks`, the guide and the refusals name the
same ones.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import sparks
from strandline_spark import spark_versions
from strandline_spark.commands.main import main
from strandline_spark.errors import EnvironmentProblem
from strandline_spark.spark_versions import (
    STREAM_READS_FROM,
    SUPPORTED,
    check_stream_reads,
    check_stream_writes,
    check_supported,
)

ROOT = Path(__file__).parents[4]
WHOLE = [f"{major}.{minor}" for major, minor in SUPPORTED]


def test_the_bounds_the_matrix_and_the_guide_name_the_supported_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    major, minor = SUPPORTED[-1]
    assert f"pyspark>={WHOLE[0]},<{major}.{minor + 1}" in project["optional-dependencies"]["spark"]
    assert list(sparks.RELEASES) == WHOLE
    assert list(sparks.BATCHES_ALONE) == WHOLE[: SUPPORTED.index(STREAM_READS_FROM)]
    guide = (ROOT / "docs" / "guide" / "spark" / "README.md").read_text("utf-8")
    assert re.findall(r"^\| PySpark (\d\.\d)", guide, re.MULTILINE) == WHOLE[::-1]
    for files in (sparks.EVERY, sparks.STREAMS):
        assert all((ROOT / file).is_file() for file in files)


@pytest.mark.parametrize("version", ["3.5.9", "4.4.0", "5.0.0.dev1", "odd"])
def test_a_version_outside_the_table_is_refused_by_name(version: str) -> None:
    for check in (check_supported, check_stream_writes):
        with pytest.raises(EnvironmentProblem, match=rf"^PySpark {version} is installed; .*<4\.4'"):
            check(version)
    with pytest.raises(EnvironmentProblem, match=f"^PySpark {version} is installed"):
        check_stream_reads("readStream", version)


@pytest.mark.parametrize(
    ("version", "reads", "writes"),
    [("4.0.5", False, False), ("4.1.0.dev2", False, True), ("4.2.1", True, True)],
)
def test_streams_are_refused_where_spark_does_not_say_what_they_need(
    version: str, *, reads: bool, writes: bool
) -> None:
    check_supported(version)
    if reads:
        check_stream_reads("readStream", version)
    else:
        with pytest.raises(EnvironmentProblem, match=rf"^readStream: PySpark {version} .*>=4\.2,<"):
            check_stream_reads("readStream", version)
    if writes:
        check_stream_writes(version)
    else:
        with pytest.raises(EnvironmentProblem, match=rf"^writeStream: PySpark {version} .*>=4\.1"):
            check_stream_writes(version)


@pytest.mark.parametrize(("version", "status"), [("4.1.4", 1), ("4.3.0", 0)])
def test_the_commands_refuse_a_version_before_they_do_anything(
    version: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spark_versions, "installed", lambda: version)
    with pytest.raises(SystemExit) as ended:
        main(["example", "access"])
    said = capsys.readouterr()
    assert ended.value.code == status
    assert bool(said.out) == (status == 0)
    told = f"error: strandline-spark: PySpark {version} does not tell a Python source"
    assert said.err.startswith(told if status else "")
