"""The pauses after which gold steps run without a batch, on a hand-made clock."""

from __future__ import annotations

from strandline_spark.gold.pauses import Pauses


def test_a_pause_is_over_once_and_begins_again_with_a_batch() -> None:
    now = [0.0]
    pauses = Pauses([10_000_000, None], lambda: now[0])
    assert not pauses.is_due()
    pauses.batch()
    now[0] = 9.9
    assert not pauses.is_due()
    now[0] = 10
    assert pauses.is_due()
    assert not pauses.is_due()
    pauses.batch()
    now[0] = 20
    assert pauses.is_due()


def test_a_topic_that_stopped_with_an_earlier_batch_is_looked_at_in_time() -> None:
    now = [0.0]
    pauses = Pauses([10_000_000], lambda: now[0])
    for now[0] in (0, 4, 8):
        pauses.batch()
    now[0] = 10
    assert pauses.is_due()
    now[0] = 17
    assert not pauses.is_due()
    now[0] = 18
    assert pauses.is_due()
    now[0] = 100
    assert not pauses.is_due()


def test_steps_that_wait_for_ever_have_no_pause() -> None:
    pauses = Pauses([None], lambda: 0.0)
    pauses.batch()
    assert not pauses.is_due()
