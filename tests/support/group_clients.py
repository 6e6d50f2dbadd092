"""Members of consumer groups as they behave, honest and slow: what is sent crosses what is pushed,
answers are lost, and what must be given up is given up some time later.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from strandline_broker.core.groups.commands import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    BeatAnswer,
    ConsumerBeat,
)
from strandline_broker.core.groups.consumer.stream_view import as_seen
from strandline_proto.errors import WireError
from support.groups_rig import REBALANCE_MS

if TYPE_CHECKING:
    from strandline_proto.ids import TopicId

Place = tuple["TopicId", int]


@dataclass
class Client:
    """One process of one member id."""

    member_id: str
    names: tuple[str, ...]
    regex: str = ""
    instance_id: str | None = None
    assignor: str | None = None
    streamed: bool = False
    epoch: int = 0
    owned: set[Place] = field(default_factory=set)
    """What it reads: from the receipt of a grant to the end of its revocation."""
    revoking: set[Place] = field(default_factory=set)
    tell_all: bool = True
    """Its next message says everything: the first one, and the one after an error."""
    last_push: int = 0
    """The server's side of the stream: pushes sent, and not yet received."""
    inbox: list[tuple[int, BeatAnswer]] = field(default_factory=list)
    seen_push: int = 0
    outbox: list[tuple[int, ConsumerBeat]] = field(default_factory=list)
    slot: bool = False
    awaits: Any = None
    """The answer that the coordinator has for it, and may not give yet."""

    def message(self, *, says_owned: bool) -> ConsumerBeat:
        everything = self.tell_all or self.epoch == 0
        more: dict[str, Any] = {}
        if everything:
            more = {
                "rebalance_timeout_ms": REBALANCE_MS,
                "subscribed_topic_names": self.names,
                "subscribed_topic_regex": self.regex,
                "server_assignor": self.assignor,
            }
        if everything or says_owned:
            more["owned"] = {} if self.epoch == 0 else sets(self.owned)
        self.tell_all = False
        return ConsumerBeat(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            **more,
        )

    def last_message(self) -> ConsumerBeat:
        epoch = LEAVE_EPOCH if self.instance_id is None else LEAVE_STATIC_EPOCH
        return ConsumerBeat(
            group_id="g",
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
        )

    def hear(self, answer: BeatAnswer | WireError) -> None:
        if isinstance(answer, WireError):
            self.lose_everything()
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            granted = {(t, p) for t, ps in answer.assignment.items() for p in ps}
            self.revoking = self.owned - granted
            self.owned |= granted

    def give_up(self) -> None:
        """The application's callback has returned."""
        self.owned -= self.revoking
        self.revoking = set()

    def lose_everything(self) -> None:
        self.epoch = 0
        self.owned = set()
        self.revoking = set()
        self.break_stream()

    def break_stream(self) -> None:
        """It is opened anew with the next message."""
        self.tell_all = True
        self.last_push = self.seen_push = 0
        self.inbox = []
        self.outbox = []
        self.slot = False
        self.awaits = None

    def send(self, *, says_owned: bool) -> None:
        self.outbox.append((self.seen_push, self.message(says_owned=says_owned)))

    def arrived(self) -> ConsumerBeat:
        seen_push, message = self.outbox.pop(0)
        return as_seen(message, seen_push=seen_push, last_push=self.last_push)

    def receive(self) -> None:
        number, answer = self.inbox.pop(0)
        self.seen_push = number
        self.hear(answer)

    def pushed(self, answer: BeatAnswer) -> None:
        self.last_push += 1
        self.inbox.append((self.last_push, answer))


def sets(places: set[Place]) -> dict[TopicId, tuple[int, ...]]:
    found: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(places):
        found.setdefault(topic_id, []).append(partition)
    return {topic_id: tuple(partitions) for topic_id, partitions in found.items()}


__all__ = ["Client", "Place", "replace", "sets"]
