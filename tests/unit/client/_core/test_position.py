"""A consumer's position: validated after every change of leader, never read over a truncation."""

from __future__ import annotations

import pytest

from strandline._core.position import EARLIEST, LATEST, Phase, Position
from strandline.errors import LogTruncated, OffsetOutOfRange
from strandline.types import TopicPartition


def make(policy: int | None = None) -> Position:
    return Position(TopicPartition("t", 0), b"i" * 16, policy)


def reading(policy: int | None = None, *, offset: int = 50, epoch: int = 3) -> Position:
    """A position at `offset` whose records all have been delivered, validated in epoch 3."""
    position = make(policy)
    position.seek(offset - 10, -1)
    position.on_leader(epoch)
    assert position.on_fetched(position.generation, offset, epoch)
    position.on_delivered(offset, epoch)
    return position


def at(position: Position, phase: Phase) -> bool:
    return position.phase is phase


def test_a_position_without_an_epoch_is_fetched_from_at_once() -> None:
    position = make()
    position.seek(7, -1)
    position.on_leader(3)
    assert at(position, Phase.FETCHING)
    assert position.validated_epoch == 3


def test_a_position_with_an_epoch_is_validated_first() -> None:
    position = make()
    position.seek(7, 2)
    assert at(position, Phase.VALIDATING)
    position.on_epoch_end(position.generation, leader_epoch=3, found_epoch=2, end_offset=7)
    assert at(position, Phase.FETCHING)
    assert position.fetch_offset == 7


def test_a_new_leader_is_asked_whether_it_has_what_was_read() -> None:
    position = reading()
    position.on_leader(3)
    assert at(position, Phase.FETCHING)
    position.on_leader(4)
    assert at(position, Phase.VALIDATING)


def test_a_late_answer_of_an_old_leader_is_no_news() -> None:
    position = reading(offset=50, epoch=3)
    generation = position.generation
    position.on_leader(4)
    position.on_epoch_end(generation, leader_epoch=4, found_epoch=3, end_offset=50)
    assert position.awaits(generation, 50)
    assert position.on_fetched(generation, 53, 4)
    assert not position.awaits(generation, 50)
    assert position.awaits(generation, 53)
    position.seek(53, 4)
    assert not position.awaits(generation, 53)


def test_a_truncated_log_is_an_error_that_names_where_histories_part() -> None:
    position = reading()
    position.on_leader(4)
    position.on_epoch_end(position.generation, leader_epoch=4, found_epoch=3, end_offset=49)
    assert at(position, Phase.FAILED)
    assert isinstance(position.error, LogTruncated)
    assert position.error.divergent_offset == 49


def test_an_unknown_epoch_is_a_truncation_without_a_common_offset() -> None:
    position = reading()
    position.on_leader(4)
    position.on_epoch_end(position.generation, leader_epoch=4, found_epoch=-1, end_offset=-1)
    assert isinstance(position.error, LogTruncated)
    assert position.error.divergent_offset is None


def test_by_policy_a_truncation_goes_on_where_histories_part() -> None:
    position = reading(EARLIEST)
    position.on_diverging(position.generation, found_epoch=3, end_offset=40)
    assert (position.phase, position.fetch_offset) == (Phase.FETCHING, 40)
    position = reading(LATEST)
    position.on_diverging(position.generation, found_epoch=-1, end_offset=-1)
    assert (position.phase, position.reset_to) == (Phase.RESETTING, LATEST)


@pytest.mark.parametrize("policy", [EARLIEST, None])
def test_an_older_epoch_that_goes_on_for_longer_leads_back_to_where_the_newer_one_began(
    policy: int | None,
) -> None:
    """The leader never had epoch 5: up to its end at 80 it holds what nobody has read."""
    position = reading(policy, offset=45)
    assert position.on_fetched(position.generation, 50, 5)
    position.on_delivered(50, 5)
    position.on_leader(6)
    assert position.on_epoch_end(position.generation, leader_epoch=6, found_epoch=3, end_offset=80)
    if policy is None:
        assert isinstance(position.error, LogTruncated)
        assert position.error.divergent_offset == 45
    else:
        assert (position.phase, position.fetch_offset) == (Phase.FETCHING, 45)


@pytest.mark.parametrize(("end_offset", "parted"), [(80, 49), (49, 49), (20, 20)])
def test_a_saved_position_knows_only_that_the_record_before_it_is_gone(
    end_offset: int, parted: int
) -> None:
    position = make(EARLIEST)
    position.seek(50, 5)
    position.on_epoch_end(position.generation, leader_epoch=6, found_epoch=5, end_offset=50)
    position.on_diverging(position.generation, found_epoch=3, end_offset=end_offset)
    assert (position.phase, position.fetch_offset) == (Phase.FETCHING, parted)


def test_trouble_ahead_of_what_was_delivered_only_rewinds() -> None:
    position = reading()
    position.on_fetched(position.generation, 60, 3)
    position.on_diverging(position.generation, found_epoch=3, end_offset=55)
    assert position.error is None
    assert at(position, Phase.VALIDATING)
    assert (position.fetch_offset, position.fetch_epoch) == (50, 3)
    position = reading()
    position.on_fetched(position.generation, 60, 3)
    position.on_out_of_range(position.generation, 0)
    assert (position.error, position.fetch_offset) == (None, 50)


def test_out_of_range_is_an_error_or_a_reset_by_policy() -> None:
    position = reading()
    position.on_out_of_range(position.generation, 70)
    assert isinstance(position.error, OffsetOutOfRange)
    assert "starts at 70" in str(position.error)
    position = reading(EARLIEST)
    position.on_out_of_range(position.generation, 70)
    assert (position.phase, position.reset_to) == (Phase.RESETTING, EARLIEST)


def test_answers_to_questions_of_before_a_seek_are_dropped() -> None:
    position = reading()
    old = position.generation
    position.seek(5, -1)
    assert not position.on_fetched(old, 60, 3)
    position.on_diverging(old, found_epoch=3, end_offset=1)
    position.on_out_of_range(old, 1)
    assert (position.phase, position.fetch_offset) == (Phase.FETCHING, 5)
    position.reset(EARLIEST)
    position.on_listed(old, 3, 1)
    assert at(position, Phase.RESETTING)
    position.seek(9, 2)
    position.on_epoch_end(old, leader_epoch=4, found_epoch=-1, end_offset=-1)
    assert at(position, Phase.VALIDATING)


def test_a_reset_ends_where_the_leader_says() -> None:
    position = make(EARLIEST)
    position.reset(EARLIEST)
    position.on_listed(position.generation, 12, 6)
    assert (position.offset, position.fetch_offset, position.fetch_epoch) == (12, 12, -1)
    assert at(position, Phase.FETCHING)


def test_batches_before_the_position_do_not_move_it_back() -> None:
    position = reading()
    assert position.on_fetched(position.generation, 45, 3)
    assert position.fetch_offset == 50


def test_a_failed_position_stays_failed_until_it_is_moved() -> None:
    position = reading()
    position.fail(ValueError("first"))
    position.fail(ValueError("second"))
    assert str(position.error) == "first"
    position.on_leader(9)
    assert at(position, Phase.FAILED)
    position.seek(1, -1)
    assert position.error is None
    assert at(position, Phase.FETCHING)
