"""The options and the marker of the pytest plugin, in runs of pytest that start no cluster."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.command import clean_environ

if TYPE_CHECKING:
    from pathlib import Path

RUN_S = 120.0
ONE_TEST = "def test_one(strandline_topic): pass\n"


def run(folder: Path, *options: str, test: str = ONE_TEST) -> subprocess.CompletedProcess[str]:
    (folder / "test_users.py").write_text(test)
    words = [sys.executable, "-m", "pytest", "-p", "strandline.testing.plugin", "-q", *options]
    environ = clean_environ({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    return subprocess.run(
        words, cwd=folder, env=environ, capture_output=True, text=True, timeout=RUN_S, check=False
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--strandline-bootstrap", "h:1", "--strandline-brokers", "2"),
            "--strandline-brokers sets up a new cluster, and --strandline-bootstrap names an",
        ),
        (
            ("--strandline-bootstrap", "h:1", "--strandline-shared"),
            "--strandline-shared sets up a new cluster, and --strandline-bootstrap names an",
        ),
        (
            ("--strandline-config", "log.retention.msx=1"),
            "unknown configuration key 'log.retention.msx'; did you mean log.retention.ms?",
        ),
        (("--strandline-config", "log.retention.ms"), "'log.retention.ms' is not KEY=VALUE"),
        (("--strandline-brokers", "0"), "a cluster needs at least one broker, not 0"),
    ],
)
def test_options_are_checked_before_the_first_test(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = run(tmp_path, *options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {said}" in done.stderr


def test_a_run_without_a_cluster_imports_nothing_of_it(tmp_path: Path) -> None:
    test = (
        "import sys\n"
        "def test_imports():\n"
        "    heavy = ('grpc', 'strandline_broker', 'strandline_local', 'strandline.sync')\n"
        "    assert [name for name in heavy if name in sys.modules] == []\n"
    )
    done = run(tmp_path, "--strict-markers", "-W", "error", test=test)
    assert "1 passed" in done.stdout, done.stdout


def test_a_name_that_another_worker_uses_is_named(tmp_path: Path) -> None:
    test = (
        "import pytest\n"
        "from strandline_proto.errors import TopicAlreadyExists\n"
        "class Cluster:\n"
        "    bootstrap = 'h:1'\n"
        "    def create_topic(self, name, **options):\n"
        "        raise TopicAlreadyExists(name)\n"
        "@pytest.fixture(scope='session')\n"
        "def strandline_cluster(): return Cluster()\n"
        "@pytest.mark.strandline_topic(name='orders')\n"
        f"{ONE_TEST}"
    )
    done = run(tmp_path, test=test)
    said = "topic 'orders' exists at h:1: another test, perhaps of another xdist worker, uses the"
    assert said in done.stdout
    assert "Traceback" not in done.stdout


def test_the_marker_refuses_an_option_that_it_does_not_have(tmp_path: Path) -> None:
    test = (
        "import pytest\n"
        "from strandline.testing import plugin\n"
        "@pytest.fixture(scope='session')\n"
        "def strandline_cluster(): return None\n"
        "@pytest.mark.strandline_topic(partition=3)\n"
        f"{ONE_TEST}"
        "@pytest.mark.strandline_topic(3)\n"
        "def test_two(strandline_topic): pass\n"
    )
    done = run(tmp_path, "--strict-markers", test=test)
    assert (
        "the marker strandline_topic has no option 'partition', it has name, partitions,"
        " replication_factor, config; did you mean partitions?" in done.stdout
    )
    assert "the marker strandline_topic takes options by name only" in done.stdout
    assert "Traceback" not in done.stdout
