"""The pytest plugin: a real cluster, topics, clients and faults as fixtures.

pytest loads this module in every run of an environment where Strandline is installed. So it imports
nothing of the cluster before a fixture is used.
"""

import os
import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from strandline.testing.chaos import Chaos
    from strandline.testing.clients import ConsumerFactory, ProducerFactory
    from strandline.testing.cluster import Cluster
    from strandline.testing.local_cluster import LocalCluster
    from strandline.testing.topics import TopicPool

_BROKERS: Final = "--strandline-brokers"
_CONFIG: Final = "--strandline-config"
_BOOTSTRAP: Final = "--strandline-bootstrap"
_SHARED: Final = "--strandline-shared"
_MARKER: Final = "strandline_topic"
_MARKER_OPTIONS: Final = ("name", "partitions", "replication_factor", "config")
_INPUT: Final = "strandline"
"""The key of what an xdist worker gets from the process that shares its cluster."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of the cluster."""
    group = parser.getgroup("strandline", "Strandline: a real cluster in a test")
    group.addoption(
        _BROKERS, type=int, metavar="N", help="Number of brokers of the cluster (default 3)."
    )
    group.addoption(
        _CONFIG,
        action="append",
        metavar="KEY=VALUE",
        help="Set a key of the cluster's configuration. May be repeated.",
    )
    group.addoption(
        _BOOTSTRAP,
        metavar="HOST:PORT,...",
        help="Use the existing cluster at these addresses, and start none.",
    )
    group.addoption(
        _SHARED,
        action="store_true",
        help="All workers of xdist share one cluster. Without it, each worker starts its own.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, and refuses options that contradict each other."""
    config.addinivalue_line(
        "markers",
        "strandline_topic(name, partitions, replication_factor, config): the topic that the fixture"
        " strandline_topic creates",
    )
    if config.getoption(_BOOTSTRAP) is not None:
        for option in (_BROKERS, _CONFIG, _SHARED):
            if config.getoption(option):
                raise pytest.UsageError(
                    f"{option} sets up a new cluster, and {_BOOTSTRAP} names an existing one: give"
                    " one of them"
                )
    if config.getoption(_CONFIG) or config.getoption(_BROKERS) is not None:
        with _as_usage_error():
            _new_cluster(config, None).check()
    config.pluginmanager.register(_Session(config), "strandline-session")


class _Session:
    """The clusters of one pytest process, and the reports about them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shared: LocalCluster | None = None
        self.cluster: Cluster | None = None
        """The cluster of the fixture, once a test has used it."""

    # One cluster for all workers.

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """xdist starts a worker: with --strandline-shared, it gets the address of the cluster."""
        if not self._config.getoption(_SHARED):
            return
        if self._shared is None:
            with _as_usage_error():
                self._shared = _new_cluster(self._config, None)
                self.cluster = self._shared.start()
        assert self.cluster is not None
        node.workerinput[_INPUT] = {
            "bootstrap": self.cluster.bootstrap,
            "logs": {name: str(path) for name, path in self.cluster.story.logs.items()},
        }

    def pytest_unconfigure(self) -> None:
        """Ends the shared cluster."""
        if self._shared is not None:
            self._shared.close()

    # Reports.

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """A new test begins: the report of a failure starts here."""
        from sys import modules

        if self.cluster is not None:
            self.cluster.ledger.clear()
        if "strandline.testing.story" in modules:
            from strandline.testing.story import begin_all

            begin_all()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        """Adds what happened in the cluster to the report of a failed test."""
        report: Any = yield
        if report.failed:
            report.sections.extend(self._sections(item))
        return report

    def _sections(self, item: pytest.Item) -> list[tuple[str, str]]:
        from sys import modules

        if "strandline.testing.story" not in modules:
            return []
        from strandline.testing.story import all_stories

        names: list[str] = getattr(item, "fixturenames", [])
        found = []
        for story in all_stories():
            is_fixtures = self.cluster is not None and story is self.cluster.story
            if is_fixtures and "strandline_cluster" not in names:
                continue
            story.settle()
            lines = story.lines() or ["no election, no change of an ISR, no warning"]
            found.append((f"Strandline cluster at {story.name}, meanwhile", "\n".join(lines)))
        return found


def _new_cluster(config: pytest.Config, directory: Path | None) -> "LocalCluster":
    from strandline.testing import LocalCluster
    from strandline_local.overrides import parse_pairs

    brokers = config.getoption(_BROKERS)
    pairs = parse_pairs(config.getoption(_CONFIG) or [])
    return LocalCluster(3 if brokers is None else brokers, pairs, directory=directory)


@contextmanager
def _as_usage_error() -> Iterator[None]:
    """Errors that say by themselves what to do end the run before the first test."""
    try:
        yield
    except _known_errors() as why:
        raise pytest.UsageError(_words(why)) from None


@contextmanager
def _in_words() -> Iterator[None]:
    """Errors that say by themselves what to do fail the test without a traceback."""
    try:
        yield
    except _known_errors() as why:
        raise pytest.fail.Exception(_words(why), pytrace=False) from None


def _known_errors() -> tuple[type[Exception], ...]:
    from strandline.errors import StrandlineError
    from strandline_local.errors import ClusterError

    return ClusterError, StrandlineError, ImportError


def _words(why: Exception) -> str:
    return str(why).replace("in config", f"in {_CONFIG}")


def _worker(config: pytest.Config) -> str:
    """The name of this xdist worker; `main` without xdist."""
    return os.environ.get("PYTEST_XDIST_WORKER", "main")


# The fixtures.


@pytest.fixture(scope="session")
def strandline_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[Cluster]":
    """A running cluster: `bootstrap`, `kill`, `leader_of`, `wait_in_sync`, `records`, `committed`,
    `assert_nothing_lost` and more; `aio` has the same as coroutines.
    """
    config = request.config
    session: Any = config.pluginmanager.getplugin("strandline-session")
    with _in_words():
        bootstrap = config.getoption(_BOOTSTRAP)
        shared = getattr(config, "workerinput", {}).get(_INPUT)
        if bootstrap is not None or shared is not None:
            given = shared or {"bootstrap": bootstrap, "logs": {}}
            cluster: Cluster = _external(given, _SHARED if shared else _BOOTSTRAP)
            owner = None
        else:
            owner = _new_cluster(config, tmp_path_factory.mktemp("strandline") / "cluster")
            cluster = owner.start()
    session.cluster = cluster
    try:
        yield cluster
    finally:
        session.cluster = None
        cluster.close()
        if owner is not None:
            owner.close()


def _external(given: dict[str, Any], said_by: str) -> "Cluster":
    from strandline.testing.cluster import ExternalCluster

    logs = {name: Path(path) for name, path in given["logs"].items()}
    cluster = ExternalCluster(given["bootstrap"], logs)
    cluster.check_answers(said_by=f"{said_by} {given['bootstrap']}".strip())
    cluster.story.start()
    return cluster


@pytest.fixture(scope="session")
def _strandline_topics(
    strandline_cluster: "Cluster", request: pytest.FixtureRequest
) -> "Iterator[TopicPool]":
    """The stock of topics of this worker."""
    from strandline.testing.cluster import RunningCluster
    from strandline.testing.topics import TopicPool

    run = f"{random.SystemRandom().getrandbits(32):08x}"
    admin = strandline_cluster.admin

    def create(names: Any) -> None:
        admin.create_topics(names)
        strandline_cluster.wait_known(names)

    prefix = f"test-{_worker(request.config)}-{run}"
    pool = TopicPool(create, admin.delete_topics, prefix=prefix)
    pool.start()
    strandline_cluster.story.is_hidden = pool.has_spare
    yield pool
    pool.close()
    if pool.left and not isinstance(strandline_cluster, RunningCluster):
        admin.delete_topics(pool.left)  # the cluster outlives this run


@pytest.fixture
def strandline_topic(
    strandline_cluster: "Cluster", request: pytest.FixtureRequest
) -> "Iterator[str]":
    """The name of a topic of this test alone. The marker `strandline_topic` sets its options."""
    marker = request.node.get_closest_marker(_MARKER)
    if marker is None:
        pool: TopicPool = request.getfixturevalue("_strandline_topics")
        with _in_words():
            name = pool.take()
        yield name
        pool.give_back(name)
        return
    with _in_words():
        name = _create_marked(strandline_cluster, marker, _worker(request.config))
    yield name
    with _in_words():
        strandline_cluster.admin.delete_topics([name])


def _create_marked(cluster: "Cluster", marker: pytest.Mark, worker: str) -> str:
    from strandline_proto.errors import TopicAlreadyExists

    options = _marker_options(marker)
    generated = f"test-{worker}-{random.SystemRandom().getrandbits(48):012x}"
    name = str(options.pop("name", generated))
    try:
        return cluster.create_topic(name, **options)
    except TopicAlreadyExists:
        raise pytest.fail.Exception(
            f"topic {name!r} exists at {cluster.bootstrap}: another test, perhaps of another"
            " xdist worker, uses the same name. Leave out name= for a unique one, or leave out"
            f" {_SHARED} so that each worker has its own cluster",
            pytrace=False,
        ) from None


def _marker_options(marker: pytest.Mark) -> dict[str, Any]:
    """The marker's options. Fails for one that it does not have."""
    from difflib import get_close_matches

    if marker.args:
        pytest.fail("the marker strandline_topic takes options by name only", pytrace=False)
    for option in marker.kwargs:
        if option not in _MARKER_OPTIONS:
            near = get_close_matches(option, _MARKER_OPTIONS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            known = ", ".join(_MARKER_OPTIONS)
            pytest.fail(
                f"the marker strandline_topic has no option {option!r}, it has {known}{hint}",
                pytrace=False,
            )
    return dict(marker.kwargs)


@pytest.fixture
def strandline_producer(strandline_cluster: "Cluster") -> "ProducerFactory":
    """Makes producers: `with strandline_producer() as producer`, or `async with`.

    `strandline_cluster.assert_nothing_lost()` checks what they were acknowledged.
    """
    return strandline_cluster.producer


@pytest.fixture
def strandline_consumer(strandline_cluster: "Cluster") -> "ConsumerFactory":
    """Makes consumers: `with strandline_consumer(topic) as consumer`, or `async with`. They begin
    with the first record.
    """
    return strandline_cluster.consumer


@pytest.fixture
def strandline_chaos(
    strandline_cluster: "Cluster", request: pytest.FixtureRequest
) -> "Iterator[Chaos]":
    """Breaks the cluster: `kill(2)`, `kill(leader_of=topic)`, `pause`, `cut_off`, `restart`. The
    cluster is healed at the end of the test.
    """
    from strandline.testing.chaos import Chaos

    pool: TopicPool = request.getfixturevalue("_strandline_topics")
    with _in_words():
        chaos = Chaos(strandline_cluster, strandline_cluster.story.note)
    pool.hold(True)
    try:
        yield chaos
    finally:
        with _in_words():
            chaos.heal()
        pool.hold(False)
