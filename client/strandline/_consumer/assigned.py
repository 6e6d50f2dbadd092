"""The partitions that a consumer reads, by their names, and its positions in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._core.position import Position
from strandline._net import arguments as given
from strandline.errors import ClientClosed, ConfigurationError, NoOffsetForPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline._consumer.delivery import Delivery
    from strandline._consumer.fetcher import Fetcher
    from strandline._consumer.read_ahead import Lending
    from strandline._core.cluster_view import PartitionKey
    from strandline._core.commit_state import CommitOffset
    from strandline.types import TopicPartition


class Assigned:
    """The assigned partitions of one consumer."""

    def __init__(self, delivery: Delivery, lending: Lending, policy: int | None) -> None:
        self.lending = lending
        self.policy = policy
        """Where to begin without an offset: EARLIEST, LATEST, or None for an error."""
        self.keys: dict[TopicPartition, PartitionKey] = {}
        self.fetcher: Fetcher | None = None
        """While the consumer runs."""
        self._delivery = delivery

    def running(self) -> Fetcher:
        """The running fetcher. Raises ClientClosed."""
        if self.fetcher is None:
            raise ClientClosed("the consumer is not started, or closed; use `async with`")
        return self.fetcher

    def replace(self, positions: Mapping[PartitionKey, Position]) -> None:
        """Assigns these positions only; kept partitions are passed with their present position."""
        fetcher = self.running()
        self.lending.take_back()
        for key in fetcher.positions:
            if key not in positions:
                self._delivery.forget(key)
        self.keys = {position.partition: key for key, position in positions.items()}
        fetcher.assign(dict(positions))

    def add(self, positions: Iterable[Position]) -> None:
        self.replace(self.running().positions | {p.key: p for p in positions})

    def remove(self, keys: Iterable[PartitionKey]) -> None:
        gone = frozenset(keys)
        if self.fetcher is not None and gone:
            self.replace({k: p for k, p in self.fetcher.positions.items() if k not in gone})

    def find(self, key: PartitionKey) -> Position | None:
        return None if self.fetcher is None else self.fetcher.positions.get(key)

    def position(self, tp: TopicPartition | tuple[str, int]) -> Position:
        positions = self.running().positions
        key = self.keys.get(given.one_partition("partition", tp))
        if key is None:
            raise ConfigurationError(f"{tp[0]}:{tp[1]} is not assigned to this consumer")
        return positions[key]

    def of(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> list[Position]:
        """The positions of these partitions, or of all if none is named."""
        return [self.position(tp) for tp in (tuple(partitions) or tuple(self.keys))]

    def position_at(self, tp: TopicPartition, topic_id: bytes, at: CommitOffset) -> Position:
        """The first position of a member: the committed offset, or by policy if it is -1."""
        position = Position(tp, topic_id, self.policy)
        if at.offset >= 0:
            if at.leader_epoch >= 0:
                self.running().cluster.view.require_epoch(*position.key, at.leader_epoch)
            position.seek(at.offset, at.leader_epoch)
        elif self.policy is not None:
            position.reset(self.policy)
        else:
            position.fail(
                NoOffsetForPartition(
                    f"the group has committed no offset of {tp.topic}:{tp.partition}; seek to "
                    "where reading shall begin, or choose another auto_offset_reset"
                )
            )
        return position

    def call_for_poll(self) -> None:
        """Wakes a waiting poll, and makes the next step of an iteration a poll."""
        self.lending.take_back()
        if self.fetcher is not None:
            self.fetcher.arrived.set()
            self.fetcher.plan()
