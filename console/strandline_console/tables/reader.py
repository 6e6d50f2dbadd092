"""The pipelines of the console: their files, read on a thread at most once in a while for all
pages, beside the watermarks that the leaders report.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_console.answers import Pipeline, Tables, TopicProgress
from strandline_console.recording.figures import leader_replica
from strandline_runtime.extras import what_is_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strandline_console.recording.recorder import Recorder

FRESH_S: Final = 1.5
"""Pages that ask sooner get what was read last."""
READ_S: Final = 20.0
"""Time that pages wait for the files. A folder of another machine may answer late."""
MODULES: Final = ("pyarrow", "deltalake", "numpy", "fastavro")
"""The part of the extra `spark` that reads tables. Spark itself is not needed."""


class TablesUnread(Exception):
    """The files did not answer. The text is one sentence."""


def why_no_tables() -> str | None:
    """One sentence that names what is not installed; None if tables can be read."""
    missing = what_is_missing("spark", of=MODULES)
    return None if missing is None else f"the tables of a pipeline cannot be read: {missing}"


class TablesReader:
    """Reads the pipelines of these files of pipelines."""

    def __init__(
        self, files: Sequence[str], recorder: Recorder, monotonic: Callable[[], float]
    ) -> None:
        from strandline_console.tables.progress import PipelineFiles

        self._pipelines = [PipelineFiles(file) for file in files]
        self._recorder = recorder
        self._monotonic = monotonic
        self._reading: asyncio.Task[list[Pipeline]] | None = None
        self._read_s = -FRESH_S
        self._found: list[Pipeline] = []
        self._at_ms = 0

    async def read(self) -> Tables:
        """The pipelines now. Raises TablesUnread if the files do not answer in time."""
        if self._reading is None and self._monotonic() - self._read_s >= FRESH_S:
            self._reading = asyncio.create_task(self._read(), name="read the tables")
        if self._reading is not None:
            try:
                async with asyncio.timeout(READ_S):
                    await asyncio.shield(self._reading)
            except TimeoutError:
                raise TablesUnread(
                    f"the files of the pipelines were not read within {READ_S:g} s: look whether"
                    " their disk answers"
                ) from None
        pipelines = [self._with_watermarks(one) for one in self._found]
        return Tables(at_ms=self._at_ms, pipelines=pipelines)

    async def _read(self) -> list[Pipeline]:
        try:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(None, lambda: [p.read() for p in self._pipelines])
            self._found, self._at_ms = found, self._recorder.now_ms()
            return found
        finally:
            self._read_s = self._monotonic()
            self._reading = None

    def _with_watermarks(self, pipeline: Pipeline) -> Pipeline:
        named = {topic.topic for topic in pipeline.topics}
        known = {(one.topic, one.partition): one.planned for one in pipeline.topics}
        for each in self._recorder.live.maps["partitions"].values():
            if each["topic"] in named:  # a partition that was added, or of a topic not yet read
                known.setdefault((each["topic"], each["partition"]), None)
        return Pipeline(
            name=pipeline.name,
            folder=pipeline.folder,
            topics=[self._progress(*place, planned) for place, planned in sorted(known.items())],
            tables=pipeline.tables,
            batches=pipeline.batches,
            error=pipeline.error,
        )

    def _progress(self, topic: str, partition: int, planned: int | None) -> TopicProgress:
        leader = leader_replica(self._recorder.live.maps, topic, partition)
        end = None if leader is None else leader["high_watermark"]
        return TopicProgress(
            topic=topic,
            partition=partition,
            planned=planned,
            high_watermark=end,
            lag=None if planned is None or end is None else max(0, end - planned),
        )
