"""The events of a cluster in words, and the warnings in its servers' logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline.testing.story import SHOWN_MAX, Story, sentence, warnings_in
from strandline_proto.v1 import watch_pb2

if TYPE_CHECKING:
    from pathlib import Path


def isr(topic: str = "t", time_ms: int = 1000) -> watch_pb2.WatchEvent:
    change = watch_pb2.IsrEvent(topic=topic, partition=3, former_isr=[1, 2], isr=[2])
    return watch_pb2.WatchEvent(time_ms=time_ms, isr=change)


def election(**fields: object) -> watch_pb2.WatchEvent:
    given = {"topic": "t", "partition": 0, "leader_epoch": 4, "former_leader": 1, "broker_id": 1}
    reason = watch_pb2.ELECTION_REASON_BROKER_FENCED
    made = watch_pb2.ElectionEvent(**{**given, "reason": reason, **fields})  # type: ignore[arg-type]
    return watch_pb2.WatchEvent(time_ms=2000, election=made)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (isr(), "ISR of t:3 [1, 2] -> [2]"),
        (
            election(leader_id=2),
            "leader of t:0 broker 1 -> broker 2, epoch 4: broker fenced (broker 1)",
        ),
        (election(), "leader of t:0 broker 1 -> none, epoch 4: broker fenced (broker 1)"),
        (
            election(leader_id=3, unclean=True),
            "leader of t:0 broker 1 -> broker 3, epoch 4, UNCLEAN: broker fenced (broker 1)",
        ),
        (election(reason=watch_pb2.ELECTION_REASON_TOPIC_CREATED), None),
        (
            watch_pb2.WatchEvent(
                broker=watch_pb2.BrokerEvent(
                    broker_id=2, kind=watch_pb2.BROKER_EVENT_KIND_FENCED, why="its process is gone"
                )
            ),
            "broker 2 fenced: its process is gone",
        ),
        (
            watch_pb2.WatchEvent(
                loss=watch_pb2.LossEvent(broker_id=1, topic="t", start_offset=5, end_offset=9)
            ),
            "LOSS: broker 1 lost offsets 5 to 9 of t:0",
        ),
        (
            watch_pb2.WatchEvent(controller=watch_pb2.ControllerEvent(controller_epoch=2)),
            "the controller began epoch 2",
        ),
        (watch_pb2.WatchEvent(topic=watch_pb2.TopicEvent(topic="t")), None),
        (watch_pb2.WatchEvent(), None),
    ],
)
def test_an_event_in_words(event: watch_pb2.WatchEvent, said: str | None) -> None:
    assert sentence(event) == said


def story(**logs: Path) -> Story:
    return Story("c", lambda: None, logs, now=lambda: 3.0)


def heard(**logs: Path) -> Story:
    """A story whose controller has sent a frame."""
    told = story(**logs)
    told.take(watch_pb2.WatchResponse(time_ms=1))
    return told


def texts(told: Story) -> list[str]:
    return [line.partition(" ")[2] for line in told.lines()]


def test_events_stand_in_the_order_of_their_time() -> None:
    told = heard()
    told.take(watch_pb2.WatchResponse(events=[election(leader_id=2), isr()]))
    told.note("the test: kill(1)")
    assert texts(told) == [
        "ISR of t:3 [1, 2] -> [2]",
        "leader of t:0 broker 1 -> broker 2, epoch 4: broker fenced (broker 1)",
        "the test: kill(1)",
    ]


def test_a_new_test_begins_without_the_events_before() -> None:
    told = heard()
    told.take(watch_pb2.WatchResponse(events=[isr()]))
    told.begin()
    assert told.lines() == []


def test_internal_topics_are_counted_and_spare_topics_left_out() -> None:
    told = heard()
    told.is_hidden = lambda topic: topic == "spare"
    told.take(watch_pb2.WatchResponse(events=[isr("__consumer_offsets"), isr("spare"), isr()]))
    assert texts(told)[0] == "ISR of t:3 [1, 2] -> [2]"
    assert told.lines()[1:] == ["(and 1 elections and ISR changes of internal topics)"]


def test_events_that_the_stream_has_skipped_are_counted() -> None:
    told = heard()
    told.take(watch_pb2.WatchResponse(events_lost=7, time_ms=1))
    assert texts(told) == ["7 events were not reported"]


def test_a_long_report_keeps_the_newest_events() -> None:
    told = heard()
    events = [isr(f"t{n}", n) for n in range(SHOWN_MAX + 2)]
    told.take(watch_pb2.WatchResponse(events=events))
    assert told.lines()[0] == "(2 earlier events are left out)"
    assert f"t{SHOWN_MAX + 1}:3" in told.lines()[-1]
    assert len(told.lines()) == SHOWN_MAX + 1


def test_warnings_of_the_log_since_the_test_began(tmp_path: Path) -> None:
    log = tmp_path / "broker-1.log"
    log.write_text("2026-11-30T03:05:44Z warning broker-1 before\n")
    told = heard(**{"broker 1": log})
    assert told.lines() == []
    with log.open("a") as more:
        more.write("2026-11-30T03:05:46Z info    broker-1 fine\n")
        more.write("2026-11-30T03:05:47Z warning broker-1 slow disk path=/d\n")
    assert texts(told) == ["broker 1 warning: broker-1 slow disk path=/d"]


def test_warnings_of_both_log_formats() -> None:
    found = warnings_in(
        "b",
        "2026-11-30T03:05:47Z error broker-1 lost\n"
        "Traceback (most recent call last):\n"
        '{"timestamp":"2026-11-30T03:05:48Z","level":"warning","event":"slow","n":1}\n'
        '{"timestamp":"2026-11-30T03:05:48Z","level":"info","event":"fine"}\n'
        "strandline: stopping at once: a task failed\n"
        "not a line of a log\n",
    )
    assert [text for _, text in found] == [
        "b error: broker-1 lost",
        "b warning: slow n=1",
        "b error: strandline: stopping at once: a task failed",
    ]


def test_a_log_that_is_not_there_has_no_warnings(tmp_path: Path) -> None:
    assert heard(gone=tmp_path / "none.log").lines() == []


def test_a_controller_that_was_never_reached_is_named() -> None:
    assert story().lines() == [
        "(the controller was not reached: elections and ISR changes are unknown)"
    ]
    story().settle()  # there is nothing to wait for


def test_a_report_waits_for_a_frame_that_is_built_after_the_failure() -> None:
    told = heard()
    told.settle(wait_s=0.05)  # the last frame is older: the limit ends the wait
    told.take(watch_pb2.WatchResponse(time_ms=3000, events=[isr()]))
    told.settle(wait_s=600)
    assert texts(told) == ["ISR of t:3 [1, 2] -> [2]"]
