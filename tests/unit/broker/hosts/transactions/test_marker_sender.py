"""The sender of end markers, in virtual time, with brokers that answer when told to."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.hosts.transactions.marker_sender import (
    MARKERS_MAX,
    PAUSE_MAX_S,
    REQUEST_S,
    MarkerSender,
)
from strandline_proto import errors
from strandline_proto.ids import BrokerId, LeaderEpoch, ProducerEpoch, ProducerId
from support.envelopes import topic_id
from support.scripted_peers import (
    LISTENER,
    Cluster,
    ScriptedPeers,
    in_virtual_time,
    passes,
    quiet_runtime,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from strandline_broker.hosts.transactions.broker_calls import MarkerToWrite, Results
    from strandline_proto.ids import TopicId
    from support.scripted_peers import Call

    Place = tuple[TopicId, int]

ORDERS = topic_id(1)
LE = 3
LONGEST_PAUSE_S = PAUSE_MAX_S + 0.1


def marker(producer_id: int = 7, *, coordinator_epoch: int = LE) -> EndMarker:
    return EndMarker(
        ProducerId(producer_id), ProducerEpoch(1), True, LeaderEpoch(coordinator_epoch), 2
    )


@dataclass
class Sending:
    cluster: Cluster
    peers: ScriptedPeers
    sender: MarkerSender
    done: list[tuple[str, Place]] = field(default_factory=list)

    def send(self, name: str, *indexes: int, producer_id: int = 7, epoch: int = LE) -> None:
        self.sender.send(
            name,
            marker(producer_id, coordinator_epoch=epoch),
            [(ORDERS, index) for index in indexes],
            lambda place: self.done.append((name, place)),
        )

    @property
    def open(self) -> list[Call[MarkerToWrite]]:
        return [call for call in self.peers.markers if not call.answer.done()]

    def finished(self, name: str = "pay") -> list[int]:
        """The partitions whose markers are reported, in that order."""
        return [index for of, (_, index) in self.done if of == name]


def sent(call: Call[MarkerToWrite]) -> list[tuple[int, list[int]]]:
    """Producer id and partitions of each marker of a request."""
    return [
        (each.marker.producer_id, [index for _, index in each.partitions]) for each in call.asked
    ]


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@asynccontextmanager
async def sending(*leaders: int | None, me: int = 9) -> AsyncIterator[Sending]:
    """A sender that runs; topic orders has these leaders."""
    cluster, peers = Cluster(), ScriptedPeers()
    cluster.lead("orders", 1, *leaders)
    sender = MarkerSender(quiet_runtime(), BrokerId(me), cluster.cache, LISTENER, peers)
    task = asyncio.get_running_loop().create_task(sender.run())
    await turns()
    try:
        yield Sending(cluster, peers, sender)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_many_markers_travel_in_one_request_to_each_broker() -> None:
    """P-140."""

    async def main() -> None:
        async with sending(1, 2, 1) as s:
            s.send("a", 0, 1, 2, producer_id=7)
            s.send("b", 0, producer_id=8)
            await turns()
            first, second = s.peers.markers
            assert (first.broker_id, sent(first)) == (1, [(7, [0, 2]), (8, [0])])
            assert (second.broker_id, sent(second)) == (2, [(7, [1])])
            for number in range(3):
                s.send(f"c{number}", 0, producer_id=20 + number)
                await turns()
            assert len(s.open) == 2, "one request in flight for each broker"
            first.succeed()
            await turns()
            assert [sent(call) for call in s.open if call.broker_id == 1] == [
                [(20, [0]), (21, [0]), (22, [0])]
            ]
            assert (s.finished("a"), s.finished("b")) == ([0, 2], [0])
            for call in s.open:
                call.succeed()
            await turns()
            assert (s.finished("a"), len(s.done), len(s.sender)) == ([0, 2, 1], 7, 0)
            assert s.open == []

    in_virtual_time(main)


def test_a_request_has_a_bound() -> None:
    async def main() -> None:
        async with sending(*[1] * (MARKERS_MAX + 5)) as s:
            s.send("a", *range(MARKERS_MAX + 5))
            await turns()
            for size in (MARKERS_MAX, 5):
                (call,) = s.open
                assert sum(len(indexes) for _, indexes in sent(call)) == size
                call.succeed()
                await turns()
            assert len(s.done) == MARKERS_MAX + 5

    in_virtual_time(main)


def test_a_partition_without_a_leader_is_not_a_deleted_one() -> None:
    """P-126, history 35: a minute without a leader."""

    async def main() -> None:
        async with sending(None, 1) as s:
            s.send("pay", 0, 1)
            await turns()
            s.open[0].succeed()
            await passes(60)
            assert (s.finished(), len(s.peers.markers)) == ([1], 1)
            s.cluster.lead("orders", 1, 2, 1)
            s.sender.published()
            await turns()
            (call,) = s.open
            assert (call.broker_id, sent(call)) == (2, [(7, [0])])
            call.succeed()
            await turns()
            assert (s.finished(), len(s.sender)) == ([1, 0], 0)

    in_virtual_time(main)


def test_a_leader_is_found_without_a_word() -> None:
    async def main() -> None:
        async with sending(None) as s:
            s.send("pay", 0)
            await passes(60)
            s.cluster.lead("orders", 1, 2)
            await passes(LONGEST_PAUSE_S)
            (call,) = s.open
            assert call.broker_id == 2

    in_virtual_time(main)


@pytest.mark.parametrize("is_told", [False, True])
def test_the_markers_of_a_deleted_topic_are_done(is_told: bool) -> None:
    """I-164: its id is gone from the metadata; a topic of the same name is another one."""

    async def main() -> None:
        async with sending(None, 1) as s:
            s.send("pay", 0, 1)
            await passes(30)
            s.cluster.delete(ORDERS)
            s.cluster.lead("orders", 2, 1, 1)
            if is_told:
                s.sender.published()
                assert s.finished() == [0]
            await passes(REQUEST_S + LONGEST_PAUSE_S)
            assert sorted(s.finished()) == [0, 1]
            assert len(s.sender) == 0

    in_virtual_time(main)


def test_nothing_is_deleted_before_there_is_metadata() -> None:
    async def main() -> None:
        cluster, peers = Cluster(knows=False), ScriptedPeers()
        sender = MarkerSender(quiet_runtime(), BrokerId(9), cluster.cache, LISTENER, peers)
        s = Sending(cluster, peers, sender)
        s.send("pay", 0)
        await passes(5)
        assert (s.done, len(sender)) == ([], 1)
        sender.cancel("pay", LeaderEpoch(LE))

    in_virtual_time(main)


@pytest.mark.parametrize(
    "error",
    [
        errors.UnknownTopicOrPartition,
        errors.NotLeaderOrFollower,
        errors.RequestTimedOut,
        errors.NotEnoughReplicas,
        errors.NotEnoughReplicasAfterAppend,
        errors.KafkaStorageError,
        errors.UnknownTopicId,
        errors.UnknownServerError,
    ],
)
def test_what_may_pass_is_tried_for_ever_at_the_present_leader(
    error: type[errors.WireError],
) -> None:
    """I-174."""

    async def main() -> None:
        async with sending(1, 1) as s:
            s.send("pay", 0, 1)
            await turns()
            s.open[0].succeed(error("not now"), None)
            for _ in range(40):
                await passes(LONGEST_PAUSE_S)
                (call,) = s.open
                assert (call.broker_id, sent(call)) == (1, [(7, [0])])
                call.succeed(error("not now"))
            s.cluster.lead("orders", 1, 2, 1)
            await passes(LONGEST_PAUSE_S)
            (call,) = s.open
            assert call.broker_id == 2
            call.succeed()
            await turns()
            assert s.finished() == [1, 0]

    in_virtual_time(main)


def test_a_changed_leader_is_tried_at_once() -> None:
    async def main() -> None:
        async with sending(1) as s:
            s.send("pay", 0)
            for _ in range(10):
                await passes(LONGEST_PAUSE_S)
                s.open[0].succeed(errors.NotLeaderOrFollower("moved"))
            await turns()
            assert s.open == []
            s.sender.published()
            await turns()
            assert s.open == [], "the metadata names the same leader"
            s.cluster.lead("orders", 1, 3)
            s.sender.published()
            await turns()
            assert [call.broker_id for call in s.open] == [3]

    in_virtual_time(main)


def test_a_lost_answer_is_asked_for_again() -> None:
    """The marker may be there: its leader knows (I-156)."""

    async def main() -> None:
        async with sending(1) as s:
            s.send("pay", 0)
            await turns()
            s.open[0].answer.set_exception(errors.NetworkException("reset"))
            await passes(1)
            assert len(s.peers.markers) == 2
            await passes(REQUEST_S)  # no answer at all
            assert len(s.peers.markers) == 3
            s.open[0].succeed()
            await turns()
            assert s.finished() == [0]

    in_virtual_time(main)


def test_a_partition_that_cannot_commit_delays_no_other_transaction() -> None:
    async def main() -> None:
        async with sending(1, 1) as s:
            s.send("stuck", 0)
            await turns()
            s.open[0].succeed(errors.RequestTimedOut("not committed"))
            await passes(LONGEST_PAUSE_S)
            (again,) = s.open
            s.send("pay", 1)
            await turns()
            (fresh,) = (call for call in s.open if call is not again)
            fresh.succeed()
            await turns()
            assert s.finished("pay") == [1]

    in_virtual_time(main)


@pytest.mark.parametrize(
    "error", [errors.InvalidProducerEpoch, errors.TransactionCoordinatorFenced]
)
def test_a_fenced_marker_ends_its_id_here_and_no_other(error: type[errors.WireError]) -> None:
    async def main() -> None:
        async with sending(1, None) as s:
            s.send("fenced", 0, 1)
            s.send("pay", 0, producer_id=8)
            await turns()
            s.open[0].succeed(error("a later coordinator"), errors.NotLeaderOrFollower("moved"))
            await passes(60)
            assert [sent(call) for call in s.open] == [[(8, [0])]]
            s.open[0].succeed()
            s.cluster.lead("orders", 1, 1, 1)
            s.sender.published()
            await passes(60)
            assert (s.finished("fenced"), s.finished("pay"), s.open) == ([], [0], [])
            assert len(s.sender) == 0

    in_virtual_time(main)


def test_a_cancelled_id_is_sent_no_more_and_not_reported() -> None:
    async def main() -> None:
        async with sending(1, None, 1) as s:
            s.send("pay", 0, 1)
            await turns()
            s.send("pay2", 2)
            s.send("waits", 2, producer_id=8)
            s.sender.cancel("pay", LeaderEpoch(LE - 1))
            assert len(s.sender) == 4, "of an earlier leadership"
            for name in ("pay", "waits"):
                s.sender.cancel(name, LeaderEpoch(LE))
            s.cluster.lead("orders", 1, 1, 1, 1)
            s.sender.published()
            s.open[0].succeed()
            await turns()
            assert [sent(call) for call in s.open] == [[(7, [2])]]
            s.open[0].succeed()
            await turns()
            assert (s.finished("pay"), s.finished("pay2"), len(s.sender)) == ([], [2], 0)

    in_virtual_time(main)


def test_a_new_leadership_takes_the_place_of_the_one_before() -> None:
    async def main() -> None:
        async with sending(1, 1) as s:
            s.send("pay", 0, 1)
            await turns()
            s.send("pay", 1, epoch=LE + 1)
            s.open[0].succeed()
            await turns()
            assert s.done == [], "the answer was for the earlier leadership"
            (call,) = s.open
            assert call.asked[0].marker.coordinator_epoch == LE + 1
            call.succeed()
            await turns()
            assert s.finished() == [1]

    in_virtual_time(main)


def test_one_leadership_may_add_partitions() -> None:
    """A topic that was created again takes the marker of the deleted one."""

    async def main() -> None:
        async with sending(1, 1) as s:
            s.send("pay", 0)
            s.send("pay", 1)
            await turns()
            assert sent(s.open[0]) == [(7, [0]), (7, [1])]
            s.open[0].succeed()
            await turns()
            assert s.finished() == [0, 1]

    in_virtual_time(main)


def test_what_is_sent_before_the_start_leaves_with_it() -> None:
    async def main() -> None:
        cluster, peers = Cluster(), ScriptedPeers()
        cluster.lead("orders", 1, 1)
        sender = MarkerSender(quiet_runtime(), BrokerId(9), cluster.cache, LISTENER, peers)
        s = Sending(cluster, peers, sender)
        s.send("pay", 0)
        task = asyncio.get_running_loop().create_task(sender.run())
        await turns()
        assert len(s.open) == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    in_virtual_time(main)


def test_the_brokers_own_partitions_take_no_detour() -> None:
    async def main() -> None:
        written: list[MarkerToWrite] = []

        async def here(markers: Sequence[MarkerToWrite]) -> Results:
            written.extend(markers)
            return [[None] * len(each.partitions) for each in markers]

        cluster, peers = Cluster(), ScriptedPeers()
        cluster.lead("orders", 1, 1, 2)
        sender = MarkerSender(quiet_runtime(), BrokerId(1), cluster.cache, LISTENER, peers, here)
        s = Sending(cluster, peers, sender)
        task = asyncio.get_running_loop().create_task(sender.run())
        await turns()
        s.send("pay", 0, 1)
        await turns()
        assert ([each.partitions for each in written], s.finished()) == ([[(ORDERS, 0)]], [0])
        assert [call.broker_id for call in s.open] == [2]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    in_virtual_time(main)
