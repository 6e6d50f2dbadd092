"""The throttle of copies: the rate holds over time, and every rate lets copies end."""

import pytest

from strandline_broker.core.replication.copy_quota import UNLIMITED, WAIT_MS_MAX, CopyQuota, chunk


def copied_within(quota: CopyQuota, *, rate: int, batch: int, ms: int, start_ms: int = 0) -> int:
    """Bytes that a follower gets that asks each 10 ms."""
    total = 0
    for now_ms in range(start_ms, start_ms + ms, 10):
        if quota.wait_ms(rate=rate, now_ms=now_ms) == 0:
            quota.on_copied(batch, rate=rate, now_ms=now_ms)
            total += batch
    return total


@pytest.mark.parametrize("batch", [100, 10_000, 90_000])
def test_over_time_the_rate_is_kept_whatever_the_size_of_a_batch(batch: int) -> None:
    total = copied_within(CopyQuota(), rate=50_000, batch=batch, ms=20_000)
    assert total <= 1_000_000 + batch
    if batch >= 10_000:  # fewer bytes than the rate gives in 10 ms are bound by the asking
        assert total >= 900_000


def test_silence_saves_nothing_up() -> None:
    quota = CopyQuota()
    assert copied_within(quota, rate=1000, batch=100, ms=1000, start_ms=60_000) <= 1100


def test_a_batch_that_is_large_for_the_rate_passes_all_the_same() -> None:
    quota = CopyQuota()
    assert quota.wait_ms(rate=1, now_ms=0) == 0
    quota.on_copied(1_000_000, rate=1, now_ms=0)
    assert quota.wait_ms(rate=1, now_ms=WAIT_MS_MAX - 1) == 1
    assert quota.wait_ms(rate=1, now_ms=WAIT_MS_MAX) == 0


def test_another_rate_counts_at_once() -> None:
    quota = CopyQuota()
    quota.on_copied(10_000, rate=1_000, now_ms=0)
    assert quota.wait_ms(rate=1_000, now_ms=100) > 0
    assert quota.wait_ms(rate=1_000_000, now_ms=110) == 0
    quota.on_copied(1_000_000, rate=1_000_000, now_ms=110)
    assert quota.wait_ms(rate=1, now_ms=200) > 0
    assert quota.wait_ms(rate=1, now_ms=200 + WAIT_MS_MAX) == 0, (
        "an old debt is cut to the new rate"
    )


def test_no_limit_forgets_the_debt() -> None:
    quota = CopyQuota()
    quota.on_copied(10_000, rate=1_000, now_ms=0)
    assert quota.wait_ms(rate=UNLIMITED, now_ms=1) == 0
    quota.on_copied(10**12, rate=UNLIMITED, now_ms=1)
    assert quota.wait_ms(rate=1_000, now_ms=WAIT_MS_MAX + 1) == 0


def test_a_clock_that_stands_still_pays_nothing() -> None:
    quota = CopyQuota()
    quota.on_copied(100, rate=1_000, now_ms=50)
    assert quota.wait_ms(rate=1_000, now_ms=50) > 0
    assert quota.wait_ms(rate=1_000, now_ms=40) > 0
    assert quota.wait_ms(rate=1_000, now_ms=149) > 0
    assert quota.wait_ms(rate=1_000, now_ms=150) == 0


def test_a_second_of_the_rate_is_read_at_once() -> None:
    assert chunk(1000, 50) == 50
    assert chunk(1000, 5000) == 1000
    assert chunk(1000, 0) == 1
