"""The controller's whole state as records, and back (I-30).

A snapshot stands for every record below its end offset. It must therefore contain all state that a
decision, or a check of a broker's memory (P-76), reads. This includes offsets that no log record
contains, such as broker epochs, and the epoch that wrote each offset.

The snapshot holds the fields of the state as they are, so a new field needs no code here. A field
that an older snapshot lacks gets its default. An entry that this build does not know is an error,
as in the log.

`take` is quick, for the event loop: its result is immutable or copied. The encoding is for another
thread.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Final, get_type_hints

import msgspec

from strandline_broker.core.controller.log.records import LaterRecord, unknown
from strandline_broker.core.controller.log.state import (
    Broker,
    ControllerState,
    PartitionRegistration,
    Topic,
)
from strandline_proto.ids import ControllerEpoch, MetadataOffset

_ENTRIES: Final = frozenset({"brokers", "topics", "topic_ids", "index"})
"""Fields of the state that have their own entries, or follow from those."""
_PLAIN: Final = {
    name: hint for name, hint in get_type_hints(ControllerState).items() if name not in _ENTRIES
}


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """One record of a snapshot."""


class _StateEntry(_Entry, frozen=True, tag="SnapshotState"):
    """The first entry: every field of the state that is not a broker or a topic."""

    fields: dict[str, msgspec.Raw]


class _BrokerEntry(_Entry, frozen=True, tag="SnapshotBroker"):
    fields: Broker


class _TopicEntry(_Entry, frozen=True, tag="SnapshotTopic"):
    """A topic; its partitions follow."""

    fields: Topic


class _PartitionEntry(_Entry, frozen=True, tag="SnapshotPartition"):
    fields: PartitionRegistration


_AnyEntry = _StateEntry | _BrokerEntry | _TopicEntry | _PartitionEntry
_ENCODER: Final = msgspec.json.Encoder()
_SORTING_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
"""Encoder for sets: the same bytes in every process."""
_DECODER: Final = msgspec.json.Decoder(_AnyEntry)


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after all records below `end_offset`; the last one was written in
    `controller_epoch`.
    """

    end_offset: MetadataOffset
    controller_epoch: ControllerEpoch
    _plain: bytes
    _brokers: tuple[Broker, ...]
    _topics: tuple[tuple[Topic, tuple[PartitionRegistration, ...]], ...]

    def values(self) -> Iterator[bytes]:
        """The records' values, in an order that `restored` understands."""
        yield self._plain
        for broker in self._brokers:
            yield _SORTING_ENCODER.encode(_BrokerEntry(broker))
        for topic, partitions in self._topics:
            yield _ENCODER.encode(_TopicEntry(topic))
            for partition in partitions:
                yield _ENCODER.encode(_PartitionEntry(partition))


def take(state: ControllerState) -> Snapshot:
    """The state as it is now, unaffected by later changes."""
    plain = {name: msgspec.Raw(_ENCODER.encode(getattr(state, name))) for name in _PLAIN}
    return Snapshot(
        end_offset=state.next_offset,
        controller_epoch=state.controller_epoch,
        _plain=_ENCODER.encode(_StateEntry(plain)),
        _brokers=tuple(state.brokers.values()),
        _topics=tuple(
            (
                dataclasses.replace(topic, configs=dict(topic.configs), partitions={}),
                tuple(topic.partitions.values()),
            )
            for topic in state.topics.values()
        ),
    )


def restore(state: ControllerState, values: Iterable[bytes]) -> None:
    """Load an empty state with the values of a snapshot. Raises LaterRecord if this build does not
    know all of `values`, ValueError if they are no snapshot.
    """
    assert state.last_offset < 0, state.last_offset
    for index, value in enumerate(values):
        entry = _decode(value)
        if isinstance(entry, _StateEntry) != (index == 0):
            raise ValueError(f"record {index} of the snapshot is out of place: {value[:200]!r}")
        match entry:
            case _StateEntry():
                _restore_plain(state, entry.fields)
            case _BrokerEntry(broker):
                state.brokers[broker.broker_id] = broker
            case _TopicEntry(topic):
                state.add_topic(topic)
            case _PartitionEntry(partition):
                state.put(partition)


def _decode(value: bytes) -> _AnyEntry:
    try:
        entry: _AnyEntry = _DECODER.decode(value)
        if not isinstance(entry, _StateEntry):
            named: dict[str, Any] = msgspec.json.decode(value)["fields"]
            _check_names(named, {field.name for field in dataclasses.fields(entry.fields)})
    except (msgspec.MsgspecError, RecursionError) as error:
        raise unknown(value, f"not a snapshot record of this version: {error}") from None
    return entry


def _check_names(found: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise LaterRecord(f"the snapshot has fields that this build does not know: {unknown}")


def _restore_plain(state: ControllerState, fields: dict[str, msgspec.Raw]) -> None:
    _check_names(fields, _PLAIN)
    for name, raw in fields.items():
        try:
            setattr(state, name, msgspec.json.decode(raw, type=_PLAIN[name]))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise LaterRecord(f"{name} of the snapshot does not read: {error}") from None
