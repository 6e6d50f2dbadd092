"""The options of the source, named like those of Spark's Kafka source, and checked at `load()`. An
unlisted option is refused.

Spark passes options with lower-cased names; messages use the documented names. Every name may have
Kafka's prefix (`kafka.bootstrap.servers`), and some have another one in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_spark.cluster.offsets import EARLIEST, LATEST, StreamOffset
from strandline_spark.errors import OptionError
from strandline_spark.source.option_names import OptionNames
from strandline_spark.source.option_values import (
    OFFSET_RETRIES,
    OFFSET_RETRY_MS,
    POLL_TIMEOUT_MS,
    TRIGGER_DELAY_SECONDS,
    assigned_of,
    columns_of,
    count,
    delay,
    group_of,
    no_offset_of,
    on_loss_of,
    optional_path,
    pattern_of,
    position_of,
    positive,
    reads_committed,
    seconds_of_ms,
    servers_of,
    times_of,
    topics_of,
    unpacked_of,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.source.losses import OnLoss
    from strandline_spark.source.option_values import NoOffset, Position, Times

KNOWN: Final = (
    "bootstrap.servers",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "isolation.level",
    "group.id",
    "groupIdPrefix",
    "maxDecompressedBytes",
    "failOnDataLoss",
    "includeHeaders",
    "includeBatchMeta",
    "columns",
    "initialOffsetsPath",
)
_BINARY: Final = "keys and values are binary columns: cast or decode them after load()"
NAMES: Final = OptionNames(
    owner="source",
    known=KNOWN,
    prefixes=("kafka.", "kafkaconsumer."),
    cannot_work={
        "key.deserializer": _BINARY,
        "value.deserializer": _BINARY,
        "auto.offset.reset": "a query starts at startingOffsets, and its checkpoint says where it"
        " goes on",
        "enable.auto.commit": "offsets live in Spark's checkpoint, and no group is read",
        "interceptor.classes": "no consumer of Kafka's reads here: transform the rows after load()",
        "client.rack": "followers do not serve consumers yet: leave it out, leaders are read",
    },
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    bootstrap: tuple[str, ...]
    topics: tuple[str, ...]
    """Topics that are subscribed whole; empty if partitions are assigned."""
    pattern: re.Pattern[str] | None
    """A pattern that matches the whole names of the topics, of later ones too."""
    assigned: tuple[TopicPartition, ...]
    starting: Position | None
    ending: Position | None
    starting_times: Times | None
    ending_times: Times | None
    no_offset: NoOffset
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_seconds: float | None
    min_partitions: int | None
    max_records_per_partition: int | None
    poll_timeout_seconds: float
    offset_retries: int
    offset_retry_seconds: float
    max_decompressed_bytes: int
    on_loss: OnLoss
    columns: tuple[str, ...]
    group_id: str | None
    initial_offsets_path: str | None
    read_committed: bool

    @property
    def topic_names(self) -> tuple[str, ...]:
        return self.topics or tuple(sorted({tp.topic for tp in self.assigned}))

    @property
    def trigger_delay_seconds(self) -> float:
        given = self.max_trigger_delay_seconds
        return TRIGGER_DELAY_SECONDS if given is None else given


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Returns the checked options. Raises OptionError, which names the option, its value and the
    accepted values.
    """
    given = NAMES.given(options)
    bootstrap = servers_of(given.get("bootstrap.servers"))
    if sum(name in given for name in ("subscribe", "subscribePattern", "assign")) != 1:
        raise OptionError(
            "give exactly one of the options subscribe (topics, comma separated), subscribePattern"
            ' (a regular expression) and assign (partitions, as {"topic": [0, 1]})'
        )
    at_least = positive("minOffsetsPerTrigger", given.get("minOffsetsPerTrigger"))
    at_most = positive("maxOffsetsPerTrigger", given.get("maxOffsetsPerTrigger"))
    if at_least is not None and at_most is not None and at_least > at_most:
        raise OptionError(
            f"minOffsetsPerTrigger {at_least} is above maxOffsetsPerTrigger {at_most}: a batch"
            " cannot have both"
        )
    return SourceOptions(
        bootstrap=bootstrap,
        topics=topics_of(given["subscribe"]) if "subscribe" in given else (),
        pattern=pattern_of(given.get("subscribePattern")),
        assigned=assigned_of(given["assign"]) if "assign" in given else (),
        starting=position_of("startingOffsets", given.get("startingOffsets")),
        ending=position_of("endingOffsets", given.get("endingOffsets")),
        starting_times=times_of(given, "starting"),
        ending_times=times_of(given, "ending"),
        no_offset=no_offset_of(given),
        max_offsets_per_trigger=at_most,
        min_offsets_per_trigger=at_least,
        max_trigger_delay_seconds=delay(given.get("maxTriggerDelay")),
        min_partitions=positive("minPartitions", given.get("minPartitions")),
        max_records_per_partition=positive(
            "maxRecordsPerPartition", given.get("maxRecordsPerPartition")
        ),
        poll_timeout_seconds=seconds_of_ms(given, "pollTimeoutMs", POLL_TIMEOUT_MS),
        offset_retries=count(given, "fetchOffset.numRetries", OFFSET_RETRIES),
        offset_retry_seconds=seconds_of_ms(given, "fetchOffset.retryIntervalMs", OFFSET_RETRY_MS),
        max_decompressed_bytes=unpacked_of(given.get("maxDecompressedBytes")),
        on_loss=on_loss_of(given.get("failOnDataLoss")),
        columns=columns_of(given),
        group_id=group_of(given),
        initial_offsets_path=optional_path(given.get("initialOffsetsPath")),
        read_committed=reads_committed(given.get("isolation.level")),
    )


def check_for_batch(options: SourceOptions) -> None:
    """Refuses options that only a stream supports."""
    if options.starting == "latest" and options.starting_times is None:
        raise OptionError(
            "startingOffsets=latest reads nothing in a batch query; use earliest or offsets"
        )
    for name, value in (
        ("maxOffsetsPerTrigger", options.max_offsets_per_trigger),
        ("minOffsetsPerTrigger", options.min_offsets_per_trigger),
        ("maxTriggerDelay", options.max_trigger_delay_seconds),
        ("initialOffsetsPath", options.initial_offsets_path),
        ("group.id (or groupIdPrefix)", options.group_id),
    ):
        if value is not None:
            raise OptionError(
                f"{name} is for streams (readStream); a batch query reads its range once"
            )
    if options.ending == "earliest":
        raise OptionError(
            "endingOffsets=earliest ends before the first record; use latest or offsets"
        )
    if isinstance(options.starting, StreamOffset) and LATEST in options.starting.ends.values():
        raise OptionError("startingOffsets holds -1 (latest), which reads nothing in a batch query")
    if isinstance(options.ending, StreamOffset) and EARLIEST in options.ending.ends.values():
        raise OptionError("endingOffsets holds -2 (earliest), which ends before the first record")


def check_for_stream(options: SourceOptions) -> None:
    """Refuses options that only a batch query supports."""
    if options.ending is not None or options.ending_times is not None:
        raise OptionError(
            "endingOffsets, endingTimestamp and endingOffsetsByTimestamp are for batch queries"
            " (read); a stream has no end"
        )
