"""The options of the source: a few names, checked when `load()` is called. Whatever is not listed
is refused.

Spark hands options over with lower-cased names; messages use the names as they are documented.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_proto.decompression import DECOMPRESSED_BYTES_LIMIT, DECOMPRESSED_BYTES_MAX
from strandline_spark.errors import OptionError
from strandline_spark.offsets import Offsets, TopicPartition, from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

LATEST: Final = -1
EARLIEST: Final = -2
"""What ListOffsets, and offsets in options, mean by these numbers."""

KNOWN: Final = (
    "bootstrap.servers",
    "subscribe",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "maxDecompressedBytes",
    "failOnDataLoss",
    "includeHeaders",
    "initialOffsetsPath",
)
_BY_LOWER_NAME: Final = {name.lower(): name for name in KNOWN}

Position = str | Offsets
"""`earliest`, `latest`, or an offset (or -1, -2) for each partition."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    bootstrap: tuple[str, ...]
    topics: tuple[str, ...]
    """Topics subscribed whole; empty if partitions are assigned."""
    assigned: tuple[TopicPartition, ...]
    starting: Position | None
    ending: Position | None
    max_offsets_per_trigger: int | None
    max_decompressed_bytes: int
    fail_on_data_loss: bool
    include_headers: bool
    initial_offsets_path: str | None

    @property
    def topic_names(self) -> tuple[str, ...]:
        return self.topics or tuple(sorted({tp.topic for tp in self.assigned}))


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Checked options. Raises OptionError naming the option, its value and what is accepted."""
    given: dict[str, str] = {}
    for name, value in options.items():
        known = _BY_LOWER_NAME.get(name.lower())
        if known is None:
            raise OptionError(_unknown(name))
        given[known] = value
    bootstrap = _servers(given.get("bootstrap.servers"))
    if ("subscribe" in given) == ("assign" in given):
        raise OptionError(
            "give exactly one of the options subscribe (topics, comma separated) and assign"
            ' (partitions, as {"topic": [0, 1]})'
        )
    return SourceOptions(
        bootstrap=bootstrap,
        topics=_topics(given["subscribe"]) if "subscribe" in given else (),
        assigned=_assigned(given["assign"]) if "assign" in given else (),
        starting=_position("startingOffsets", given.get("startingOffsets")),
        ending=_position("endingOffsets", given.get("endingOffsets")),
        max_offsets_per_trigger=_positive(
            "maxOffsetsPerTrigger", given.get("maxOffsetsPerTrigger")
        ),
        max_decompressed_bytes=_unpacked(given.get("maxDecompressedBytes")),
        fail_on_data_loss=_flag("failOnDataLoss", given.get("failOnDataLoss"), default=True),
        include_headers=_flag("includeHeaders", given.get("includeHeaders"), default=False),
        initial_offsets_path=_local_path(given.get("initialOffsetsPath")),
    )


def check_for_batch(options: SourceOptions) -> None:
    """Refuses what only a stream can do."""
    if options.starting == "latest":
        raise OptionError(
            "startingOffsets=latest reads nothing in a batch query; use earliest or offsets"
        )
    for name, value in (
        ("maxOffsetsPerTrigger", options.max_offsets_per_trigger),
        ("initialOffsetsPath", options.initial_offsets_path),
    ):
        if value is not None:
            raise OptionError(
                f"{name} is for streams (readStream); a batch query reads its range once"
            )
    if options.ending == "earliest":
        raise OptionError(
            "endingOffsets=earliest ends before the first record; use latest or offsets"
        )
    if isinstance(options.starting, dict) and LATEST in options.starting.values():
        raise OptionError("startingOffsets holds -1 (latest), which reads nothing in a batch query")
    if isinstance(options.ending, dict) and EARLIEST in options.ending.values():
        raise OptionError("endingOffsets holds -2 (earliest), which ends before the first record")


def check_for_stream(options: SourceOptions) -> None:
    """Refuses what only a batch query can do."""
    if options.ending is not None:
        raise OptionError("endingOffsets is for batch queries (read); a stream has no end")


def _unknown(name: str) -> str:
    plain = name.lower().removeprefix("kafka.")
    close = difflib.get_close_matches(plain, list(_BY_LOWER_NAME), n=1)
    hint = f"; did you mean {_BY_LOWER_NAME[close[0]]}?" if close else ""
    return (
        f"option {name!r} is not supported by the strandline source{hint} Known: {', '.join(KNOWN)}"
    )


def _servers(value: str | None) -> tuple[str, ...]:
    servers = tuple(part.strip() for part in (value or "").split(",") if part.strip())
    if not servers:
        raise OptionError("option bootstrap.servers is required: host:port of one or more brokers")
    for server in servers:
        host, colon, port = server.rpartition(":")
        if not host or not colon or not port.isdigit() or not 0 < int(port) < 65536:
            raise OptionError(f"bootstrap.servers: {server!r} is not host:port")
    return servers


def _topics(value: str) -> tuple[str, ...]:
    topics = tuple(sorted({part.strip() for part in value.split(",") if part.strip()}))
    if not topics:
        raise OptionError("subscribe names no topic; give one or more, comma separated")
    return topics


def _assigned(value: str) -> tuple[TopicPartition, ...]:
    wrong = OptionError(f'assign: {value!r} is not of the form {{"topic": [0, 1]}}')
    try:
        data = json.loads(value)
    except (ValueError, RecursionError) as why:
        raise wrong from why
    if not isinstance(data, dict) or not data:
        raise wrong
    found: set[TopicPartition] = set()
    for topic, partitions in data.items():
        if not isinstance(partitions, list) or not partitions:
            raise wrong
        for partition in partitions:
            if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
                raise wrong
            found.add(TopicPartition(topic, partition))
    return tuple(sorted(found))


def _position(name: str, value: str | None) -> Position | None:
    if value is None:
        return None
    word = value.strip().lower()
    if word in ("earliest", "latest"):
        return word
    try:
        offsets = from_json(json.loads(value))
    except (ValueError, RecursionError) as why:
        raise OptionError(
            f"{name}: {value!r} is not earliest, latest, or offsets as"
            f' {{"topic": {{"0": 23, "1": -2}}}} ({why})'
        ) from why
    for tp, offset in offsets.items():
        if offset < EARLIEST:
            raise OptionError(
                f"{name}: {offset} of {tp} is not an offset, -1 (latest) or -2 (earliest)"
            )
    return offsets


def _positive(name: str, value: str | None) -> int | None:
    if value is None:
        return None
    digits = value.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18 or int(digits) < 1:
        raise OptionError(f"{name}: {value!r} is not a whole number above 0")
    return int(digits)


def _unpacked(value: str | None) -> int:
    found = _positive("maxDecompressedBytes", value)
    if found is not None and found > DECOMPRESSED_BYTES_LIMIT:
        raise OptionError(f"maxDecompressedBytes: {found} is above {DECOMPRESSED_BYTES_LIMIT}")
    return DECOMPRESSED_BYTES_MAX if found is None else found


def _flag(name: str, value: str | None, *, default: bool) -> bool:
    if value is None:
        return default
    word = value.strip().lower()
    if word not in ("true", "false"):
        raise OptionError(f"{name}: {value!r} is neither true nor false")
    return word == "true"


def _local_path(value: str | None) -> str | None:
    return None if value is None else local_path("initialOffsetsPath", value)


def local_path(name: str, value: str) -> str:
    """`value` as a path of this machine's file system. Raises OptionError for another scheme."""
    path = (
        value.removeprefix("file://")
        if value.startswith("file:///")
        else value.removeprefix("file:")
    )
    if "://" in path or not path.strip():
        raise OptionError(f"{name}: {value!r} is not a path of a local or mounted file system")
    return path
