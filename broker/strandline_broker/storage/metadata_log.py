"""The controller's store: one of our own logs in `__cluster_metadata-0` (REPLICATION.md 3.0, P-84).

One record batch is one atomic decision, and it is durable before `append` returns. So at most the
last batch can be torn after a crash, and a bad batch with a sound one behind it is damage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.storage.damage import METADATA_REMEDY
from strandline_broker.storage.directory import DirectoryError
from strandline_broker.storage.log import INT64_MAX, LogConfig
from strandline_proto.batch import build_batch, crc_matches, iter_headers, read_header, read_records
from strandline_proto.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strandline_broker.storage.damage import Report
    from strandline_broker.storage.directory import DataDirectory
    from strandline_broker.storage.log import Log
    from strandline_runtime.runtime import FileSystem

TOPIC: Final = "__cluster_metadata"
TOPIC_ID: Final = bytes(15) + b"\x01"
"""The id Kafka reserves for its metadata topic."""
CONFIG: Final = LogConfig(segment_ms=INT64_MAX)
READ_BYTES: Final = 1 << 20


class MetadataLog:
    __slots__ = ("_failed", "_log")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._failed = False

    @classmethod
    def open(cls, fs: FileSystem, directory: DataDirectory, report: Report) -> MetadataLog:
        """Load the log or begin it. DamagedLog or DirectoryError if what was decided before is not
        all there.
        """
        path = f"{directory.path}/{TOPIC}-0"
        for found in directory.partitions():
            if found.topic == TOPIC and found.partition == 0:
                return cls(directory.load_log(found, CONFIG, report, one_batch_at_a_time=True))
        try:
            return cls(directory.create_log(TOPIC, TOPIC_ID, 0, CONFIG))
        except KafkaStorageError as error:
            raise DirectoryError(
                f"{path} is gone, but the controller has kept its decisions there; put the "
                f"directory back from a copy"
            ) from error

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    def batches(self) -> Iterator[tuple[int, int, list[bytes]]]:
        """(base offset, last offset, record values) of each decision, oldest first."""
        log = self._log
        position = log.log_start_offset
        while position < log.log_end_offset:
            run = log.read(position, max_bytes=READ_BYTES, limit=log.log_end_offset)
            for at, header in iter_headers(run.records):
                if not crc_matches(run.records, at, header):
                    raise KafkaStorageError(
                        f"the decision at offset {header.base_offset} does not match its CRC-32C; "
                        f"{METADATA_REMEDY}"
                    )
                values = [record.value or b"" for record in read_records(run.records, at, header)]
                yield header.base_offset, header.last_offset, values
            position = run.next_offset

    def append(
        self, values: Sequence[bytes], *, controller_epoch: int, now_ms: int
    ) -> tuple[int, int]:
        """(base, last offset) of a decision that is durable. Any error is final: what is on disk is
        unknown (P-24).
        """
        assert values, "a decision has at least one record"
        assert not self._failed, "the metadata log failed before; the process must have ended"
        self._failed = True
        batch = build_batch(((None, value) for value in values), timestamp_ms=now_ms)
        appended = self._log.append_as_leader(
            batch, read_header(batch), leader_epoch=controller_epoch
        )
        ticket = self._log.flush_snapshot()
        ticket.run()
        self._log.flushed(ticket)
        self._failed = False
        return appended.base_offset, appended.next_offset - 1

    def close(self) -> None:
        self._log.close()
