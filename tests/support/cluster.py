"""A real cluster of processes for tests: the `cluster` fixture, one for each module, and a maker
of more.

Import the fixtures into a `conftest.py`. Everything waits with a deadline, and nothing is left
running when the module ends.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from strandline.errors import NoBrokerReachable
from strandline_local.local_cluster import LocalCluster
from support.server_forks import use_forks

DEADLINE_S = 180.0
_POLL_S = 0.05

T = TypeVar("T")
MakeCluster = Callable[..., LocalCluster]

use_forks()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers and a controller, shared by the tests of a module."""
    made = LocalCluster.create(tmp_path_factory.mktemp("cluster"), brokers=3, port=0)
    made.up()
    try:
        yield made
    finally:
        made.kill_all()


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    """`make_cluster(brokers=1, broker_config={...})`: a cluster of a test's own, already up."""
    made: list[LocalCluster] = []

    def make(*, up: bool = True, name: str | None = None, **options: Any) -> LocalCluster:
        directory = tmp_path / (name or f"cluster-{len(made)}")
        cluster = LocalCluster.create(directory, port=0, **options)
        made.append(cluster)
        if up:
            cluster.up()
        return cluster

    try:
        yield make
    finally:
        for cluster in made:
            cluster.kill_all()


def eventually(
    question: Callable[[], T | None],
    what: str,
    deadline_s: float = DEADLINE_S,
    *,
    poll_s: float = _POLL_S,
) -> T:
    """The first answer of `question` that is neither None nor False. Fails at the deadline.

    A question that no broker answers is asked again: the brokers may still be starting.
    """
    deadline = time.monotonic() + deadline_s
    while True:
        try:
            answer = question()
        except NoBrokerReachable:
            if time.monotonic() >= deadline:
                raise
            answer = None
        if answer is not None and answer is not False:
            return answer
        assert time.monotonic() < deadline, f"not within {deadline_s} s: {what}"
        time.sleep(poll_s)
