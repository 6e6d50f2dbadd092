"""Base classes of interceptors: code that sees each record of a producer or consumer.

A tracer, an audit or a counter is such code. An interceptor that raises is logged, and the client
continues as if it had returned what it was given. Interceptors run in the order of the option. They
run where the call runs: they must be fast, and must not block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strandline.group_types import OffsetAndMetadata
    from strandline.types import ConsumerRecord, Record, RecordMetadata, TopicPartition


class ProducerInterceptor:
    """Base class for `Producer(interceptors=[...])`; override what you need."""

    def on_send(self, topic: str, record: Record[Any, Any]) -> Record[Any, Any]:
        """Runs before a record is serialized, and returns the record to send.

        Its headers are a tuple of pairs; the returned ones may be any iterable of them.
        """
        return record

    def on_acknowledgement(
        self, topic: str, error: Exception | None, metadata: RecordMetadata | None
    ) -> None:
        """Runs once the outcome of a record is known; `error` or `metadata` is None.

        The timestamp of a record of `send_many` is -1 unless the leader has set it.
        """


class ConsumerInterceptor:
    """Base class for `Consumer(interceptors=[...])`; override what you need."""

    def on_consume(
        self, records: dict[TopicPartition, list[ConsumerRecord[Any, Any]]]
    ) -> dict[TopicPartition, list[ConsumerRecord[Any, Any]]]:
        """Runs before records are returned to the program, and returns those to return.

        A record that is left out counts as delivered. A step of a blocking iteration passes one
        record.
        """
        return records

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Runs once offsets are committed, by `commit` or by auto-commit."""
