"""A follower's time of catching up, from the fetches that were read and answered."""

from __future__ import annotations

import pytest

from strandline_proof.sim.oracles.replica.fetches import NEVER, Heard, _in_stream
from strandline_proto import hot_encode
from strandline_proto import hot_messages as hot

ID = bytes(range(16))
KEY = ID, 0
EPOCH = 3


class Scene:
    """One fetch stream to a leader whose log grows."""

    def __init__(self, end: int = 0, *, began_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.ends = [(began_s, end)]
        self.heard = Heard(lambda: self.now_s)

    def asks(self, at_s: float, offset: int | None, *, epoch: int = EPOCH) -> None:
        """None: for nothing new."""
        self.now_s = at_s
        named = [] if offset is None else [hot.FetchPartition(ID, 0, epoch, offset)]
        state = hot.ReplicaState(2, 7)
        self.heard.on_read(hot.FetchRequest(replica_state=state, partitions=named))

    def answers(self, at_s: float, *results: hot.FetchResult) -> None:
        self.now_s = at_s
        self.heard.on_said(hot_encode.fetch_response(hot.FetchResponse(partitions=list(results))))

    def grows(self, at_s: float, end: int) -> None:
        self.ends.append((at_s, end))

    def caught(self) -> tuple[float, int]:
        """When it was caught up last, and where it has said that it ends."""
        return _in_stream(KEY, EPOCH, self.heard.exchanges, self.ends)[:2]


def test_a_fetch_from_the_end_is_caught_up_when_it_came() -> None:
    scene = Scene(5)
    scene.asks(1.0, 5)
    assert scene.caught() == (NEVER, -1)  # it may not have been looked at yet
    scene.answers(1.3)
    assert scene.caught() == (1.0, 5)
    assert scene.heard.follower == (2, 7)


def test_a_request_that_names_nothing_says_the_same_again() -> None:
    scene = Scene(5)
    scene.asks(1.0, 5)
    scene.answers(1.3)
    scene.asks(2.0, None)
    scene.answers(2.3)
    assert scene.caught() == (2.0, 5)
    scene.grows(3.0, 6)
    scene.asks(3.1, None)
    scene.answers(3.2)
    assert scene.caught() == (2.0, 5)


def test_what_was_the_end_at_the_fetch_before_is_enough() -> None:
    """P-56: under steady appends no fetch is level."""
    scene = Scene(5)
    scene.asks(1.0, 3)
    scene.answers(1.1, hot.FetchResult(ID, 0, records=b"x"))
    scene.grows(1.2, 6)
    scene.asks(1.3, 5)
    scene.answers(1.4, hot.FetchResult(ID, 0, records=b"x"))
    assert scene.caught() == (1.0, 5)


def test_what_is_below_that_is_not() -> None:
    scene = Scene(5)
    scene.asks(1.0, 3)
    scene.answers(1.1, hot.FetchResult(ID, 0, records=b"x"))
    scene.grows(1.2, 6)
    scene.asks(1.3, 4)
    scene.answers(1.4, hot.FetchResult(ID, 0, records=b"x"))
    assert scene.caught() == (NEVER, 4)


def test_a_refusal_and_another_epoch_say_nothing() -> None:
    scene = Scene(5)
    scene.asks(1.0, 5)
    scene.answers(1.1, hot.FetchResult(ID, 0, error_code=6))
    scene.asks(1.2, 5, epoch=EPOCH - 1)
    scene.answers(1.3)
    assert scene.caught() == (NEVER, -1)


def test_an_answer_that_is_full_of_others_says_nothing() -> None:
    scene = Scene(5)
    scene.asks(1.0, 5)
    scene.answers(1.1, hot.FetchResult(ID, 1, records=b"x"))
    assert scene.caught() == (NEVER, -1)


def test_a_later_answer_says_that_there_was_room() -> None:
    scene = Scene(5)
    scene.asks(1.0, 5)
    scene.answers(1.1, hot.FetchResult(ID, 1, records=b"x"))
    scene.asks(1.2, None)
    scene.answers(1.3, hot.FetchResult(ID, 0))
    assert scene.caught() == (1.2, 5)


DIVERGES = hot.FetchResult(ID, 0, diverging_epoch=hot.EpochEndOffset(0, 5))
REFUSED = hot.FetchResult(ID, 0, error_code=6)


@pytest.mark.parametrize("told", [DIVERGES, REFUSED])
@pytest.mark.parametrize("full", [True, False])
def test_a_refusal_in_a_later_answer_says_nothing_either(
    told: hot.FetchResult, *, full: bool
) -> None:
    """The first was answered before its leader led, which looks at the position afterwards."""
    scene = Scene(5, began_s=1.0)
    scene.asks(0.8, 5)
    scene.answers(0.9)
    if full:
        scene.asks(1.1, None)
        scene.answers(1.2, hot.FetchResult(ID, 1, records=b"x"))
    scene.asks(1.3, None)
    scene.answers(1.4, told)
    scene.asks(1.5, None)
    scene.answers(1.6)
    assert scene.caught() == (NEVER, -1)
    scene.asks(1.7, 5)
    scene.answers(1.8, hot.FetchResult(ID, 0))
    assert scene.caught() == (1.7, 5)


def test_a_position_that_came_before_its_leader_led_is_taken_up_afterwards() -> None:
    scene = Scene(5, began_s=1.0)
    scene.asks(0.8, 5)
    scene.answers(0.9)
    scene.asks(1.3, None)
    scene.answers(1.4, hot.FetchResult(ID, 0))
    assert scene.caught() == (1.3, 5)
    scene.asks(1.5, None)
    scene.answers(1.6)
    assert scene.caught() == (1.5, 5)
