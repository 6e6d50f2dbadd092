"""Kafka's text checkpoints and the small files of a data directory, parsed strictly: a version
line, the number of entries, one line for each.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from crc32c import crc32c

from strandline_broker.offline.disk import read_small

if TYPE_CHECKING:
    from strandline_broker.offline.disk import Disk

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
OFFSET_CHECKPOINTS: Final = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS)
MARKER: Final = ".kafka_cleanshutdown"
META: Final = "meta.properties"
STATE: Final = "strandline-state"
PARTITION_METADATA: Final = "partition.metadata"

SEAL: Final = ".seal"
"""Suffix of the file that lists the valid contents of a file in Kafka's form."""

INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class EpochStart:
    epoch: int
    start_offset: int


def number(text: str) -> int:
    """A plain decimal number of at most 63 bits; ValueError for anything else."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a number")
    value = int(text)
    if value > INT64_MAX:
        raise ValueError(f"{text} is too large")
    return value


def lines_of(disk: Disk, path: str) -> list[list[str]]:
    """The entries of one of our files, each split into words. Raises ValueError if it does not
    parse.
    """
    data = read_small(disk, path)
    head, _, rest = data.partition(b"\n")
    if head == b"1 %08x" % crc32c(rest):
        data = b"0\n" + rest  # earlier versions wrote Kafka's form
    return _split(data)


def _sealed_lines(disk: Disk, path: str) -> list[list[str]]:
    """The entries of a file in Kafka's form. Raises ValueError if it does not parse or does not
    match its seal.
    """
    return _split(_sealed(disk, path))


def _sealed(disk: Disk, path: str) -> bytes:
    """The content of a sealed file. Raises ValueError if it does not match its seal."""
    data = read_small(disk, path)
    try:
        named = seal_of(disk, path + SEAL) if disk.exists(path + SEAL) else None
    except ValueError:
        named = None  # `damage_of_seal` reports this
    if named is not None and crc32c(data) not in named:
        raise ValueError(f"its checksum {crc32c(data):08x} is none of those in its seal")
    return data


def seal_of(disk: Disk, path: str) -> list[int]:
    """The CRC-32C of each content that a seal lists. Raises ValueError if it does not parse."""
    head, _, body = read_small(disk, path).partition(b"\n")
    if head != b"seal 1 %08x" % crc32c(body):
        raise ValueError("its first line does not match the rest")
    return [int(word, 16) for word in body.split()]


def damage_of_seal(disk: Disk, path: str) -> str | None:
    """The fault in the seal of the file at `path`, if there is a seal with a fault."""
    try:
        if disk.exists(path + SEAL):
            seal_of(disk, path + SEAL)
    except ValueError as error:
        return f"it does not read ({error}); the file is believed without it"
    return None


def _split(data: bytes) -> list[list[str]]:
    lines = data.decode("utf-8").splitlines()
    if len(lines) < 2:
        raise ValueError(f"{len(lines)} lines are too few")
    if number(lines[0]) != 0:
        raise ValueError(f"version {lines[0]} is not known")
    if number(lines[1]) != len(lines) - 2:
        raise ValueError(f"{lines[1]} entries are announced, {len(lines) - 2} are there")
    return [line.split(" ") for line in lines[2:]]


def offsets_of(disk: Disk, path: str) -> dict[tuple[str, int], int]:
    """(topic, partition) -> offset, from one of the four offset checkpoints."""
    offsets: dict[tuple[str, int], int] = {}
    for words in _sealed_lines(disk, path):
        if len(words) != 3:
            raise ValueError(f"{' '.join(words)!r} is not `topic partition offset`")
        offsets[words[0], number(words[1])] = number(words[2])
    return offsets


def epochs_of(disk: Disk, path: str) -> list[EpochStart]:
    """The entries of a leader-epoch-checkpoint. Raises ValueError if they do not rise."""
    entries = []
    for words in _sealed_lines(disk, path):
        if len(words) != 2:
            raise ValueError(f"{' '.join(words)!r} is not `epoch start-offset`")
        entries.append(EpochStart(number(words[0]), number(words[1])))
    for one, next_one in pairwise(entries):
        if one.epoch >= next_one.epoch or one.start_offset >= next_one.start_offset:
            raise ValueError(
                f"`{next_one.epoch} {next_one.start_offset}` does not rise above "
                f"`{one.epoch} {one.start_offset}`"
            )
    return entries


@dataclass(frozen=True, slots=True)
class KnownDamage:
    """A line of `damaged-ranges`: offsets that a broker does not serve."""

    start_offset: int
    end_offset: int
    segment: int
    position: int
    why: str


def damage_of(disk: Disk, path: str) -> list[KnownDamage]:
    """The lines of `damaged-ranges`. Raises ValueError if the file does not parse."""
    found = []
    for words in lines_of(disk, path):
        if len(words) < 5:
            raise ValueError(f"{' '.join(words)!r} is no damaged range")
        start, end, segment, position = map(number, words[:4])
        found.append(KnownDamage(start, end, segment, position, " ".join(words[5:])))
    return found


def limit_of(disk: Disk, path: str) -> tuple[int | None, frozenset[str]]:
    """The offset of a checkpoint-limit file, and the checkpoints to which it applies. If it does
    not parse: None and all checkpoints.
    """
    every = frozenset(OFFSET_CHECKPOINTS)
    try:
        ((offset, *names),) = lines_of(disk, path)
        return number(offset), every.intersection(names) or every
    except ValueError:
        return None, every


def topic_id_of(disk: Disk, path: str) -> str:
    """The topic id in a partition.metadata, as text. Raises ValueError if it does not parse or does
    not match its seal.
    """
    fields = {}
    for line in _sealed(disk, path).decode("utf-8").splitlines():
        name, separator, value = line.partition(": ")
        if separator:
            fields[name] = value.strip()
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("it has no version 0 and topic_id")
    text = fields["topic_id"]
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is no topic id") from error
    if len(raw) != 16 or not text.isascii():
        raise ValueError(f"{text!r} is no topic id")
    return text


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def was_clean(disk: Disk, path: str) -> bool:
    """True if the marker of a clean shutdown is there. Raises ValueError if it does not parse."""
    if not disk.exists(path):
        return False
    marker = _json(read_small(disk, path))
    if not isinstance(marker, dict) or marker.get("version") != 0:
        raise ValueError("version 0 is expected")
    if type(marker.get("brokerEpoch")) is not int or marker["brokerEpoch"] < -1:
        raise ValueError("a broker epoch is expected")
    return True


def flushed_always(disk: Disk, path: str) -> tuple[bool, bool]:
    """(True if strandline-state says that every append was flushed, True if its last line is
    unfinished). Raises ValueError if it does not parse.
    """
    if not disk.exists(path):
        return False, False
    head, _, rest = read_small(disk, path).partition(b"\n")
    if head == b"strandline-state 1 %08x" % crc32c(rest):
        return _policy(rest) == "always", False
    body, *lines = rest.split(b"\n")
    if head != b"strandline-state 2 %08x" % crc32c(body) or not lines:
        raise ValueError("its first line does not match the rest")
    policy, crc = _policy(body), crc32c(body)
    unfinished = lines.pop()
    for number, line in enumerate(lines, 1):
        crc = crc32c(line[9:], crc)
        if not line.startswith(b"%08x " % crc):
            if number < len(lines) or unfinished:
                raise ValueError(f"its change {number} is not what was written")
            return policy == "always", True
        policy = _policy(line[9:]) or policy
    return policy == "always", unfinished != b""


def _policy(state: bytes) -> Any:
    found = _json(state)
    return found.get("flush_policy") if isinstance(found, dict) else None


def check_meta(disk: Disk, path: str) -> None:
    """Raise ValueError if meta.properties does not name the directory's owner."""
    found = {}
    for line in _sealed(disk, path).decode("utf-8").splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith(("#", "!")):
            found[key.strip()] = value.strip()
    if found.get("version") != "1":
        raise ValueError(f"version {found.get('version')} where 1 is expected")
    number(found.get("node.id", ""))
    if not found.get("directory.id"):
        raise ValueError("directory.id is missing")
