"""The acknowledged records of a test, and the check that the log still has them."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from strandline.types import ConsumerRecord, RecordMetadata, SendManyResult

SHOWN_MAX: Final = 5
"""Number of lost records that a message names."""


class RecordsLost(AssertionError):
    """Acknowledged records are missing from the log, or differ from what was sent."""


class _Sent(NamedTuple):
    key: bytes | None
    value: bytes | None


class Ledger:
    """Acknowledgements by partition and offset. Producers of several threads write to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: dict[str, dict[tuple[int, int], _Sent | None]] = defaultdict(dict)

    def clear(self) -> None:
        """Begin a new test."""
        with self._lock:
            self._sent.clear()

    def note(self, metadata: RecordMetadata, key: object, value: object) -> None:
        """One record was acknowledged. With acks=0 there is no offset and no promise. What a
        serializer has made of a key or value is not compared.
        """
        if metadata.offset >= 0:
            place = metadata.partition, metadata.offset
            with self._lock:
                self._sent[metadata.topic][place] = _content(key, value)

    def note_many(self, result: SendManyResult) -> None:
        """The records of one `send_many` were acknowledged; their offsets are known."""
        with self._lock:
            for found in result.ranges:
                for offset in range(found.start, found.end) if found.start >= 0 else ():
                    self._sent[found.topic].setdefault((found.partition, offset), None)

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged records."""
        with self._lock:
            return sum(len(places) for places in self._sent.values())

    def check(self, read: Callable[[str], Iterable[ConsumerRecord]]) -> int:
        """Compares with `read(topic)`, and returns how many records were compared.

        Raises RecordsLost.
        """
        with self._lock:
            sent = {topic: dict(places) for topic, places in self._sent.items()}
        lost: list[str] = []
        for topic, places in sent.items():
            found = {(r.partition, r.offset): _Sent(r.key, r.value) for r in read(topic)}
            for place, was in sorted(places.items()):
                if place not in found:
                    lost.append(_named(topic, place, "is missing"))
                elif was is not None and was != found[place]:
                    lost.append(_named(topic, place, f"is {found[place]}, sent was {was}"))
        count = sum(map(len, sent.values()))
        if lost:
            more = f"; {len(lost) - SHOWN_MAX} more" if len(lost) > SHOWN_MAX else ""
            raise RecordsLost(
                f"{len(lost)} of {count} acknowledged records are lost: "
                f"{'; '.join(lost[:SHOWN_MAX])}{more}"
            )
        return count


def _named(topic: str, place: tuple[int, int], what: str) -> str:
    return f"{topic}:{place[0]} offset {place[1]} {what}"


def _content(key: object, value: object) -> _Sent | None:
    """Copies of the bytes, which the caller may change later; None if they are not known."""
    known = (bytes, bytearray, memoryview, type(None))
    if not isinstance(key, known) or not isinstance(value, known):
        return None
    return _Sent(None if key is None else bytes(key), None if value is None else bytes(value))
