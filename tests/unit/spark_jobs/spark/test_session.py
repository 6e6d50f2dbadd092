"""The settings of the jobs' Spark session."""

from __future__ import annotations

import signal
import subprocess
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

from strandline_spark.commands.main import main
from strandline_spark.errors import EnvironmentProblem, OptionError
from strandline_spark.spark import session
from strandline_spark.spark.flags import local_session
from strandline_spark.spark.session import (
    _configuration,
    _quoted,
    _text_settings,
    checked_memory,
    warn_of_slow_walks,
    with_task_failures,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_lets_a_task_fail_unless_it_says_otherwise(given: str, used: str) -> None:
    assert with_task_failures(given) == used


@pytest.mark.parametrize("memory", ["480m", "1g", "2G", "524288k"])
def test_a_heap_is_a_number_with_its_unit(memory: str) -> None:
    assert checked_memory(memory) == memory


@pytest.mark.parametrize("memory", ["", "foo", "g", "1", "1gb", "-1g", "0g", "1.5g", "479m"])
def test_a_heap_that_no_jvm_starts_with_is_refused(memory: str) -> None:
    with pytest.raises(OptionError, match=f"--memory '{memory}': give a number .*at least 480m"):
        checked_memory(memory)


def test_a_command_looks_at_the_heap_before_it_starts_a_jvm(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = "ingest bronze --bootstrap h:1 --topics t --table t --checkpoint c --memory foo"
    with pytest.raises(SystemExit):
        main(command.split())
    assert capsys.readouterr().err.startswith("error: --memory 'foo': give a number")
    flags = Namespace(master="local[1]", memory="foo", worker_python="python")
    with pytest.raises(OptionError, match="--memory 'foo'"), local_session(flags, "job"):
        pass


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_no_jvm_checks_arrow_values_once_more(master: str, direct: bool) -> None:
    settings = _configuration(master, "1g", direct=direct, worker_python="python")
    of = "driver" if master.startswith("local") else "executor"
    options = settings[f"spark.{of}.extraJavaOptions"].split()
    assert "-Darrow.enable_unsafe_memory_access=true" in options
    assert "-Darrow.enable_null_check_for_get=false" in options
    assert ("-XX:+UseSerialGC" in options) == direct
    assert ("-XX:ReservedCodeCacheSize=240m" in options) == direct


def test_no_call_on_a_column_asks_the_jvm_for_its_caller() -> None:
    settings = _configuration("local[2]", "1g", direct=True, worker_python="python")
    assert settings["spark.python.sql.dataFrameDebugging.enabled"] == "false"


def test_workers_of_a_cluster_keep_their_memory_as_local_ones_do() -> None:
    settings = _configuration("spark://host:7077", "1g", direct=True, worker_python="python")
    given = {name: value for name, value in settings.items() if "MALLOC" in name}
    assert given == {
        "spark.executorEnv.MALLOC_ARENA_MAX": "1",
        "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "67108864",
        "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "268435456",
        "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
    }


def test_what_a_statement_gives_is_not_for_the_users_configuration_to_say() -> None:
    settings = _configuration("local[2]", "1g", direct=True, worker_python="python")
    assert settings["spark.sql.ansi.enabled"] == "true"
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert settings["spark.sql.caseSensitive"] == "false"
    assert settings["spark.sql.timestampType"] == "TIMESTAMP_LTZ"


@pytest.mark.parametrize("is_compiled", [True, False])
def test_who_finds_records_in_python_is_told(
    is_compiled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_slow_walks(is_compiled=is_compiled)
    told = ["install a C compiler" in message for message in caplog.messages]
    assert told == ([] if is_compiled else [True])


@pytest.mark.parametrize(
    ("encoding", "settings"),
    [("UTF-8", {}), ("utf8", {}), ("ANSI_X3.4-1968", {"LC_ALL": "C.UTF-8"})],
)
def test_a_jvm_names_files_in_utf_8_whatever_the_locale(
    monkeypatch: pytest.MonkeyPatch, encoding: str, settings: dict[str, str]
) -> None:
    monkeypatch.setattr("locale.getencoding", lambda: encoding)
    assert _text_settings() == settings


def test_an_option_with_a_path_is_one_option_of_javas() -> None:
    assert _quoted('-Da=b c"\\') == '"-Da=b c\\"\\\\"'


def test_a_jvm_that_does_not_end_is_killed_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(session, "_jvms", [jvm])
    with pytest.raises(EnvironmentProblem, match="did not end within 0 s and was killed"):
        session.stop_jvm(seconds_max=0.0)
    assert jvm.returncode == -signal.SIGKILL
