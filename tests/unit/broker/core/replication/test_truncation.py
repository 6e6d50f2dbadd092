"""Where a follower cuts its log, and what it may believe committed."""

import pytest

from strandline_broker.core.replication.truncation import (
    Truncation,
    follower_high_watermark,
    follower_log_start,
    truncation_target,
)
from strandline_proto.ids import Offset
from support.replica_log import Entry, ReplicaLog


def log(*epochs: int, start: int = 0) -> ReplicaLog:
    """One record of each of these epochs."""
    made = ReplicaLog(log_start_offset=Offset(start))
    for epoch in epochs:
        made.append(Entry(epoch, f"{epoch}@{made.log_end_offset}"))
    return made


def target(own: ReplicaLog, epoch: int, end: int) -> Truncation | None:
    return truncation_target(epoch, end, log_end_offset=own.log_end_offset, history=own)


def test_a_log_that_is_longer_in_the_same_epoch_is_cut_to_the_leaders_end() -> None:
    assert target(log(1, 1, 1, 1), 1, 2) == Truncation(Offset(2), finished=True)


def test_a_log_whose_latest_epoch_is_older_is_cut_to_the_leaders_end() -> None:
    assert target(log(1, 1, 1), 2, 2) == Truncation(Offset(2), finished=True)


def test_nothing_is_cut_beyond_the_end_of_the_own_log() -> None:
    assert target(log(1, 1), 2, 9) == Truncation(Offset(2), finished=True)
    assert target(log(1, 2), 1, 9) == Truncation(Offset(1), finished=True)


def test_a_newer_epoch_that_the_leader_never_had_is_cut_away() -> None:
    assert target(log(1, 1, 3, 3), 1, 4) == Truncation(Offset(2), finished=True)


def test_of_a_common_epoch_the_shorter_end_counts() -> None:
    assert target(log(1, 1, 1, 3), 1, 2) == Truncation(Offset(2), finished=True)


def test_an_epoch_that_is_not_known_here_needs_another_round() -> None:
    # The leader's epochs are 1, 2, 4 and this log's 1, 3: asked for 3, the leader found 2.
    assert target(log(1, 1, 3, 3), 2, 5) == Truncation(Offset(2), finished=False), "P-2"


def test_a_log_that_begins_in_a_newer_epoch_keeps_nothing() -> None:
    assert target(log(5, 5, start=10), 3, 10) == Truncation(Offset(10), finished=True)
    assert target(log(5, 5, start=10), 3, 12) == Truncation(Offset(10), finished=True)
    assert target(log(5, 5, start=10), 3, 7) == Truncation(Offset(7), finished=True)


def test_an_epoch_without_records_is_dropped_by_a_cut_at_the_end() -> None:
    own = log(1, 1)
    own.assign_epoch(3)
    assert target(own, 2, 4) == Truncation(Offset(2), finished=False), "I-47"


@pytest.mark.parametrize(("epoch", "end"), [(-1, -1), (-1, 5), (3, -1), (-7, 1)])
def test_nothing_is_cut_if_the_leader_cannot_say(epoch: int, end: int) -> None:
    assert target(log(1, 2), epoch, end) is None


@pytest.mark.parametrize(
    ("own", "log_start", "leader", "end", "expected"),
    [
        (3, 0, 5, 10, 5),
        (3, 0, 12, 10, 10),
        (7, 0, 5, 10, 7),
        (0, 6, 5, 10, 6),
        (0, 0, -1, 10, 0),
    ],
    ids=[
        "the leader's, as far as it is held here",
        "no further than the own log",
        "never back",
        "never below the log start",
        "unknown to the leader",
    ],
)
def test_the_high_watermark_of_a_follower(
    own: int, log_start: int, leader: int, end: int, expected: int
) -> None:
    got = follower_high_watermark(
        own, log_start_offset=log_start, leader_high_watermark=leader, log_end_offset=end
    )
    assert got == expected


def test_the_log_start_of_a_follower_follows_its_leader_up_to_its_high_watermark() -> None:
    assert follower_log_start(3, leader_log_start=5, high_watermark=9) == 5
    assert follower_log_start(3, leader_log_start=12, high_watermark=9) == 9
    assert follower_log_start(6, leader_log_start=5, high_watermark=9) == 6
