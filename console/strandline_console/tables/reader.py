"""The pipelines of the console: their files, read on a thread again and again, into the recording.

So tables are shown at every instant that is kept, and in a saved selection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from strandline_console.pipelines import Pipeline, Planned
from strandline_runtime.extras import what_is_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_console.recording.recorder import Recorder

EVERY_S: Final = 2.0
"""Time between two reads. A table is read in full for a new version alone."""
READ_S: Final = 20.0
"""Time after which the pages say that the files do not answer. A folder of another machine may
answer late.
"""
MODULES: Final = ("pyarrow", "deltalake", "numpy", "fastavro")
"""The part of the extra `spark` that reads tables. Spark itself is not needed."""


def why_no_tables() -> str | None:
    """One sentence that names what is not installed; None if tables can be read."""
    missing = what_is_missing("spark", of=MODULES)
    return None if missing is None else f"the tables of a pipeline cannot be read: {missing}"


class TablesReader:
    """Reads the pipelines of these files of pipelines."""

    def __init__(
        self, files: Sequence[str], recorder: Recorder, *, every_s: float = EVERY_S
    ) -> None:
        from strandline_console.tables.progress import PipelineFiles

        self._pipelines = {file: PipelineFiles(file) for file in files}
        self._recorder = recorder
        self._every_s = every_s

    async def run(self) -> None:
        """Reads until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for file in self._pipelines:
                tasks.create_task(self._run(file), name=f"read {file}")

    async def _run(self, file: str) -> None:
        while True:
            await self.read(file)
            await asyncio.sleep(self._every_s)

    async def read(self, file: str, *, patience_s: float = READ_S) -> None:
        """Reads one pipeline into the recording, and says so there if its files do not answer."""
        loop = asyncio.get_running_loop()
        sentence = (
            f"the files of the pipeline were not read within {patience_s:g} s: look whether their"
            " disk answers"
        )
        late = loop.call_later(patience_s, self._say_unread, file, sentence)
        try:
            found = await loop.run_in_executor(None, self._pipelines[file].read)
        except Exception as why:  # noqa: BLE001 - the root of a task: the page names it
            self._say_unread(file, f"the files of the pipeline do not read: {why!r}")
            return
        finally:
            late.cancel()
        found.topics = self._with_new_partitions(found)
        self._recorder.live.set("pipelines", file, msgspec.to_builtins(found))

    def _say_unread(self, file: str, sentence: str) -> None:
        known = self._recorder.live.maps["pipelines"].get(file)
        if known is None:
            empty = Pipeline(name=file, folder=file, topics=[], tables=[], batches=[])
            known = msgspec.to_builtins(empty)
        self._recorder.live.set("pipelines", file, {**known, "unread": sentence})

    def _with_new_partitions(self, pipeline: Pipeline) -> list[Planned]:
        """The partitions with those that were added, or of a topic that was not read yet."""
        named = {topic.topic for topic in pipeline.topics}
        known = {(one.topic, one.partition): one for one in pipeline.topics}
        for each in self._recorder.live.maps["partitions"].values():
            if each["topic"] in named:
                place = each["topic"], each["partition"]
                known.setdefault(place, Planned(topic=place[0], partition=place[1], planned=None))
        return [one for _, one in sorted(known.items())]
