"""The sender of end markers: from the shards of transactions to the leaders of partitions.

A decided transaction stays unfinished until each of its partitions has the marker, or its topic is
deleted (I-164). So the sender tries for ever, at the leader that the metadata names at that moment
(I-174):

- A partition without a leader waits. It is not a deleted one, whose topic id is gone from the
  metadata (P-126).
- A lost answer, and every error that may pass, is tried again after a pause that doubles up to
  `PAUSE_MAX_S`. The leader knows a marker that it has (I-156).
- A leader that has seen a later epoch, of a coordinator or of the producer, ends the sending for
  that id: another coordinator has taken over.

There is one queue for each broker, one request of it in flight, and many markers in a request
(P-140). Markers that have failed once go through a second queue of that broker. So a partition that
cannot commit delays no other transaction.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.hosts.common.quiet import Quiet
from strandline_broker.hosts.transactions.broker_calls import MarkerToWrite
from strandline_proto.errors import (
    InvalidProducerEpoch,
    LeaderNotAvailable,
    TransactionCoordinatorFenced,
    WireError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from strandline_broker.core.metadata_cache import CurrentLeader, MetadataCache
    from strandline_broker.core.replication.end_marker import EndMarker
    from strandline_broker.hosts.transactions.broker_calls import BrokerCalls, Results, WriteHere
    from strandline_proto.ids import BrokerId, LeaderEpoch, TopicId
    from strandline_runtime.runtime import Runtime

    Place = tuple[TopicId, int]

PAUSE_S: Final = 0.02
PAUSE_MAX_S: Final = 1.0
REQUEST_S: Final = 10.0
"""Longest wait for the answer to a request; a leader answers earlier."""
MARKERS_MAX: Final = 1_000
"""Markers of partitions in one request."""
FENCED: Final = (InvalidProducerEpoch, TransactionCoordinatorFenced)


class _Sending:
    """One marker of one id on its way to partitions."""

    __slots__ = ("done", "items", "marker", "transactional_id")

    def __init__(
        self, transactional_id: str, marker: EndMarker, done: Callable[[Place], None]
    ) -> None:
        self.transactional_id = transactional_id
        self.marker = marker
        self.done = done
        self.items: dict[Place, _Item] = {}
        """The partitions that still need the marker."""


class _Item:
    """The marker of one partition."""

    __slots__ = ("failures", "pause", "place", "sending", "tried")

    def __init__(self, sending: _Sending, place: Place) -> None:
        self.sending = sending
        self.place = place
        self.failures = 0
        self.tried: CurrentLeader | None = None
        """The leader that was tried last."""
        self.pause: asyncio.TimerHandle | None = None

    @property
    def is_wanted(self) -> bool:
        return self.sending.items.get(self.place) is self


class _Lane(NamedTuple):
    """One queue to one broker."""

    broker_id: BrokerId
    is_retry: bool


class MarkerSender:
    def __init__(
        self,
        runtime: Runtime,
        me: BrokerId,
        metadata: MetadataCache,
        listener: str,
        calls: BrokerCalls,
        here: WriteHere | None = None,
    ) -> None:
        """`listener`: the one that brokers use. `here`: writes markers to partitions of this
        broker; None: it is called like any other.
        """
        self._log = runtime.log
        self._me = me
        self._metadata = metadata
        self._listener = listener
        self._calls = calls
        self._here = here
        self._of: dict[str, list[_Sending]] = {}
        self._queues: dict[_Lane, dict[_Item, None]] = {}
        """The items to send; a lane without a request in flight has no queue."""
        self._pausing: dict[_Item, None] = {}
        self._group: asyncio.TaskGroup | None = None
        self._troubles = Quiet(runtime.clock)

    async def run(self) -> None:
        """Sends markers until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for lane in self._queues:
                    group.create_task(self._drain(lane), name=_name_of(lane))
                await asyncio.Event().wait()
        finally:
            self._group = None
            for item in self._pausing:
                if item.pause is not None:
                    item.pause.cancel()

    def __len__(self) -> int:
        """The number of partitions that still need a marker."""
        return sum(len(sending.items) for each in self._of.values() for sending in each)

    # The shards

    def send(
        self,
        transactional_id: str,
        marker: EndMarker,
        partitions: Collection[Place],
        done: Callable[[Place], None],
    ) -> None:
        """Sends the marker to each partition until it is committed there. Calls `done` once for
        each: then, or when its topic id is not in the metadata any more. What an earlier leadership
        has sent for the id ends here.
        """
        self._drop(transactional_id, below=marker.coordinator_epoch)
        sending = _Sending(transactional_id, marker, done)
        self._of.setdefault(transactional_id, []).append(sending)
        for place in partitions:
            sending.items[place] = _Item(sending, place)
        for item in list(sending.items.values()):
            self._route(item)

    def cancel(self, transactional_id: str, coordinator_epoch: LeaderEpoch) -> None:
        """Sends no more for the id in that leadership and earlier ones."""
        self._drop(transactional_id, below=coordinator_epoch + 1)

    def _drop(self, transactional_id: str, *, below: int) -> None:
        for sending in self._of.get(transactional_id, ()):
            if sending.marker.coordinator_epoch < below:
                for item in sending.items.values():
                    self._end_pause(item)
                sending.items.clear()
        self._forget_done(transactional_id)

    def _forget_done(self, transactional_id: str) -> None:
        left = [each for each in self._of.get(transactional_id, ()) if each.items]
        if left:
            self._of[transactional_id] = left
        else:
            self._of.pop(transactional_id, None)

    # Where to

    def published(self) -> None:
        """The metadata has changed: tries at once where it names another leader, or no topic."""
        for item in list(self._pausing):
            topic_id, index = item.place
            view = self._metadata.view
            is_gone = view.topic(topic_id) is None
            if is_gone or view.current_leader(topic_id, index) != item.tried:
                self._end_pause(item)
                self._route(item)

    def _route(self, item: _Item) -> None:
        """Gives the item to the queue of its present leader."""
        self._pausing.pop(item, None)
        item.pause = None
        if not item.is_wanted:
            return
        topic_id, index = item.place
        view = self._metadata.view
        if view.topic(topic_id) is None and self._metadata.has_snapshot:
            self._complete(item)
            return
        leader = item.tried = view.current_leader(topic_id, index)
        if leader is None:
            self._again(item)
            return
        lane = _Lane(leader.broker_id, is_retry=item.failures > 0)
        queue = self._queues.get(lane)
        if queue is not None:
            queue[item] = None
            return
        self._queues[lane] = {item: None}
        if self._group is not None:
            self._group.create_task(self._drain(lane), name=_name_of(lane))

    def _again(self, item: _Item) -> None:
        """Tries again after a pause."""
        pause_s = min(PAUSE_MAX_S, PAUSE_S * 2 ** min(item.failures, 16))
        item.failures += 1
        self._pausing[item] = None
        item.pause = asyncio.get_running_loop().call_later(pause_s, self._route, item)

    def _end_pause(self, item: _Item) -> None:
        if item.pause is not None:
            item.pause.cancel()
            item.pause = None
        self._pausing.pop(item, None)

    def _complete(self, item: _Item) -> None:
        sending = item.sending
        del sending.items[item.place]
        self._forget_done(sending.transactional_id)
        sending.done(item.place)

    # Requests

    async def _drain(self, lane: _Lane) -> None:
        """Sends what is in the queue, request by request, until it is empty."""
        queue = self._queues[lane]
        while items := _taken(queue):
            by_sending: dict[_Sending, list[_Item]] = {}
            for item in items:
                by_sending.setdefault(item.sending, []).append(item)
            request = [
                MarkerToWrite(sending.marker, [item.place for item in of_one])
                for sending, of_one in by_sending.items()
            ]
            try:
                results = await self._call(lane.broker_id, request)
            except WireError as failure:
                results = [[failure] * len(of_one) for of_one in by_sending.values()]
            for of_one, errors in zip(by_sending.values(), results, strict=True):
                for item, error in zip(of_one, errors, strict=True):
                    self._answered(item, error)
        del self._queues[lane]

    async def _call(self, broker_id: BrokerId, request: Sequence[MarkerToWrite]) -> Results:
        if broker_id == self._me and self._here is not None:
            return await self._here(request)
        endpoint = self._metadata.view.endpoint(broker_id, self._listener)
        if endpoint is None:
            raise LeaderNotAvailable(f"no address of broker {broker_id} is known yet")
        return await self._calls.write_markers(endpoint, request, timeout_s=REQUEST_S)

    def _answered(self, item: _Item, error: WireError | None) -> None:
        if not item.is_wanted:
            return  # another leadership or another coordinator has it now
        if error is None:
            self._complete(item)
        elif isinstance(error, FENCED):
            self._fenced(item, error)
        else:
            self._complain(item, error)
            self._again(item)

    def _fenced(self, item: _Item, error: WireError) -> None:
        sending = item.sending
        self._log.warning(
            "the markers of a transaction are not sent any more",
            transactional_id=sending.transactional_id,
            coordinator_epoch=sending.marker.coordinator_epoch,
            why=str(error),
        )
        self._drop(sending.transactional_id, below=sending.marker.coordinator_epoch + 1)

    def _complain(self, item: _Item, error: WireError) -> None:
        if not error.retriable and self._troubles.is_due():
            self._log.warning(
                "a marker was refused, and is tried again",
                transactional_id=item.sending.transactional_id,
                partition=item.place[1],
                error_code=error.code,
                why=str(error),
            )


def _taken(queue: dict[_Item, None]) -> list[_Item]:
    """Takes the items of the next request out of the queue."""
    taken: list[_Item] = []
    while queue and len(taken) < MARKERS_MAX:
        item = next(iter(queue))
        del queue[item]
        if item.is_wanted:
            taken.append(item)
    return taken


def _name_of(lane: _Lane) -> str:
    return f"markers-{lane.broker_id}{'-again' if lane.is_retry else ''}"
