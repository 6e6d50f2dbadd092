"""`strandline-state`: what a data directory remembers beyond Kafka's files (P-20, P-76, I-51).

Which cluster, store and metadata offset its broker last obeyed, so that a controller restored from
an old copy is found out; the flush policy its logs were written under; and each (topic id,
partition) it ever hosted, so that a replica whose directory vanished is not taken for a new one.
One line with version and CRC-32C, then one JSON object; replaced whole.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from crc32c import crc32c

from strandline_broker.storage.atomic_file import replace_file
from strandline_broker.storage.file import NO_SPACE, read_whole
from strandline_proto.ids import topic_id_bytes, topic_id_text

if TYPE_CHECKING:
    from strandline_runtime.runtime import FileSystem

FILE_NAME: Final = "strandline-state"
VERSION: Final = 1

REPLICATED: Final = "replicated"
ALWAYS: Final = "always"


@dataclass(frozen=True, slots=True)
class BrokerState:
    cluster_id: str | None = None
    store_id: str | None = None
    controller_epoch: int = -1
    metadata_offset: int = -1
    flush_policy: str = REPLICATED
    identity: str = ""
    """Directory id under which the controller knows the broker; the same in all its directories."""
    hosted: frozenset[tuple[bytes, int]] = frozenset()
    """(topic id, partition) of every replica this broker holds or held and has not given up."""


def read_state(fs: FileSystem, directory: str) -> BrokerState | None:
    """None if there is no such file; ValueError if it does not read."""
    try:
        data = read_whole(fs, f"{directory}/{FILE_NAME}")
    except FileNotFoundError:
        return None
    head, _, body = data.partition(b"\n")
    if head != _head(body):
        raise ValueError("its first line does not match the rest")
    try:
        found = json.loads(body)
        if not isinstance(found, dict):
            raise TypeError(f"{found!r} is no object")
        hosted = frozenset(
            (bytes(topic_id_bytes(topic_id)), partition)
            for topic_id, partition in found.pop("hosted")
        )
        return _checked(BrokerState(**found, hosted=hosted))
    except (KeyError, AttributeError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"its fields are not those of version {VERSION}: {error!r}") from error


def _checked(state: BrokerState) -> BrokerState:
    """TypeError if a field is of another kind: a checksum says that it was written, not by whom."""
    optional = [each for each in (state.cluster_id, state.store_id) if each is not None]
    for text in (state.flush_policy, state.identity, *optional):
        if type(text) is not str:
            raise TypeError(f"{text!r} where a text is expected")
    partitions = (partition for _, partition in state.hosted)
    for number in (state.controller_epoch, state.metadata_offset, *partitions):
        if type(number) is not int:
            raise TypeError(f"{number!r} where a whole number is expected")
    return state


def write_state(fs: FileSystem, directory: str, state: BrokerState) -> None:
    body = json.dumps(
        {
            "cluster_id": state.cluster_id,
            "store_id": state.store_id,
            "controller_epoch": state.controller_epoch,
            "metadata_offset": state.metadata_offset,
            "flush_policy": state.flush_policy,
            "identity": state.identity,
            "hosted": [[topic_id_text(t), p] for t, p in sorted(state.hosted)],
        }
    ).encode("ascii")
    replace_file(fs, f"{directory}/{FILE_NAME}", _head(body) + b"\n" + body)


class Memory:
    """The state that one directory keeps."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self.state = BrokerState()
        self._fs = fs
        self._directory = directory
        self._is_ahead = False
        """Whether `state` is ahead of the file."""

    def read(self) -> None:
        """ValueError if the file does not read."""
        self.state = read_state(self._fs, self._directory) or BrokerState()

    def update(self, **changes: Any) -> None:
        """Replace fields, durably."""
        state = replace(self.state, **changes)
        if state != self.state or self._is_ahead:
            write_state(self._fs, self._directory, state)
            self.state, self._is_ahead = state, False

    def forget_hosted(self, topic_id: bytes, partition: int) -> None:
        """A replica is given up.

        A full disk only puts off the writing, to the next change: giving replicas up is what makes
        room. The file then names one too many, which either nothing refers to any more (a deleted
        topic), or may be made anew, being in no ISR (P-20).
        """
        hosted = self.state.hosted - {(topic_id, partition)}
        try:
            self.update(hosted=hosted)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self.state, self._is_ahead = replace(self.state, hosted=hosted), True


def _head(body: bytes) -> bytes:
    return f"strandline-state {VERSION} {crc32c(body):08x}".encode("ascii")
