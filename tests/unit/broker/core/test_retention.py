"""Which segments go: by age, by size, by the log's start; never beyond the high watermark."""

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.retention import RetentionLimits, SegmentFacts, expired

FOREVER = RetentionLimits(deletes=True, retention_ms=-1, retention_bytes=-1)


def segments(*timestamps: int, size: int = 100) -> list[SegmentFacts]:
    """Ten offsets each."""
    return [SegmentFacts(10 * (i + 1), size, t) for i, t in enumerate(timestamps)]


def gone(
    of: list[SegmentFacts],
    limits: RetentionLimits = FOREVER,
    *,
    start: int = 0,
    committed: int = 1 << 40,
    now_ms: int = 0,
) -> int:
    return expired(of, limits, log_start_offset=start, last_stable_offset=committed, now_ms=now_ms)


def by_age(retention_ms: int, *, deletes: bool = True) -> RetentionLimits:
    return RetentionLimits(deletes=deletes, retention_ms=retention_ms, retention_bytes=-1)


def by_size(retention_bytes: int, *, deletes: bool = True) -> RetentionLimits:
    return RetentionLimits(deletes=deletes, retention_ms=-1, retention_bytes=retention_bytes)


def test_without_limits_nothing_goes() -> None:
    assert gone(segments(0, 0, 0), now_ms=1 << 50) == 0


def test_a_segment_goes_once_its_latest_record_is_older_than_the_limit() -> None:
    assert gone(segments(100, 200, 300), by_age(50), now_ms=150) == 0
    assert gone(segments(100, 200, 300), by_age(50), now_ms=151) == 1
    assert gone(segments(100, 200, 300), by_age(50), now_ms=251) == 2


def test_when_all_is_too_old_the_active_segment_goes_too() -> None:
    assert gone(segments(100, 200, 300), by_age(50), now_ms=351) == 3


def test_no_time_at_all_is_a_limit() -> None:
    assert gone(segments(5, 9), by_age(0), now_ms=9) == 1


def test_a_young_segment_keeps_those_behind_it() -> None:
    assert gone(segments(100, 900, 100), by_age(50), now_ms=500) == 1


def test_a_timestamp_in_the_future_is_never_too_old() -> None:
    assert gone(segments(10_000), by_age(0), now_ms=500) == 0


def test_a_segment_goes_if_what_follows_is_enough() -> None:
    of = segments(0, 0, 0, 0)
    assert gone(of, by_size(400)) == 0
    assert gone(of, by_size(301)) == 0
    assert gone(of, by_size(300)) == 1
    assert gone(of, by_size(299)) == 1
    assert gone(of, by_size(0)) == 4


def test_what_lies_below_the_log_start_goes() -> None:
    of = segments(0, 0, 0)
    assert [gone(of, start=start) for start in (0, 9, 10, 19, 20, 30)] == [0, 0, 1, 1, 2, 3]


def test_rules_take_turns() -> None:
    limits = RetentionLimits(deletes=True, retention_ms=50, retention_bytes=200)
    assert gone(segments(900, 100, 900, 900, 900), limits, now_ms=920, start=10) == 3


def test_only_the_log_start_counts_where_the_policy_does_not_delete() -> None:
    of = segments(0, 0, 0)
    assert gone(of, by_age(0, deletes=False), now_ms=1000) == 0
    assert gone(of, by_size(0, deletes=False)) == 0
    assert gone(of, by_age(0, deletes=False), now_ms=1000, start=20) == 2, "KAFKA-7400"


def test_nothing_goes_at_or_beyond_the_last_stable_offset() -> None:
    of = segments(0, 0, 0)
    committed = [gone(of, by_age(0), now_ms=9, committed=c) for c in (0, 9, 10, 19, 20, 29, 30)]
    assert committed == [0, 0, 1, 1, 2, 2, 3], "I-74"
    assert gone(of, by_size(0), committed=15) == 1
    assert gone(of, start=20, committed=19) == 1


def test_an_empty_active_segment_stays() -> None:
    of = [*segments(0, 0), SegmentFacts(20, 0, 0)]
    assert gone(of, by_age(0), now_ms=100) == 2
    assert gone([SegmentFacts(0, 0, 0)], by_age(0), now_ms=100) == 0


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    retention_bytes=st.integers(-1, 300),
    committed=st.integers(0, 90),
)
def test_by_size_at_least_the_limit_is_kept_and_no_segment_more(
    sizes: list[int], retention_bytes: int, committed: int
) -> None:
    of = [SegmentFacts(10 * (i + 1), size, 0) for i, size in enumerate(sizes)]
    count = gone(of, by_size(retention_bytes), committed=committed)
    kept = sum(sizes[count:])
    if count:
        assert kept >= retention_bytes >= 0
        assert of[count - 1].end_offset <= committed
    if count < len(of) and of[count].end_offset <= committed and retention_bytes >= 0:
        assert kept - sizes[count] < retention_bytes
