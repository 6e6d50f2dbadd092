"""What a producer's batch is refused for before it is appended, and under which code."""

from dataclasses import replace

import cramjam
import pytest
from structlog.testing import CapturingLogger

from strandline_broker.hosts.replica.record_check import check_records, warn_of_slow_checks
from strandline_broker.storage.log.config import LogConfig
from strandline_proto.batch import Compression, build_batch, check_batch
from strandline_proto.errors import InvalidRecord, InvalidTimestamp, RecordTooLarge, WireError
from support.hostile import batch_of, zstd_bomb
from support.record_bytes import Fields, record

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
CONFIG = LogConfig()
STAMPED = replace(CONFIG, message_timestamp_type="LogAppendTime")
COMPACTED = replace(CONFIG, cleanup_policy=("compact",))


def check(batch: bytes, config: LogConfig = CONFIG) -> None:
    check_records("orders-0", batch, check_batch(batch), config, NOW_MS)


def refusal(batch: bytes, config: LogConfig = CONFIG) -> WireError:
    with pytest.raises(WireError, match=r"^orders-0") as caught:
        check(batch, config)
    return caught.value


def at(*times: int, latest: int | None = None) -> bytes:
    """A batch of records of these times, which says that `latest` is the latest of them."""
    body = b"".join(record(Fields(i, time - NOW_MS)) for i, time in enumerate(times))
    largest = max(times) if latest is None else latest
    return batch_of(body, Compression.NONE, records=len(times), base_ms=NOW_MS, latest_ms=largest)


ONE = record(Fields())
HOSTILE = {
    "random bytes": (b"\x07\xf3 no records\x91\xff", 1, "record 0 of the batch has a length of -4"),
    "a count of 3 with one record": (ONE, 3, "record 1 of the batch is not there"),
    "two records where one counts": (ONE + record(Fields(1)), 1, "record 1 of the batch is not am"),
    "a wrong delta": (
        ONE + record(Fields(2)) + record(Fields(2)),
        3,
        "record 1 of the batch has offset delta 2",
    ),
    "a record cut off": (
        ONE + record(Fields(1))[:-1],
        2,
        "record 1 of the batch has a length of 8",
    ),
}


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "zipped"])
@pytest.mark.parametrize("name", HOSTILE)
def test_records_that_do_not_fill_their_batch_are_refused(name: str, zipped: bool) -> None:
    body, count, says = HOSTILE[name]
    codec = Compression.ZSTD if zipped else Compression.NONE
    if zipped:
        body = bytes(cramjam.zstd.compress(body))
    error = refusal(batch_of(body, codec, records=count))
    assert type(error) is InvalidRecord
    assert says in str(error)


def test_what_does_not_unpack_is_refused_for_good_and_a_bomb_with_its_bound() -> None:
    assert type(refusal(batch_of(b"no zstd", Compression.ZSTD))) is InvalidRecord
    with pytest.raises(RecordTooLarge, match=r"raise the topic's max\.message\.decompressed"):
        check(batch_of(zstd_bomb(2_100_000_000), Compression.ZSTD))


@pytest.mark.parametrize("codec", list(Compression))
def test_what_the_client_builds_is_accepted(codec: Compression) -> None:
    pairs = [(b"k%d" % i, b"v" * i) for i in range(100)]
    check(build_batch(pairs, timestamp_ms=NOW_MS, compression=codec), COMPACTED)


def test_a_largest_timestamp_that_no_record_has_is_refused() -> None:
    check(at(NOW_MS, NOW_MS + 5, NOW_MS - 5))
    for latest in (1 << 62, NOW_MS + 6, NOW_MS, -1):
        error = refusal(at(NOW_MS, NOW_MS + 5, latest=latest))
        assert type(error) is InvalidTimestamp
        assert f"maximum timestamp is {latest}, the latest of its 2 records' {NOW_MS + 5}" in str(
            error
        )


def test_times_lie_within_the_topics_bounds() -> None:
    check(at(0, NOW_MS + HOUR_MS))
    narrow = replace(CONFIG, message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=0)
    check(at(NOW_MS - 1000, NOW_MS), narrow)
    for config, time, key in (
        (CONFIG, NOW_MS + HOUR_MS + 1, "message.timestamp.after.max.ms=3600000"),
        (narrow, NOW_MS + 1, "message.timestamp.after.max.ms=0"),
        (narrow, NOW_MS - 1001, "message.timestamp.before.max.ms=1000"),
    ):
        error = refusal(at(NOW_MS, time), config)
        assert type(error) is InvalidTimestamp
        assert f"record 1 of the batch has timestamp {time}, further than {key}" in str(error)


def test_a_record_may_have_no_timestamp() -> None:
    narrow = replace(CONFIG, message_timestamp_before_max_ms=0, message_timestamp_after_max_ms=0)
    check(at(-1), narrow)
    assert type(refusal(at(-2), narrow)) is InvalidTimestamp
    assert type(refusal(at(-1, latest=NOW_MS), narrow)) is InvalidTimestamp


def test_bounds_beyond_64_bits_are_none() -> None:
    widest = replace(CONFIG, message_timestamp_after_max_ms=2**63 - 1)
    for time in (2**63 - 1, -5, NOW_MS - 2**63 + 1):
        check(at(time), widest)
    error = refusal(batch_of(record(Fields(0, 1)), Compression.NONE, base_ms=2**63 - 1), widest)
    assert type(error) is InvalidTimestamp
    assert "timestamp delta 1 to 9223372036854775807" in str(error)


def test_the_leaders_clock_makes_the_producers_times_matter_no_more() -> None:
    check(at(NOW_MS + 2 * HOUR_MS, latest=1 << 62), STAMPED)
    assert type(refusal(batch_of(ONE, Compression.NONE, records=2), STAMPED)) is InvalidRecord


def test_a_compacted_topic_needs_keys_and_others_do_not() -> None:
    body = ONE + record(Fields(1, key=None))
    batch = batch_of(body, Compression.NONE, records=2)
    check(batch)
    error = refusal(batch, COMPACTED)
    assert type(error) is InvalidRecord
    assert "record 1 of the batch has none: give it a key" in str(error)


def test_a_broker_says_once_that_its_checks_are_slow() -> None:
    told = CapturingLogger()
    warn_of_slow_checks(told, is_compiled=True)
    assert told.calls == []
    warn_of_slow_checks(told, is_compiled=False)
    (call,) = told.calls
    assert (call.method_name, "install a C compiler" in call.kwargs["remedy"]) == ("warning", True)
