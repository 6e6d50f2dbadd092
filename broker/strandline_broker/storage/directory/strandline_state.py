"""The memory of a data directory beyond Kafka's files: `strandline-state` (P-20, P-76, I-51).

It has three parts:

- The cluster, store and metadata offset that the broker last obeyed, so that a controller restored
  from an old copy is detected.
- The flush policy under which its logs were written.
- Each (topic id, partition) it ever hosted, so that a replica whose directory vanished is not
  treated as new.

The file has one line with version and CRC-32C, one with a JSON object, and one line for each change
since. A change line holds the CRC-32C of its JSON object, continued from the previous line, and
that object. A change is one write at the end of the file and one sync, whatever the directory
hosts. The file is replaced whole from time to time, at the first change of a process, and after an
error.

A crash leaves at most the last line unfinished. That change was reported to no caller, so it does
not count. A directory that was closed has no such line, so an unfinished line there is damage, as
is a bad line before others. Version 1 was one object without changes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from crc32c import crc32c

from strandline_broker.storage.files.atomic_file import replace_file
from strandline_broker.storage.files.file import NO_SPACE, WRITE, File, read_whole
from strandline_proto.ids import topic_id_bytes, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set

    from strandline_runtime.runtime import FileSystem

Key = tuple[bytes, int]

FILE_NAME: Final = "strandline-state"
VERSION: Final = 2
FIELDS: Final = (
    "cluster_id",
    "store_id",
    "controller_epoch",
    "metadata_offset",
    "flush_policy",
    "identity",
)
MORE: Final = "hosts"
GIVEN_UP: Final = "gives_up"
"""Keys of a change: the replicas hosted from then on, and those no longer hosted."""
CRC_DIGITS: Final = 9
"""Length of a CRC in hexadecimal with the space after it."""
APPENDED_MIN: Final = 4096
"""Size up to which the file is not replaced for its length alone."""

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
    hosted: Set[Key] = frozenset()
    """(topic id, partition) of every replica this broker holds, or held and has not given up. The
    set of a `Memory` changes with it.
    """


def read_state(fs: FileSystem, directory: str) -> BrokerState | None:
    """The state in the file; None if there is no file. Raises ValueError if it does not parse."""
    try:
        return _parse(read_whole(fs, f"{directory}/{FILE_NAME}"))[0]
    except FileNotFoundError:
        return None


def _parse(data: bytes) -> tuple[BrokerState, bool]:
    """The state, and True if the last line is unfinished."""
    head, _, rest = data.partition(b"\n")
    try:
        if head == _head(1, rest):
            fields = _object(rest)
            pairs = fields.pop("hosted")
            return _state(
                fields, ((_id(topic_id), partition) for topic_id, partition in pairs)
            ), False
        first, end, changes = rest.partition(b"\n")
        if not end or head != _head(VERSION, first):
            raise ValueError("its first line does not match the rest")
        fields = _object(first)
        hosted, crc = _keys(fields.pop("hosted")), crc32c(first)
        *lines, unfinished = changes.split(b"\n")
        is_cut = unfinished != b""
        for number, line in enumerate(lines, 1):
            crc = crc32c(line[CRC_DIGITS:], crc)
            if line[:CRC_DIGITS] != b"%08x " % crc:
                if number < len(lines) or is_cut:
                    raise ValueError(f"change {number} of {len(lines)} is not what was written")
                is_cut = True
                break
            change = _object(line[CRC_DIGITS:])
            hosted |= _keys(change.pop(MORE, {}))
            hosted -= _keys(change.pop(GIVEN_UP, {}))
            fields |= change
        return _state(fields, hosted), is_cut
    except (KeyError, AttributeError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"its fields are not those of version {VERSION}: {error!r}") from error


def _object(data: bytes) -> dict[str, Any]:
    found = json.loads(data)
    if not isinstance(found, dict):
        raise TypeError(f"{found!r} is no object")
    return found


def _id(text: str) -> bytes:
    return bytes(topic_id_bytes(text))


def _keys(partitions: dict[str, list[int]]) -> set[Key]:
    return {
        (topic_id, partition)
        for topic_id, of_topic in ((_id(text), found) for text, found in partitions.items())
        for partition in of_topic
    }


def _by_topic(keys: Iterable[Key]) -> dict[str, list[int]]:
    partitions: dict[str, list[int]] = {}
    for topic_id, partition in sorted(keys):
        partitions.setdefault(topic_id_text(topic_id), []).append(partition)
    return partitions


def _state(fields: dict[str, Any], hosted: Iterable[Key]) -> BrokerState:
    """The state with these fields. Raises TypeError if a field has another type: a checksum proves
    that it was written, not by which program.
    """
    state = BrokerState(**fields, hosted=frozenset(hosted))
    optional = [each for each in (state.cluster_id, state.store_id) if each is not None]
    for text in (state.flush_policy, state.identity, *optional):
        if type(text) is not str:
            raise TypeError(f"{text!r} where a text is expected")
    partitions = (partition for _, partition in state.hosted)
    for number in (state.controller_epoch, state.metadata_offset, *partitions):
        if type(number) is not int:
            raise TypeError(f"{number!r} where a whole number is expected")
    return state


def write_state(fs: FileSystem, directory: str, state: BrokerState) -> tuple[int, int]:
    """Replace the file whole; returns its size and the CRC-32C that the first change continues."""
    fields = {name: getattr(state, name) for name in FIELDS}
    first = json.dumps(fields | {"hosted": _by_topic(state.hosted)}).encode("ascii")
    data = b"%b\n%b\n" % (_head(VERSION, first), first)
    replace_file(fs, f"{directory}/{FILE_NAME}", data)
    return len(data), crc32c(first)


class Memory:
    """The state of one directory; `update`, and the methods that use it, run in one place at a
    time.
    """

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self.state = BrokerState()
        self._fs = fs
        self._directory = directory
        self._hosted: set[Key] = set()
        self._spare: set[Key] = set()
        """Replicas that were given up while the file still names them."""
        self._set(self.state)
        self._file: File | None = None
        """The file to append to; None: the next change replaces it."""
        self._size = self._crc = self._whole = 0

    def read(self, *, closed: bool) -> None:
        """Read the file. Raises ValueError if it does not parse. `closed` means that no process was
        writing to it.
        """
        try:
            state, unfinished = _parse(read_whole(self._fs, f"{self._directory}/{FILE_NAME}"))
        except FileNotFoundError:
            return
        if unfinished and closed:
            raise ValueError("its last line is not what was written")
        self._hosted = set(state.hosted)
        self._set(state)

    def close(self) -> None:
        self._file = None

    def update(
        self, hosts: Set[Key] = frozenset(), gives_up: Set[Key] = frozenset(), **changes: Any
    ) -> None:
        """Replace fields, and add or remove hosted replicas, durably. The work is proportional to
        the change, unless the file is replaced whole.
        """
        state = replace(self.state, **changes)
        more, gone = hosts - self._hosted, gives_up & self._hosted
        change: dict[str, Any] = {
            name: getattr(state, name)
            for name in FIELDS
            if getattr(state, name) != getattr(self.state, name)
        }
        for name, keys in ((MORE, more - self._spare), (GIVEN_UP, gone | (self._spare - more))):
            if keys:
                change[name] = _by_topic(keys)
        if change:
            self._write(change, lambda: replace(state, hosted=(self._hosted | more) - gone))
        self._hosted |= more
        self._hosted -= gone
        self._spare.clear()
        self._set(state)

    def _write(self, change: dict[str, Any], whole: Callable[[], BrokerState]) -> None:
        file, self._file = self._file, None  # after an error the file is replaced whole
        if file is None or self._size > max(2 * self._whole, APPENDED_MIN):
            self._whole, self._crc = write_state(self._fs, self._directory, whole())
            self._size = self._whole
            file = File(self._fs, f"{self._directory}/{FILE_NAME}", WRITE)
        else:
            text = b" " + json.dumps(change).encode("ascii")
            crc = crc32c(text[1:], self._crc)
            line = b"%08x%b\n" % (crc, text)
            file.write((line,), len(line), self._size)
            file.sync()
            self._size, self._crc = self._size + len(line), crc
        self._file = file

    def forget_hosted(self, topic_id: bytes, partition: int) -> None:
        """Give up a replica.

        A full disk only delays the write until the next change: giving up replicas frees room. The
        file then names one replica too many. Either nothing refers to it any more (a deleted
        topic), or it may be created again, as it is in no ISR (P-20).
        """
        gone = {(topic_id, partition)} & self._hosted
        try:
            self.update(gives_up=gone)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self._hosted -= gone
            self._spare |= gone

    def _set(self, state: BrokerState) -> None:
        self.state = state if state.hosted is self._hosted else replace(state, hosted=self._hosted)


def _head(version: int, body: bytes) -> bytes:
    return f"strandline-state {version} {crc32c(body):08x}".encode("ascii")
