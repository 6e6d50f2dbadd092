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

INTERPRETED = " ".join(
    f"-Dspark.sql.codegen.{name}" for name in ("wholeStage=false", "factoryMode=NO_CODEGEN")
)
"""Spark interprets the queries of these tests, which have a few rows: it would compile a class for
each. The jobs of the examples, of the demonstration and of the containers have Spark's own setting.
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


@pytest.fixture(scope="session", autouse=True)
def _interpreted() -> Iterator[None]:
    """The JVMs that tests start take it from the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", INTERPRETED)
        yield


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    from strandline_spark.cluster.cluster import close_channels

    with FakeBroker() as fake:  # type: ignore[abstract] # the calls it lacks are answered UNIMPLEMENTED
        yield fake
        close_channels()


@pytest.fixture(scope="session")
def worker_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A program that forks what Spark's Python processes would import."""
    with planner_forks(tmp_path_factory.mktemp("forks")) as python:
        yield python


@pytest.fixture(scope="session")
def spark(
    tmp_path_factory: pytest.TempPathFactory, worker_python: str, _interpreted: None
) -> Iterator[SparkSession]:
    from strandline_spark.spark import session as sessions

    with pytest.MonkeyPatch.context() as patch:
        # Spark runs the sources that it finds by their names with the driver's Python.
        patch.setattr(sessions, "set_worker_python", lambda _: None)
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            patch.setenv(name, worker_python)
        session = sessions.start_session(
            "tests",
            master="local[2]",
            memory="1g",
            log_path=str(tmp_path_factory.mktemp("spark") / "spark.log"),
            direct=True,
            worker_python=worker_python,
        )
    yield session
    session.stop()
    sessions.stop_jvm()
