"""What may be cleaned, and what is cleaned next (I-69)."""

from dataclasses import replace

import pytest

from strandline_broker.core.cleaning import (
    INT64_MAX,
    CompactedLog,
    LogToClean,
    SealedSegment,
    judge,
    next_to_clean,
    within_log,
)

NOW_MS = 1_000_000


def sealed(
    base: int, end: int, *, size: int = 100, latest: int = 0, first: int = 0
) -> SealedSegment:
    return SealedSegment(base, end, size, latest, first)


LOG = CompactedLog(
    cleaned_to=10,
    committed=40,
    sealed=(sealed(0, 10), sealed(10, 20), sealed(20, 30), sealed(30, 40)),
    min_dirty_ratio=0.5,
    min_lag_ms=0,
    max_lag_ms=INT64_MAX,
)


def test_everything_sealed_and_committed_may_be_cleaned() -> None:
    assert judge(LOG, now_ms=NOW_MS) == LogToClean(10, 40, 0.75, wanted=True)


@pytest.mark.parametrize(("committed", "bound"), [(39, 30), (30, 30), (29, 20), (9, 10), (100, 40)])
def test_a_segment_that_is_not_committed_whole_ends_what_may_be_cleaned(
    committed: int, bound: int
) -> None:
    found = judge(replace(LOG, committed=committed), now_ms=NOW_MS)
    assert found.first_uncleanable == bound


def test_a_dirty_segment_younger_than_the_minimal_lag_and_all_behind_it_stay() -> None:
    young = sealed(20, 30, latest=NOW_MS - 99)
    log = replace(LOG, sealed=(*LOG.sealed[:2], young, LOG.sealed[3]), min_lag_ms=100)
    assert judge(log, now_ms=NOW_MS).first_uncleanable == 20
    assert judge(log, now_ms=NOW_MS + 1).first_uncleanable == 40
    assert judge(replace(log, min_lag_ms=0), now_ms=NOW_MS).first_uncleanable == 40


def test_the_lag_does_not_matter_to_what_was_cleaned_before() -> None:
    log = replace(LOG, sealed=(sealed(0, 10, latest=NOW_MS), *LOG.sealed[1:]), min_lag_ms=100)
    assert judge(log, now_ms=NOW_MS).first_uncleanable == 40


def test_a_log_is_cleaned_when_its_dirty_share_is_above_the_ratio() -> None:
    half = replace(LOG, cleaned_to=20)
    assert judge(half, now_ms=NOW_MS) == LogToClean(20, 40, 0.5, wanted=False)
    assert judge(replace(half, min_dirty_ratio=0.49), now_ms=NOW_MS).wanted


def test_nothing_dirty_is_never_cleaned() -> None:
    log = replace(LOG, cleaned_to=40, min_dirty_ratio=0.0, max_lag_ms=1)
    assert judge(log, now_ms=NOW_MS) == LogToClean(40, 40, 0.0, wanted=False)
    assert not judge(replace(log, sealed=()), now_ms=NOW_MS).wanted


def test_a_segment_that_was_cleaned_in_part_counts_as_dirty() -> None:
    assert judge(replace(LOG, cleaned_to=15), now_ms=NOW_MS).dirty_ratio == 0.75


def test_what_is_uncleanable_does_not_count_into_the_ratio() -> None:
    assert judge(replace(LOG, committed=20), now_ms=NOW_MS).dirty_ratio == 0.5


def test_a_record_older_than_the_maximal_lag_makes_a_log_due_whatever_its_ratio() -> None:
    old = sealed(30, 40, first=NOW_MS - 101)
    log = replace(LOG, cleaned_to=30, sealed=(*LOG.sealed[:3], old), min_dirty_ratio=0.9)
    assert not judge(log, now_ms=NOW_MS).wanted
    assert judge(replace(log, max_lag_ms=100), now_ms=NOW_MS).wanted
    assert not judge(replace(log, max_lag_ms=101), now_ms=NOW_MS).wanted
    unknown = replace(log, sealed=(*LOG.sealed[:3], replace(old, first_timestamp=-1)), max_lag_ms=1)
    assert not judge(unknown, now_ms=NOW_MS).wanted


def test_only_what_may_be_cleaned_makes_a_log_due() -> None:
    log = replace(LOG, cleaned_to=10, committed=10, max_lag_ms=1)
    assert not judge(log, now_ms=NOW_MS).wanted


def test_the_greatest_dirty_ratio_comes_next_among_those_that_should_be_cleaned() -> None:
    verdicts = [
        ("quiet", LogToClean(0, 10, 0.9, wanted=False)),
        ("some", LogToClean(0, 10, 0.3, wanted=True)),
        ("more", LogToClean(0, 10, 0.6, wanted=True)),
    ]
    assert next_to_clean(verdicts) == "more"
    assert next_to_clean(verdicts[:1]) is None
    assert next_to_clean([]) is None


@pytest.mark.parametrize(
    ("checkpointed", "believed"), [(0, 5), (4, 5), (5, 5), (7, 7), (9, 9), (10, 5)]
)
def test_a_checkpoint_outside_the_log_begins_anew_at_the_log_start(
    checkpointed: int, believed: int
) -> None:
    assert within_log(checkpointed, log_start=5, log_end=9) == believed
