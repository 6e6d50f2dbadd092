"""One Spark session for the whole suite: a JVM takes seconds to start.

Spark's Python side warns of things that are not ours; they are let through by their text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.fake_broker_sync import FakeBroker
from support.planner_forks import planner_forks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Spark interprets the queries of tests, which have a few rows: it would compile a class for each.
The jobs that tests start as commands have Spark's own setting.
"""
_LIBRARY_WARNINGS = (
    # PySpark leaves the sockets of its callback server to the garbage collector.
    "ignore:unclosed <socket:ResourceWarning",
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
    "ignore:subprocess .* is still running:ResourceWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark" in item.nodeid or "/spark/" in str(item.path):
            for warning in _LIBRARY_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    from strandline_spark.cluster.cluster import close_channels

    with FakeBroker() as fake:  # type: ignore[abstract] # the calls it lacks are answered UNIMPLEMENTED
        yield fake
        close_channels()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from strandline_spark.spark.session import start_session, stop_jvm

    folder = tmp_path_factory.mktemp("spark")
    with planner_forks(folder) as python:
        session = start_session(
            "tests",
            master="local[2]",
            memory="1g",
            log_path=str(folder / "spark.log"),
            direct=True,
            worker_python=python,
        )
        for name, value in INTERPRETED.items():
            session.conf.set(name, value)
        yield session
        session.stop()
        stop_jvm()
