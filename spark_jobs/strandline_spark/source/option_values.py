"""The values of the source's options. Each function converts one text, or raises OptionError, which
names the option, the value and the accepted values.
"""

from __future__ import annotations

import hashlib
import json
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from strandline_proto.decompression import DECOMPRESSED_BYTES_LIMIT, DECOMPRESSED_BYTES_MAX
from strandline_spark.cluster.offsets import (
    INT32_MAX,
    LINEAGE,
    Offsets,
    StreamOffset,
    TopicPartition,
    decimal,
    from_json,
    parse_json,
    stream_from_json,
)
from strandline_spark.errors import OptionError
from strandline_spark.source.local_files import not_of_a_path
from strandline_spark.source.losses import OnLoss
from strandline_spark.source.schema import column_names
from strandline_spark.stores.paths import absolute, has_scheme, is_remote, not_an_address

if TYPE_CHECKING:
    from collections.abc import Mapping

DIGEST_SIZE: Final = 16
TRIGGER_DELAY_SECONDS: Final = 900.0
POLL_TIMEOUT_MS: Final = 120_000
OFFSET_RETRIES: Final = 3
OFFSET_RETRY_MS: Final = 1000
_NOT_PLAIN: Final = re.compile(r"%[0-9A-Fa-f]{2}|[#?]")
SECONDS_MIN: Final = 100_000_000
SECONDS_MAX: Final = 100_000_000_000
"""Limit for a time that was likely given in seconds.

Times up to this value are seconds of the years from 1973 on; as milliseconds they are January to
March 1973.
"""

Position = str | StreamOffset
"""`earliest`, `latest`, or an offset (or -1, -2) for each partition, with its lineage if given."""

Times = int | Offsets
"""Milliseconds, for all partitions or for each."""


class NoOffset(StrEnum):
    """The start of a partition that has no record at or after the start time."""

    ERROR = "error"
    LATEST = "latest"


def reads_committed(value: str | None) -> bool:
    """True if records of open and aborted transactions are left out."""
    word = "read_uncommitted" if value is None else value.strip().lower()
    if word not in ("read_uncommitted", "read_committed"):
        raise OptionError(f"isolation.level: {value!r} is not read_uncommitted or read_committed")
    return word == "read_committed"


def servers_of(value: str | None) -> tuple[str, ...]:
    servers = tuple(part.strip() for part in (value or "").split(",") if part.strip())
    if not servers:
        raise OptionError("option bootstrap.servers is required: host:port of one or more brokers")
    for server in servers:
        host, colon, port = server.rpartition(":")
        if not host or not colon or not 0 < (decimal(port) or 0) < 65536:
            raise OptionError(f"bootstrap.servers: {server!r} is not host:port")
    return servers


def topics_of(value: str) -> tuple[str, ...]:
    topics = tuple(sorted({part.strip() for part in value.split(",") if part.strip()}))
    if not topics:
        raise OptionError("subscribe names no topic; give one or more, comma separated")
    return topics


def pattern_of(value: str | None) -> re.Pattern[str] | None:
    if value is None:
        return None
    if not value.strip():
        raise OptionError(
            f"subscribePattern: {value!r} matches no topic; give a regular expression, '.*' for all"
        )
    try:
        return re.compile(value.strip())
    except (re.error, OverflowError, RecursionError) as why:
        raise OptionError(
            f"subscribePattern: {value!r} is not a regular expression of Python's re ({why})"
        ) from why


def assigned_of(value: str) -> tuple[TopicPartition, ...]:
    wrong = OptionError(f'assign: {value!r} is not of the form {{"topic": [0, 1]}}')
    try:
        data = parse_json(value)
    except ValueError as why:
        raise OptionError(f"{wrong} ({why})") from why
    if not isinstance(data, dict) or not data:
        raise wrong
    found: set[TopicPartition] = set()
    for topic, partitions in data.items():
        if not topic.strip() or not isinstance(partitions, list) or not partitions:
            raise wrong
        for partition in partitions:
            if type(partition) is not int or not 0 <= partition <= INT32_MAX:
                raise wrong
            found.add(TopicPartition(topic, partition))
    return tuple(sorted(found))


def position_of(name: str, value: str | None) -> Position | None:
    if value is None:
        return None
    word = value.strip().lower()
    if word in ("earliest", "latest"):
        return word
    try:
        offset = stream_from_json(parse_json(value))
        if name == "endingOffsets" and offset.topic_ids:
            raise ValueError(f"{LINEAGE} belongs to startingOffsets")
    except ValueError as why:
        raise OptionError(
            f"{name}: {value!r} is not earliest, latest, or offsets as"
            f' {{"topic": {{"0": 23, "1": -2}}}} ({why})'
        ) from why
    return offset


def positive(name: str, value: str | None) -> int | None:
    if value is None:
        return None
    number = decimal(value.strip())
    if number is None or number < 1:
        raise OptionError(f"{name}: {value!r} is not a whole number above 0")
    return number


def count(given: Mapping[str, str], name: str, default: int) -> int:
    value = given.get(name)
    number = default if value is None else decimal(value.strip())
    if number is None or number > INT32_MAX:
        raise OptionError(f"{name}: {value!r} is not a whole number from 0 to {INT32_MAX}")
    return number


def seconds_of_ms(given: Mapping[str, str], name: str, default: int) -> float:
    """Returns the option in seconds; it must be above 0."""
    number = count(given, name, default)
    if number < 1:
        raise OptionError(f"{name}: {given[name]!r} is not above 0")
    return number / 1000


def delay(value: str | None) -> float | None:
    """Returns the seconds of a time as Spark writes it: 15m, 30s, 500ms."""
    if value is None:
        return None
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
    found = re.fullmatch(r"\s*([0-9]{1,12})\s*([a-z]+)\s*", value.lower())
    if found is None or found[2] not in units:
        raise OptionError(
            f"maxTriggerDelay: {value!r} is no time; give a number with ms, s, m, h or d, for"
            " instance 15m"
        )
    return int(found[1]) * units[found[2]]


def times_of(given: Mapping[str, str], side: str) -> Times | None:
    """Returns the times of one side. The global time overrides those of partitions, and both
    override offsets.
    """
    name = f"{side}Timestamp"
    if name in given:
        return time_ms(name, decimal(given[name].strip()), given[name])
    name = f"{side}OffsetsByTimestamp"
    if name not in given:
        return None
    try:
        times = from_json(parse_json(given[name]))
    except ValueError as why:
        raise OptionError(
            f"{name}: {given[name]!r} is not of the form"
            f' {{"topic": {{"0": 1700000000000}}}} ({why})'
        ) from why
    return {tp: time_ms(name, time, f"{time} of {tp}") for tp, time in times.items()}


def time_ms(name: str, time: int | None, said: str) -> int:
    if time is None or time < 0:
        raise OptionError(f"{name}: {said!r} is not a time in milliseconds since 1970")
    if SECONDS_MIN <= time < SECONDS_MAX:
        raise OptionError(
            f"{name}: {said!r} looks like seconds since 1970; give milliseconds, {time * 1000}"
        )
    return time


def no_offset_of(given: Mapping[str, str]) -> NoOffset:
    name = "startingOffsetsByTimestampStrategy"
    word = given.get(name, NoOffset.ERROR).strip().lower()
    if word not in list(NoOffset):
        raise OptionError(f"{name}: {given[name]!r} is neither error nor latest")
    return NoOffset(word)


def unpacked_of(value: str | None) -> int:
    found = positive("maxDecompressedBytes", value)
    if found is not None and found > DECOMPRESSED_BYTES_LIMIT:
        raise OptionError(f"maxDecompressedBytes: {found} is above {DECOMPRESSED_BYTES_LIMIT}")
    return DECOMPRESSED_BYTES_MAX if found is None else found


def on_loss_of(value: str | None) -> OnLoss:
    word = "true" if value is None else value.strip().lower()
    for known in OnLoss:
        if word == known.lower():
            return known
    raise OptionError(f"failOnDataLoss: {value!r} is none of {', '.join(OnLoss)}")


def flag(name: str, value: str | None, *, default: bool) -> bool:
    if value is None:
        return default
    word = value.strip().lower()
    if word not in ("true", "false"):
        raise OptionError(f"{name}: {value!r} is neither true nor false")
    return word == "true"


def columns_of(given: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the columns in their order: all included ones, or the named ones of them."""
    headers = flag("includeHeaders", given.get("includeHeaders"), default=False)
    batch_meta = flag("includeBatchMeta", given.get("includeBatchMeta"), default=False)
    all_of_them = column_names(include_headers=headers, include_batch_meta=batch_meta)
    if "columns" not in given:
        return all_of_them
    wanted = {part.strip().lower() for part in given["columns"].split(",") if part.strip()}
    found = tuple(name for name in all_of_them if name.lower() in wanted)
    unknown = wanted - {name.lower() for name in found}
    if unknown or not found:
        raise OptionError(
            f"columns: {given['columns']!r} must name one or more of {', '.join(all_of_them)}"
            " (headers with includeHeaders, and what producers wrote with includeBatchMeta)"
        )
    return found


def group_of(given: Mapping[str, str]) -> str | None:
    """Returns the group that shows a stream's progress.

    With a prefix the name is made from the prefix and what is read. Spark gives a source nothing
    else by which it could find its own group after a restart.
    """
    for name in ("group.id", "groupIdPrefix"):
        if name in given and not given[name].strip():
            raise OptionError(
                f"{name}: {given[name]!r} is no name of a group; give one, or leave it out"
            )
    if "group.id" in given or "groupIdPrefix" not in given:
        return given.get("group.id")
    read = [
        topics_of(given["subscribe"]) if "subscribe" in given else (),
        given.get("subscribePattern", "").strip(),
        assigned_of(given["assign"]) if "assign" in given else (),
    ]
    digest = hashlib.sha256(json.dumps(read).encode()).hexdigest()
    return f"{given['groupIdPrefix']}-{digest[:DIGEST_SIZE]}"


def optional_path(value: str | None) -> str | None:
    return None if value is None else local_path("initialOffsetsPath", value)


def table_path(name: str, value: str) -> str:
    """Returns `value` as the absolute path of a table: of this machine's file system, or of an
    object store. Raises OptionError.
    """
    if not is_remote(value):
        return absolute(local_path(name, value))
    if (why := not_an_address(value)) is not None:
        raise OptionError(f"{name}: {value!r}: {why}")
    return absolute(value)


def local_path(name: str, value: str) -> str:
    """Returns `value` as a path of this machine's file system.

    Raises OptionError for another scheme, and for a URL with a part that is no path or has an
    escaped character.
    """
    path = (
        value.removeprefix("file://")
        if value.startswith("file:///")
        else value.removeprefix("file:")
    )
    if has_scheme(path) or "://" in path or not path.strip():
        raise OptionError(f"{name}: {value!r} is not a path of a local or mounted file system")
    if (found := not_of_a_path(path)) is not None:
        raise OptionError(f"{name}: {value!r} has {found!r} in it; give a path without it")
    if path != value and _NOT_PLAIN.search(path):
        raise OptionError(f"{name}: {value!r}: give the path itself, without file: and unencoded")
    return path
