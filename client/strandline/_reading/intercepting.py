"""The interceptors of one consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline._net import arguments as given
from strandline.errors import describe
from strandline.group_types import OffsetAndMetadata
from strandline.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline._core.commit_state import CommitOffset
    from strandline.types import ConsumerRecord

    Records = dict[TopicPartition, list[ConsumerRecord[Any, Any]]]


class Intercepting:
    """Calls the interceptors in their order, and logs the errors that they raise."""

    def __init__(self, interceptors: Iterable[object]) -> None:
        self._interceptors = given.interceptors(interceptors, "on_consume", "on_commit")
        self.log: Any = None
        """The log of the started consumer."""

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_consume(self, records: Records) -> Records:
        """Returns the records that the program gets."""
        for each in self._interceptors:
            if (on_consume := getattr(each, "on_consume", None)) is None:
                continue
            try:
                found = on_consume({tp: list(some) for tp, some in records.items()})
                if not isinstance(found, dict):
                    raise TypeError(f"it returned a {type(found).__name__}, not a dict of records")
                records = {tp: some for tp, some in found.items() if some}
            except Exception as error:  # noqa: BLE001 - the records go on without it
                self.log.error("on_consume of an interceptor raised", error=describe(error))
        return records

    def one(self, record: ConsumerRecord[Any, Any]) -> ConsumerRecord[Any, Any] | None:
        """Returns the record that the program gets; None if it was left out."""
        found = self.on_consume({TopicPartition(record.topic, record.partition): [record]})
        return next((some[0] for some in found.values()), None)

    def on_commit(self, committed: Mapping[tuple[str, int], CommitOffset]) -> None:
        """Tells which offsets were committed."""
        offsets = {
            TopicPartition(*tp): OffsetAndMetadata(at.offset, at.metadata, at.leader_epoch)
            for tp, at in committed.items()
        }
        for each in self._interceptors:
            if (on_commit := getattr(each, "on_commit", None)) is None:
                continue
            try:
                on_commit(dict(offsets))
            except Exception as error:  # noqa: BLE001 - the others are told too
                self.log.error("on_commit of an interceptor raised", error=describe(error))
