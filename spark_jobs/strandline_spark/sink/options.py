"""The options of the sink, named like those of Spark's Kafka sink, and checked before a task
starts.

Every setting of the client may have Kafka's prefix (`kafka.acks`). Settings that the client does
not have, or that would do nothing here, are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from strandline import Producer
from strandline.errors import ConfigurationError
from strandline_spark.errors import OptionError
from strandline_spark.source.option_names import OptionNames
from strandline_spark.source.option_values import count, flag, positive, servers_of

if TYPE_CHECKING:
    from collections.abc import Mapping

BATCH_BYTES: Final = 256 << 10
BUFFER_BYTES: Final = 64 << 20
SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
"""Options that Spark passes to the sink but uses itself."""
NAMES: Final = OptionNames(
    owner="sink",
    known=(
        "bootstrap.servers",
        "topic",
        "deliveryGuarantee",
        "acks",
        "enable.idempotence",
        "compression.type",
        "batch.size",
        "buffer.memory",
        "max.request.size",
        "max.in.flight.requests.per.connection",
        "delivery.timeout.ms",
        "request.timeout.ms",
        "metadata.max.age.ms",
    ),
    prefixes=("kafka.",),
    cannot_work={
        "linger.ms": "a batch goes out when it is full or its task ends, whatever the time, so"
        " that a rerun sends the same batches: leave it out, or set batch.size",
        "key.serializer": "the column key is binary or string: encode it before",
        "value.serializer": "the column value is binary or string: encode it before",
        "transactional.id": "the sink writes without transactions: leave it out",
        "partitioner.class": "give a column partition, or let the key decide",
        "interceptor.classes": "no producer of Kafka's writes here: transform the rows before",
        "retries": "what fails is tried again until delivery.timeout.ms is over: set that",
        "max.block.ms": "delivery.timeout.ms bounds every wait: set that",
        "includeheaders": "a column headers is written if it is there: leave it out",
    },
)


class Guarantee(StrEnum):
    """The effect of a streaming batch that runs again."""

    EXACTLY_ONCE = "exactly-once"
    """A rerun writes nothing twice, if it has the same tasks with the same rows in the same order.
    """
    AT_LEAST_ONCE = "at-least-once"
    """A rerun writes its rows again."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    bootstrap: tuple[str, ...]
    topic: str | None
    """The topic of every row; overrides the row's column."""
    guarantee: Guarantee | None
    acks: str
    enable_idempotence: bool | None
    compression_type: str
    batch_bytes: int
    buffer_memory: int
    max_request_size: int
    max_in_flight: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    metadata_max_age_ms: int

    def producer(self) -> Producer:
        """Returns a producer that is not started. Raises OptionError if options contradict each
        other.
        """
        arguments: dict[str, Any] = {
            "acks": self.acks,
            "enable_idempotence": self.enable_idempotence,
            "compression_type": self.compression_type,
            "batch_size": self.batch_bytes,
            "buffer_memory": self.buffer_memory,
            "max_request_size": self.max_request_size,
            "max_in_flight": self.max_in_flight,
            "delivery_timeout_ms": self.delivery_timeout_ms,
            "request_timeout_ms": self.request_timeout_ms,
            "metadata_max_age_ms": self.metadata_max_age_ms,
        }
        try:
            return Producer(self.bootstrap, **arguments)
        except ConfigurationError as error:
            raise OptionError(f"the client refuses its settings: {error}") from error


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Returns the checked options. Raises OptionError, which names the option, its value and the
    accepted values.
    """
    plain = {name: value for name, value in options.items() if name.lower() not in SPARKS_OWN}
    given = NAMES.given(plain)
    parsed = SinkOptions(
        bootstrap=servers_of(given.get("bootstrap.servers")),
        topic=_topic_of(given.get("topic")),
        guarantee=_guarantee_of(given.get("deliveryGuarantee")),
        acks=given.get("acks", "all").strip().lower(),
        enable_idempotence=flag("enable.idempotence", given["enable.idempotence"], default=True)
        if "enable.idempotence" in given
        else None,
        compression_type=given.get("compression.type", "none").strip().lower(),
        batch_bytes=positive("batch.size", given.get("batch.size")) or BATCH_BYTES,
        buffer_memory=positive("buffer.memory", given.get("buffer.memory")) or BUFFER_BYTES,
        max_request_size=positive("max.request.size", given.get("max.request.size")) or 1 << 20,
        max_in_flight=positive(
            "max.in.flight.requests.per.connection",
            given.get("max.in.flight.requests.per.connection"),
        )
        or 5,
        delivery_timeout_ms=_milliseconds(given, "delivery.timeout.ms", 120_000),
        request_timeout_ms=_milliseconds(given, "request.timeout.ms", 30_000),
        metadata_max_age_ms=_milliseconds(given, "metadata.max.age.ms", 300_000),
    )
    if parsed.batch_bytes > parsed.max_request_size:
        raise OptionError(
            f"batch.size {parsed.batch_bytes} is above max.request.size {parsed.max_request_size}:"
            " no batch of that size would be sent"
        )
    parsed.producer()
    return parsed


def check_append(*, overwrite: bool) -> None:
    """Refuses a batch write that would replace what the topic holds."""
    if overwrite:
        raise OptionError("a log is only appended to: write with mode('append')")


def check_output_mode(options: SinkOptions, *, complete: bool) -> None:
    """Refuses the mode of a stream in which its guarantee cannot hold.

    In complete mode each micro-batch appends all rows of an aggregation, whose order changes from
    run to run. Spark itself refuses update mode: it has no such mode for a Python data source.
    """
    if complete and options.guarantee is not Guarantee.AT_LEAST_ONCE:
        raise OptionError(
            "outputMode('complete') cannot be exactly once: a rerun has the rows of an aggregation"
            " in another order; set deliveryGuarantee=at-least-once, or use outputMode('append')"
        )


def check_for_batch_write(options: SinkOptions) -> None:
    """Refuses options that only a stream supports."""
    if options.guarantee is Guarantee.EXACTLY_ONCE:
        raise OptionError(
            "deliveryGuarantee=exactly-once is for streams (writeStream): a task of a batch write"
            " that is tried again may write its rows twice; leave it out"
        )


def check_for_stream_write(options: SinkOptions) -> None:
    """Refuses options with which a rerun would write twice, unless the user asked for that."""
    if options.guarantee is Guarantee.AT_LEAST_ONCE:
        return
    if options.acks not in ("all", "-1") or options.enable_idempotence is False:
        raise OptionError(
            f"acks={options.acks} with enable.idempotence={options.enable_idempotence} cannot be"
            " exactly once: leave both out, or set deliveryGuarantee=at-least-once"
        )


def _topic_of(value: str | None) -> str | None:
    if value is not None and (not value.strip() or "," in value):
        raise OptionError(f"topic: {value!r} is not the name of one topic")
    return None if value is None else value.strip()


def _guarantee_of(value: str | None) -> Guarantee | None:
    if value is None:
        return None
    word = value.strip().lower()
    if word not in list(Guarantee):
        raise OptionError(f"deliveryGuarantee: {value!r} is neither {' nor '.join(Guarantee)}")
    return Guarantee(word)


def _milliseconds(given: Mapping[str, str], name: str, default: int) -> int:
    number = count(given, name, default)
    if number < 1:
        raise OptionError(f"{name}: {given[name]!r} is not above 0")
    return number
