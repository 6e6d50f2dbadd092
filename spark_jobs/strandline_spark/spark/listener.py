"""The listeners in Spark's driver: the lag of a query after each micro-batch, and its progress."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.sql.streaming.listener import StreamingQueryListener

from strandline_spark.source.lag import Lag, Spread, offsets_behind, reported, seconds_behind
from strandline_spark.source.option_values import servers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

    from strandline_spark.cluster.offsets import Offsets, StreamOffset

_logger: Final = logging.getLogger(__name__)


class Watcher(Protocol):
    """Takes what Spark reports of a job."""

    def lag(self, lag: Lag, /) -> None: ...
    def progress(self, progress: StreamingQueryProgress, /) -> None: ...
    def idle(self) -> None: ...


def listen(
    spark: SparkSession, bootstrap: str, note: Callable[[str], None], watcher: Watcher | None
) -> None:
    """Notes the lag of the session's queries after each micro-batch, and passes all that Spark
    reports to the watcher.
    """

    def on_lag(lag: Lag) -> None:
        note(str(lag))
        if watcher is not None:
            watcher.lag(lag)

    spark.streams.addListener(LagListener(bootstrap, on_lag))
    if watcher is not None:
        spark.streams.addListener(ProgressListener(watcher))


class ProgressListener(StreamingQueryListener):
    """Passes Spark's reports to a watcher."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._watcher.idle()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._watcher.progress(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self._watcher.idle()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Does nothing: the last report stays."""


class LagListener(StreamingQueryListener):
    """Logs a `Lag` of each micro-batch of every query that reads the cluster, at INFO, or passes it
    to `on_lag`. Use: `spark.streams.addListener(LagListener("127.0.0.1:9092"))`.

    Spark calls it on its own thread, so no micro-batch waits for it. Raises OptionError if
    `bootstrap` names no brokers.
    """

    def __init__(self, bootstrap: str, on_lag: Callable[[Lag], None] | None = None) -> None:
        self._bootstrap = servers_of(bootstrap)
        self._on_lag = on_lag

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Does nothing: there is no progress yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        for source in progress.sources:
            known = reported(source.endOffset, source.latestOffset)
            if known is None:
                continue
            lag = self._lag(progress.name or str(progress.id), progress.batchId, *known)
            if lag is None:
                continue
            if self._on_lag is None:
                _logger.info("%s", lag)
            else:
                self._on_lag(lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Does nothing: the last report still holds."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Does nothing: there is no more progress."""

    def _lag(self, query: str, batch_id: int, ended: StreamOffset, latest: Offsets) -> Lag | None:
        offsets = Spread.of(offsets_behind(ended.ends, latest).values())
        if offsets is None:
            return None
        seconds = seconds_behind(self._bootstrap, ended, latest, time.time())
        topics = tuple(sorted({tp.topic for tp in latest}))
        return Lag(query, batch_id, topics, offsets, seconds)
