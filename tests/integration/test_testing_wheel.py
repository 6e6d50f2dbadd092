"""The wheel in a fresh environment outside the checkout: the examples of the guide run there, as a
user's tests.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

import pytest

from support.installed_wheel import installed, run
from support.tidy_tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

GUIDE: Final = ROOT / "docs" / "guide" / "testing.md"
PYTEST: Final = ("-m", "pytest", "-q", "-p", "no:hypothesispytest")
"""Without a plugin that nothing here uses: each process would import its library."""
USERS: Final = """
from pathlib import Path

import pytest
import strandline


def test_the_wheel_is_used():
    assert Path(strandline.__file__).parts[-3] == "site-packages"
    assert "ENVIRONMENT" in strandline.__file__


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_with_anyio(strandline_cluster, strandline_topic, strandline_producer):
    async with strandline_producer() as producer:
        await (await producer.send(strandline_topic, b"1"))
        await producer.send_many(strandline_topic, [b"2", b"3"])
    assert await strandline_cluster.aio.assert_nothing_lost() == 3
    assert [r.value for r in await strandline_cluster.aio.records(strandline_topic)] == [
        b"1",
        b"2",
        b"3",
    ]


def test_that_fails(strandline_cluster, strandline_topic, strandline_chaos):
    victim = strandline_chaos.kill(leader_of=strandline_topic)
    assert strandline_cluster.leader_of(strandline_topic) == victim


def test_after_it(strandline_cluster, strandline_topic):
    strandline_cluster.wait_in_sync(strandline_topic)
    assert all(strandline_cluster.processes.process(i).pid for i in strandline_cluster.brokers)
"""
WORKERS: Final = """
import os
from pathlib import Path

import pytest


@pytest.mark.parametrize("number", range(6))
def test_of_a_worker(strandline_cluster, strandline_topic, strandline_producer, number):
    with strandline_producer() as producer:
        producer.send_and_wait(strandline_topic, b"1")
    assert strandline_cluster.assert_nothing_lost() == 1
    worker = os.environ["PYTEST_XDIST_WORKER"]
    used = f"{worker} {strandline_cluster.bootstrap} {strandline_topic}"
    Path(f"used-{number}").write_text(used)


def test_a_fault(strandline_chaos):
    pass
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    # The C file stays as it is: compiling has tests of its own.
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    compiled = sorted((ROOT / "proto" / "strandline_proto").glob("*.so"))
    run([*build, str(folder / "dist")], ROOT, STRANDLINE_PURE_PYTHON="1")
    assert all(each.exists() for each in compiled), "the build took the checkout's C extension away"
    (wheel,) = (folder / "dist").glob("*.whl")
    return installed(wheel, folder / "env")


def test_the_examples_of_the_guide_and_a_users_tests_run_there(
    environment: Path, tmp_path: Path
) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) == 7
    for number, example in enumerate(examples):
        (tmp_path / f"test_example_{number}.py").write_text(example)
    own = str(environment.parents[1])
    (tmp_path / "test_users.py").write_text(USERS.replace("ENVIRONMENT", own))
    done = run([str(environment), *PYTEST], tmp_path, check=False)
    said = done.stdout + done.stderr
    assert re.search(rf"^1 failed, {len(examples) + 3} passed", said, re.MULTILINE), said
    assert re.search(r"^-+ Strandline cluster at \S+, meanwhile -+$", said, re.MULTILINE), said
    assert re.search(
        r"the test: kill\(\d\), the leader of test-main-\w+-\d+:0$", said, re.MULTILINE
    ), said
    assert re.search(r"leader of test-main-\S+:0 broker \d -> broker \d, epoch \d", said), said
    assert re.search(r"ISR of test-main-\S+:0 \[\d, \d, \d\] -> \[\d, \d\]", said), said


def test_workers_of_xdist_share_a_cluster_or_refuse_its_faults(
    environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "test_workers.py").write_text(WORKERS)
    options = ["-n2", "--strandline-shared", "--strandline-brokers", "1"]
    done = run([str(environment), *PYTEST, *options], tmp_path, check=False)
    said = done.stdout + done.stderr
    assert "6 passed, 1 error" in said, said
    assert "leave out --strandline-bootstrap and --strandline-shared" in said
    used = [(tmp_path / f"used-{number}").read_text().split() for number in range(6)]
    assert len({bootstrap for _, bootstrap, _ in used}) == 1
    assert len({topic for _, _, topic in used}) == 6


def test_without_an_option_each_worker_of_xdist_has_a_cluster_of_its_own(
    environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "test_workers.py").write_text(WORKERS)
    options = ["-n2", "--strandline-brokers", "1"]
    said = run([str(environment), *PYTEST, *options], tmp_path).stdout
    assert "7 passed" in said, said
    used = [(tmp_path / f"used-{number}").read_text().split() for number in range(6)]
    assert {worker for worker, _, _ in used} == {"gw0", "gw1"}
    assert len({bootstrap for _, bootstrap, _ in used}) == 2
    assert len({(worker, bootstrap) for worker, bootstrap, _ in used}) == 2
    assert len({topic for _, _, topic in used}) == 6
