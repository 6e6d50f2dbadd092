"""One run of `strandline consume`: records between a start and an end, on standard output."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_cli.errors import CliError
from strandline_cli.records.topic_pattern import matching_topics
from strandline_cli.standard_streams import write_out
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    from strandline import Consumer, ConsumerRecord, TopicPartition
    from strandline.types import IsolationLevel

_POLL_MS: Final = 1000
_METADATA_MAX_AGE_MS: Final = 10_000
"""Someone is watching: partitions that are added shall not be missed for long."""
_RECORDS_MAX: Final = 5000


@dataclass(slots=True, kw_only=True)
class RecordPrinter:
    """Prints the records of topics and partitions."""

    bootstrap: str
    topics: Sequence[tuple[str, int | None]]
    """Topics with a partition each; None stands for all partitions."""
    to_bytes: "Callable[[ConsumerRecord], bytes]"
    pattern: str | None = None
    """A regular expression of topics, in place of `topics`."""
    from_beginning: bool = False
    time_ms: int | None = None
    """The time from which records are printed."""
    offset: int | None = None
    exit_at_end: bool = False
    count: int | None = None
    descriptor: int = 1
    timeout_s: float = 30.0
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX
    isolation_level: "IsolationLevel" = "read_uncommitted"

    async def run(self) -> None:
        from strandline import Consumer

        if self.pattern is not None:
            self.topics = await self._matching(self.pattern)
        async with Consumer(
            *(dict(self.topics) if self._whole else ()),
            bootstrap_servers=self.bootstrap,
            auto_offset_reset="error",
            metadata_max_age_ms=_METADATA_MAX_AGE_MS,
            max_decompressed_bytes=self.max_decompressed_bytes,
            isolation_level=self.isolation_level,
        ) as consumer:
            assigned = await self._assign(consumer)
            ends = await self._start(consumer, assigned)
            left = self.count
            heard_at = time.monotonic()
            while left != 0 and not (self.exit_at_end and await self._all_ended(consumer, ends)):
                most = _RECORDS_MAX if left is None else min(left, _RECORDS_MAX)
                found = await consumer.getmany(timeout_ms=_POLL_MS, max_records=most)
                for partition, records in found.items():
                    heard_at = time.monotonic()
                    end = ends[partition] if self.exit_at_end else None
                    printed = self._write(records, end)
                    left = None if left is None else left - printed
                if self.exit_at_end and time.monotonic() - heard_at > self.timeout_s:
                    raise CliError(
                        f"nothing came for {self.timeout_s:.0f} s although the end is not reached:"
                        " `strandline status` shows whether brokers are missing"
                    )

    @property
    def _whole(self) -> bool:
        """True if partitions that are added meanwhile are printed too."""
        return not self.exit_at_end and all(partition is None for _, partition in self.topics)

    async def _matching(self, pattern: str) -> list[tuple[str, int | None]]:
        """The topics that match now."""
        from strandline import Admin

        async with Admin(self.bootstrap) as admin:
            return [(name, None) for name in await matching_topics(admin, pattern)]

    async def _assign(self, consumer: "Consumer") -> "list[TopicPartition]":
        from strandline import TopicPartition

        assigned = []
        for topic in dict.fromkeys(name for name, _ in self.topics):
            there = sorted(await consumer.partitions_for_topic(topic))
            named = [partition for name, partition in self.topics if name == topic]
            wanted = there if None in named else sorted({p for p in named if p is not None})
            if missing := sorted(set(wanted) - set(there)):
                raise CliError(
                    f"topic {topic!r} has partitions 0 to {len(there) - 1}, not {missing[0]}"
                )
            assigned += [TopicPartition(topic, partition) for partition in wanted]
        if not self._whole:
            await consumer.assign(assigned)
        return assigned

    async def _start(
        self, consumer: "Consumer", assigned: "list[TopicPartition]"
    ) -> "dict[TopicPartition, int]":
        """Seek to where printing starts. Returns where it ends, if it does."""
        ends = await consumer.end_offsets(assigned)
        begins = await consumer.beginning_offsets(assigned)
        at_time = await self._at_time(consumer, assigned)
        for partition in assigned:
            first, end = begins[partition], ends[partition]
            if self.from_beginning:
                start = first
            elif self.time_ms is not None:
                start = at_time.get(partition, end)
            elif self.offset is None:
                start = end
            elif self.offset < 0:
                start = max(first, end + self.offset)
            else:
                start = self.offset
            where = f"{partition.topic}:{partition.partition}"
            if start > end:
                raise CliError(
                    f"offset {start} is past the end of {where}, which is {end}: start at {end} or"
                    " before"
                )
            if start < first:
                raise CliError(
                    f"offset {start} is no longer in {where}, which starts at {first}: start"
                    " there, or use --from-beginning"
                )
            consumer.seek(partition, start)
        return ends

    async def _at_time(
        self, consumer: "Consumer", assigned: "list[TopicPartition]"
    ) -> "dict[TopicPartition, int]":
        """The first offset at or after the time, of each partition that has one."""
        if self.time_ms is None:
            return {}
        found = await consumer.offsets_for_times(dict.fromkeys(assigned, self.time_ms))
        return {partition: at.offset for partition, at in found.items() if at is not None}

    async def _all_ended(self, consumer: "Consumer", ends: "dict[TopicPartition, int]") -> bool:
        """True if every partition is printed to its end; finished ones are paused."""
        open_ended = False
        for partition, end in ends.items():
            if await consumer.position(partition) >= end:
                consumer.pause(partition)
            else:
                open_ended = True
        return not open_ended

    def _write(self, records: "Sequence[ConsumerRecord]", end: int | None) -> int:
        """Print the records below `end` (all of them if it is None). Returns how many."""
        if end is not None and records[-1].offset >= end:
            records = [record for record in records if record.offset < end]
        write_out(self.descriptor, b"".join(map(self.to_bytes, records)))
        return len(records)
