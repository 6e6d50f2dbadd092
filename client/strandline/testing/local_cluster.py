"""`LocalCluster`: a controller and brokers that live as long as a block of a test."""

import asyncio
import fcntl
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from strandline.testing.aio import AsyncCluster, on_thread
from strandline.testing.cluster import RunningCluster
from strandline_local.cluster_files import ClusterFile, check_count
from strandline_local.errors import ClusterError, UsageMistake, remedy_of
from strandline_local.local_cluster import READY_S
from strandline_local.overrides import DECIDED_BY_UP, check_overrides, split_overrides
from strandline_local.ownership import Owner
from strandline_local.separable import SeparableCluster

DESCRIPTORS_MIN: Final = 256
"""Least limit on open files of each server: its logs, its listeners and the connections of a test.

A broker of a small test has about 100 open.
"""


class LocalCluster:
    """A cluster of real processes: `with` gives a `RunningCluster`, `async with` an
    `AsyncCluster`. The processes end with the block, and with the program even under SIGKILL.
    """

    def __init__(
        self,
        brokers: int = 3,
        config: Mapping[str, object] | None = None,
        *,
        directory: Path | str | None = None,
        ready_s: float = READY_S,
    ) -> None:
        """`config` has Kafka's keys for the brokers and the controller. Without a `directory`, the
        files lie in a temporary one, which is removed at the end.
        """
        self._brokers = brokers
        self._config = dict(config or {})
        self._directory = None if directory is None else Path(directory)
        self._ready_s = ready_s
        self._temporary: Path | None = None
        self._lock: int | None = None
        self._owner: Owner | None = None
        self._cluster: RunningCluster | None = None
        self.ready_after_s: float | None = None
        """Seconds from the start until every broker answered; None before."""

    def check(self) -> None:
        """Raises ClusterError for settings that no server would accept."""
        controller_config, broker_config = split_overrides(_pairs(self._config))
        planned = ClusterFile(
            controller_port=1,
            broker_ports=dict.fromkeys(range(1, self._brokers + 1), 1),
            controller_config=controller_config,
            broker_config=broker_config,
        )
        check_count(self._brokers)
        check_overrides(planned, said_by="config")

    def start(self) -> RunningCluster:
        """Starts the cluster, and waits until every broker knows of every other."""
        if self._cluster is not None:
            raise ClusterError("this cluster runs already: make another LocalCluster")
        began = time.monotonic()
        self.check()
        check_descriptors()
        controller_config, broker_config = split_overrides(_pairs(self._config))
        try:
            self._owner = Owner()
            directory = self._place()
            self._lock = _lock(directory)
            processes = SeparableCluster.create(
                directory,
                brokers=self._brokers,
                port=0,
                controller_config=controller_config,
                broker_config=broker_config,
                owner=self._owner,
            )
            processes.up(wait_s=self._ready_s)
            self._cluster = RunningCluster(processes)
            self._cluster.story.start()
        except OSError as why:
            self.close()
            raise ClusterError(
                f"the cluster cannot be started: {why.strerror or why}: {remedy_of(why)}"
            ) from why
        except BaseException:
            self.close()
            raise
        self.ready_after_s = time.monotonic() - began
        return self._cluster

    def close(self) -> None:
        """Kills every process, and removes a temporary directory."""
        try:
            if self._cluster is not None:
                self._cluster.close()
        finally:
            self._cluster = None
            if self._owner is not None:
                self._owner.close()
                self._owner = None
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)
                self._temporary = None

    def _place(self) -> Path:
        if self._directory is not None:
            return self._directory
        self._temporary = Path(tempfile.mkdtemp(prefix="strandline-"))
        return self._temporary

    def __enter__(self) -> RunningCluster:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> AsyncCluster:
        try:
            return (await on_thread(self.start)).aio
        except asyncio.CancelledError:  # a cancelled start leaves no process behind
            await on_thread(self.close)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await on_thread(self.close)


def _lock(directory: Path) -> int:
    """A descriptor that holds the directory. Raises ClusterError if another cluster holds it."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / ".owner", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ClusterError(
            f"another LocalCluster runs in {directory}: give each its own directory, or none for a"
            " temporary one; xdist workers share one cluster with --strandline-shared"
        ) from None
    return descriptor


def _pairs(config: Mapping[str, object]) -> list[str]:
    """The settings as `key=value`. Raises UsageMistake for what a test's cluster decides."""
    for key in config:
        if key in DECIDED_BY_UP:
            raise UsageMistake(
                f"config sets {key}, which LocalCluster itself decides: leave it out"
            )
    return [f"{key}={_text(value)}" for key, value in config.items()]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_descriptors(limit: int | None = None) -> None:
    """Raises ClusterError if servers could not open the files that they need."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if limit is None else limit
    if allowed != resource.RLIM_INFINITY and allowed < DESCRIPTORS_MIN:
        raise ClusterError(
            f"a server may open {allowed} files here, and needs {DESCRIPTORS_MIN}: raise the hard"
            " limit on open files (ulimit -Hn, or LimitNOFILE of the service that runs the tests)"
        )
