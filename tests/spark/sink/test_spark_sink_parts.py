"""The sink without Spark: options, columns, ids, where rows go and how they are cut."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from strandline_proto.ids import CHOSEN_PRODUCER_IDS
from strandline_proto.partitioner import partition_for
from strandline_spark.errors import OptionError, WriteFailed, remedy_line
from strandline_spark.sink.batches import EPOCHS, ROWS_PER_BATCH, Cut, Cutter, chosen_identity
from strandline_spark.sink.options import (
    Guarantee,
    check_append,
    check_for_batch_write,
    check_for_stream_write,
    check_output_mode,
    parse_sink_options,
)
from strandline_spark.sink.rows import Rows
from strandline_spark.sink.schema import check_columns
from strandline_spark.sink.sink import StrandlineWriter, Written

if TYPE_CHECKING:
    from strandline.batches import Row

BASE = {"kafka.bootstrap.servers": "h:1"}


_HEADER = StructType().add("key", StringType()).add("value", BinaryType())
_TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "headers": ArrayType(_HEADER),
    "map": MapType(StringType(), BinaryType()),
}


def schema(columns: str) -> StructType:
    """Columns as `name type, name type`."""
    made = StructType()
    for column in columns.split(", "):
        name, kind = column.split()
        made = made.add(name, _TYPES[kind])
    return made


# Options.


def test_settings_of_the_client_are_named_as_kafkas_with_or_without_the_prefix() -> None:
    options = parse_sink_options(
        BASE
        | {
            "topic": "t",
            "kafka.acks": "1",
            "COMPRESSION.TYPE": "zstd",
            "kafka.batch.size": "1000",
            "buffer.memory": "5000",
            "kafka.max.request.size": "2000",
            "max.in.flight.requests.per.connection": "3",
            "kafka.delivery.timeout.ms": "700",
            "request.timeout.ms": "300",
            "metadata.max.age.ms": "900",
            "checkpointlocation": "/c",
            "queryname": "q",
        }
    )
    assert (options.bootstrap, options.topic, options.acks) == (("h:1",), "t", "1")
    assert (options.compression_type, options.batch_bytes) == ("zstd", 1000)
    assert (options.buffer_memory, options.max_request_size, options.max_in_flight) == (
        5000,
        2000,
        3,
    )
    assert (options.delivery_timeout_ms, options.request_timeout_ms) == (700, 300)
    assert options.metadata_max_age_ms == 900
    assert options.producer()._options.acks == 1
    defaults = parse_sink_options(BASE)
    assert (defaults.topic, defaults.acks, defaults.guarantee) == (None, "all", None)
    assert (defaults.batch_bytes, defaults.compression_type) == (256 << 10, "none")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"kafka.linger.ms": "5"}, "cannot work here: a batch goes out when it is full"),
        ({"kafka.transactional.id": "x"}, "writes without transactions"),
        ({"key.serializer": "x"}, "encode it before"),
        ({"kafka.retries": "3"}, "set that"),
        ({"includeHeaders": "true"}, "a column headers is written"),
        ({"kafka.ack": "1"}, "sink; did you mean acks"),
        ({"subscribe": "t"}, "not supported by the strandline sink"),
        ({"path": "/x"}, "not supported"),
        ({"kafka.topic": "a", "topic": "b"}, "given twice"),
        ({"topic": " "}, "not the name of one topic"),
        ({"topic": "a,b"}, "not the name of one topic"),
        ({"acks": "2"}, "acks='2' is not accepted"),
        ({"acks": "1", "enable.idempotence": "true"}, "needs acks='all'"),
        ({"enable.idempotence": "yes"}, "neither true nor false"),
        ({"compression.type": "rar"}, "'rar' is not known"),
        ({"batch.size": "0"}, "above 0"),
        ({"batch.size": "2000", "max.request.size": "1999"}, "above max.request.size 1999"),
        ({"max.in.flight.requests.per.connection": "6"}, "at most 5"),
        ({"delivery.timeout.ms": "0"}, "not above 0"),
        ({"deliveryGuarantee": "once"}, "neither exactly-once nor at-least-once"),
        ({"kafka.bootstrap.servers": "h"}, "not host:port"),
    ],
)
def test_what_is_not_accepted_is_named_with_the_remedy(more: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        parse_sink_options(BASE | more)
    assert "\n" not in str(caught.value)


def test_a_guarantee_holds_where_it_can() -> None:
    exactly = parse_sink_options(BASE | {"deliveryGuarantee": "Exactly-Once"})
    assert exactly.guarantee is Guarantee.EXACTLY_ONCE
    check_for_stream_write(exactly)
    with pytest.raises(OptionError, match=r"for streams \(writeStream\)"):
        check_for_batch_write(exactly)
    for more in ({"acks": "1"}, {"acks": "0"}, {"enable.idempotence": "false"}):
        weaker = parse_sink_options(BASE | more)
        check_for_batch_write(weaker)
        with pytest.raises(OptionError, match="cannot be exactly once"):
            check_for_stream_write(weaker)
        check_for_stream_write(
            parse_sink_options(BASE | more | {"deliveryGuarantee": "at-least-once"})
        )


# Columns.


@pytest.mark.parametrize(
    "columns",
    [
        "value binary",
        "value string, key string",
        "key binary, value string, partition int, timestamp timestamp, headers headers",
    ],
)
def test_columns_of_these_names_and_types_are_written(columns: str) -> None:
    check_columns(schema(columns), "t")
    check_columns(schema(f"{columns}, topic string"), None)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("key binary", "needs a column value"),
        ("Value binary", "'Value'.*is not one that the strandline sink writes: drop it"),
        ("value binary, offset bigint", r"'offset' \(bigint\) is not one"),
        ("value int", "'value' is int, and .* takes binary or string: cast it"),
        ("value binary, key bigint", "'key' is bigint"),
        ("value binary, partition bigint", "'partition' is bigint, .* takes int"),
        ("value binary, timestamp timestamp_ntz", "'timestamp' is timestamp_ntz"),
        ("value binary, timestamp bigint", "takes timestamp"),
        ("value binary, headers map", "takes array<struct<key:string"),
        ("value binary, topic binary", "'topic' is binary"),
        ("value binary, value binary", "is there twice"),
    ],
)
def test_other_columns_and_types_are_refused_with_the_remedy(columns: str, message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        check_columns(schema(columns), "t")
    assert "\n" not in str(caught.value)


def test_rows_need_a_topic_and_a_log_is_not_overwritten() -> None:
    with pytest.raises(OptionError, match="Give the option topic, or a column topic"):
        check_columns(schema("value binary"), None)
    check_append(overwrite=False)
    with pytest.raises(OptionError, match="only appended to"):
        check_append(overwrite=True)


@pytest.mark.parametrize("guarantee", [None, "exactly-once", "at-least-once"])
def test_complete_mode_needs_the_guarantee_that_holds_in_it(guarantee: str | None) -> None:
    more = {} if guarantee is None else {"deliveryGuarantee": guarantee}
    options = parse_sink_options({"bootstrap.servers": "127.0.0.1:1", "topic": "t"} | more)
    check_output_mode(options, complete=False)
    if guarantee == "at-least-once":
        check_output_mode(options, complete=True)
    else:
        with pytest.raises(OptionError, match="set deliveryGuarantee=at-least-once"):
            check_output_mode(options, complete=True)


# Ids.


def test_the_same_work_has_the_same_id_and_epoch_and_other_work_another() -> None:
    one = chosen_identity("q", 3, 40_000, 6)
    assert one == chosen_identity("q", 3, 40_000, 6)
    assert one == (one.producer_id, 40_000 - EPOCHS)
    others = [
        chosen_identity("r", 3, 40_000, 6),
        chosen_identity("q", 4, 40_000, 6),
        chosen_identity("q", 3, 40_000 - EPOCHS, 6),
        chosen_identity("q", 3, 40_000, 7),
    ]
    assert len({one.producer_id, *(other.producer_id for other in others)}) == 5
    assert chosen_identity("q", 3, 65_533, 6) == (one.producer_id, 32_766)
    assert chosen_identity("q", 3, 65_534, 6).producer_epoch == 0


@given(st.text(), st.integers(0, 1 << 31), st.integers(0, 1 << 63), st.integers(1, 10_000))
def test_an_id_is_one_that_producers_choose_and_fits_a_batch(
    query: str, task: int, batch: int, partitions: int
) -> None:
    identity = chosen_identity(query, task, batch, partitions)
    assert identity.producer_id in CHOSEN_PRODUCER_IDS
    assert 0 <= identity.producer_epoch < 32_767


def test_an_id_does_not_change_with_the_version_of_the_program() -> None:
    """A rerun may be of a newer one."""
    assert chosen_identity("3b1e", 0, 0, 1) == (IDENTITY_OF_3B1E, 0)


IDENTITY_OF_3B1E = 8346826402845215955


# Placing and cutting.


def row(key: bytes | None = None, value: bytes = b"v") -> Row:
    return 7, key, value, ()


def cut(
    rows: list[tuple[str, int | None, bytes | None, int]],
    *,
    start: int = 0,
    partitions: int = 3,
    batch_bytes: int = 1 << 20,
    open_bytes: int = 1 << 30,
) -> list[Cut]:
    cutter = Cutter(start=start, batch_bytes=batch_bytes, open_bytes=open_bytes)
    done: list[Cut] = []
    for number, (topic, partition, key, size) in enumerate(rows):
        done += cutter.add(topic, partitions, partition, row(key, b"%d" % number), size)
    return done + cutter.rest()


def test_rows_without_a_key_fill_one_batch_after_the_other() -> None:
    done = cut([("t", None, None, 10)] * (3 * ROWS_PER_BATCH + 5), start=5)
    assert [(c.partition, len(c.rows), c.size) for c in done] == [
        (2, 1000, 10_000),
        (0, 1000, 10_000),
        (1, 1000, 10_000),
        (2, 5, 50),
    ]
    # Each topic counts its own.
    done = cut([("t", None, None, 1), ("u", None, None, 1)] * 1000, start=1)
    assert [(c.topic, c.partition, len(c.rows)) for c in done] == [("t", 1, 1000), ("u", 1, 1000)]


def test_a_key_or_the_column_says_where_a_row_goes() -> None:
    done = cut([("t", None, b"k", 1), ("t", 1, b"k", 1), ("t", 0, None, 1), ("t", None, b"k", 1)])
    placed = {c.partition: [r[2] for r in c.rows] for c in done}
    assert partition_for(b"k", 3) == 2
    assert placed == {2: [b"0", b"3"], 1: [b"1"], 0: [b"2"]}
    for wrong in (-1, 3):
        with pytest.raises(WriteFailed, match=r"partition -?\d of topic 't', which has 3 "):
            cut([("t", wrong, None, 1)])


def test_a_batch_is_cut_where_its_rows_are_too_many_or_too_large() -> None:
    done = cut([("t", 0, None, 40)] * 5, batch_bytes=100)
    assert [(len(c.rows), c.size) for c in done] == [(2, 80), (2, 80), (1, 40)]
    # A row that is larger goes alone; whether it is too large is not decided here.
    done = cut([("t", 0, None, size) for size in (10, 200, 10)], batch_bytes=100)
    assert [c.size for c in done] == [10, 200, 10]
    done = cut([("t", 0, None, 50)] * 2, batch_bytes=100)
    assert [c.size for c in done] == [100]
    done = cut([("t", 0, None, 1)] * (ROWS_PER_BATCH + 1))
    assert [len(c.rows) for c in done] == [1000, 1]


def test_what_is_open_is_bounded_over_all_partitions() -> None:
    rows: list[Any] = [("t", n % 50, None, 10) for n in range(1000)]
    assert len(cut(rows, partitions=50)) == 50
    done = cut(rows, partitions=50, open_bytes=105)
    assert {len(c.rows) for c in done} == {1}
    done = cut([("t", 0, None, 50)] * 10, open_bytes=105)
    assert [len(c.rows) for c in done] == [3, 3, 3, 1]
    cutter = Cutter(start=0, batch_bytes=1 << 20, open_bytes=105)
    most = 0
    for n in range(1000):
        cutter.add("t", 50, n % 50, row(), 10)
        most = max(most, sum(found.size for found in cutter._open.values()))
    assert most == 100


_ROWS = st.lists(
    st.tuples(
        st.sampled_from(["t", "u"]),
        st.none() | st.integers(0, 2),
        st.none() | st.binary(max_size=3),
        st.integers(1, 60),
    ),
    max_size=80,
)


@given(_ROWS, st.integers(0, 9), st.integers(60, 200), st.integers(60, 400))
def test_the_same_rows_are_cut_alike_and_each_is_in_one_batch_in_order(
    rows: list[Any], start: int, batch_bytes: int, open_bytes: int
) -> None:
    once = cut(rows, start=start, batch_bytes=batch_bytes, open_bytes=open_bytes)
    again = cut(rows, start=start, batch_bytes=batch_bytes, open_bytes=open_bytes)
    assert once == again
    assert sorted(int(r[2] or b"") for c in once for r in c.rows) == list(range(len(rows)))
    last: dict[tuple[str, int], int] = {}
    for c in once:
        assert 0 < c.size <= batch_bytes
        for r in c.rows:
            number = int(r[2] or b"")
            assert last.get((c.topic, c.partition), -1) < number
            last[c.topic, c.partition] = number
    # Of a longer run the batches that were full already are the same.
    more = cut(rows + rows, start=start, batch_bytes=batch_bytes, open_bytes=open_bytes)
    full = _full(rows, start=start, batch_bytes=batch_bytes, open_bytes=open_bytes)
    assert more[: len(full)] == full


def _full(rows: list[Any], **bounds: int) -> list[Cut]:
    cutter = Cutter(**bounds)
    return [
        done
        for number, (topic, partition, key, size) in enumerate(rows)
        for done in cutter.add(topic, 3, partition, row(key, b"%d" % number), size)
    ]


# Rows.


def rows_of(columns: dict[str, Any], topic: str | None = "t") -> list[tuple[str, int | None, Row]]:
    return list(Rows(topic).of(pa.table(columns).combine_chunks().to_batches()[0], 99))


def test_columns_become_records() -> None:
    time = datetime(2024, 5, 1, 12, 0, 0, 123_999, tzinfo=UTC)
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    found = rows_of(
        {
            "value": pa.array(["a", None]),
            "key": pa.array([b"k", None], pa.binary()),
            "topic": pa.array(["x", "y"]),
            "partition": pa.array([3, None], pa.int32()),
            "timestamp": pa.array([time, None], pa.timestamp("us", "UTC")),
            "headers": pa.array(
                [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None], header
            ),
        },
        None,
    )
    ms = int(datetime(2024, 5, 1, 12, tzinfo=UTC).timestamp()) * 1000 + 123
    assert found == [
        ("x", 3, (ms, b"k", b"a", (("h", b"1"), ("h", None)))),
        ("y", None, (99, None, None, ())),
    ]
    assert rows_of({"value": pa.array([b"b"]), "topic": pa.array(["x"])}) == [
        ("t", None, (99, None, b"b", ()))
    ]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("topic", pa.array(["t", None]), "row 2 of the task has no topic"),
        (
            "timestamp",
            pa.array([0, -1], pa.timestamp("us", "UTC")),
            r"row 2 of the task has the timestamp -1 ms",
        ),
        (
            "timestamp",
            pa.array([0, 253_402_300_800_000_000], pa.timestamp("us", "UTC")),
            "row 2 of the task has the timestamp 253402300800000 ms",
        ),
        (
            "headers",
            pa.array([[], [{"key": None, "value": b""}]]),
            "row 2 of the task has a header without a key",
        ),
        ("headers", pa.array([[], [None]], pa.list_(pa.struct([("key", pa.string())]))), "row 2"),
    ],
)
def test_what_no_record_holds_is_named_by_its_row(column: str, values: Any, message: str) -> None:
    columns = {"value": pa.array([b"a", b"b"]), column: values}
    with pytest.raises(WriteFailed, match=message) as caught:
        rows_of(columns, None if column == "topic" else "t")
    assert "\n" not in str(caught.value)


def test_the_message_of_a_failed_write_is_found_in_a_traceback_of_spark() -> None:
    text = "x\nstrandline_spark.errors.WriteFailed: task 3: do this\n\tat java"
    assert remedy_line(text) == "task 3: do this"


def test_the_driver_is_told_what_may_be_in_the_topic_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = StrandlineWriter(parse_sink_options(BASE | {"topic": "t"}))
    writer.commit([Written(5, 0), Written(5, 0)])
    assert caplog.messages == []
    writer.commit([Written(5, 0), None, Written(5, 2)])
    assert caplog.messages == [
        "1 of 3 tasks were tried again: rows of their earlier attempts may be in the topic twice"
    ]
    writer.abort([Written(5, 0), None])
    assert "will be there twice if it is run again" in caplog.messages[-1]
