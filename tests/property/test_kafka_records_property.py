"""Produce and Fetch by hand against kafka-python and kio: any values, in each version."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.metadata_cache import CurrentLeader
from strandline_broker.hosts.common.fetch_messages import FetchedPartition, Offsets
from strandline_broker.kafka import codec
from strandline_broker.kafka.records.fetch_answer import fetch_answer
from strandline_broker.kafka.records.fetch_request import FetchTopic, parse_fetch
from strandline_broker.kafka.records.produce_answer import produce_answer
from strandline_broker.kafka.records.produce_request import (
    ParsedProduce,
    ProduceTopic,
    parse_produce,
)
from strandline_broker.kafka.wire import MalformedRequest
from strandline_proto import errors
from strandline_proto.batch import build_batch
from strandline_proto.errors import (
    NONE,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline_proto.hot_messages import CurrentLeader as WireLeader
from strandline_proto.hot_messages import (
    NodeEndpoint,
    ProduceResponse,
    ProduceResult,
    RecordError,
)
from strandline_proto.ids import BrokerId, LeaderEpoch
from support.kafka_records import decoded, raw_request, request

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PRODUCE_VERSIONS = st.integers(3, 13)
FETCH_VERSIONS = st.integers(4, 18)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.integers(-1, 2**63 - 1)
TIMES = st.integers(-1, 253_402_300_799_999)
"""Milliseconds up to the year 9999, with which kio's times end."""
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
IDS = st.binary(min_size=16, max_size=16).filter(any)
"""Topic ids; the zero id means none."""
BROKERS = st.integers(1, 3)
CODES = st.sampled_from([each.code for each in errors.WireError.__subclasses__()])
NODES = [NodeEndpoint(1, "a", 9092, "r"), NodeEndpoint(2, "b", 65535), NodeEndpoint(3, "ä", 1, "")]


@st.composite
def results(draw: st.DrawFn) -> ProduceResult:
    """The outcome of one batch: appended, refused, or appended with an unknown outcome."""
    code = draw(st.one_of(st.just(NONE), CODES))
    hint = st.builds(WireLeader, BROKERS, INT32)
    return ProduceResult(
        b"i" * 16,
        draw(INT32),
        code,
        draw(OFFSETS),
        draw(TIMES),
        draw(OFFSETS),
        draw(st.lists(st.builds(RecordError, INT32, TEXTS), max_size=2)),
        draw(TEXTS) if code != NONE else "",
        None if code == NONE else draw(st.one_of(st.none(), hint)),
        appended=code == NONE or draw(st.booleans()),
    )


@given(
    PRODUCE_VERSIONS,
    st.lists(st.tuples(TEXTS, IDS, st.lists(st.tuples(results(), st.booleans()), max_size=3))),
)
def test_answers_to_produce(
    version: int, topics: list[tuple[str, bytes, list[tuple[ProduceResult, bool]]]]
) -> None:
    """Some outcomes are known before the append."""
    named = [
        ProduceTopic(name, topic_id, [each if early else None for each, early in outcomes])
        for name, topic_id, outcomes in topics
    ]
    appended = [each for _, _, outcomes in topics for each, early in outcomes if not early]
    response = ProduceResponse(1, appended, NODES)
    codes: list[int] = []
    body = produce_answer(version, named, response, codes)
    answer = decoded(raw_request("Produce", version, b""), body)
    assert codes == codes_of(answer.responses, "partition_responses")
    hinted = set()
    for (name, topic_id, outcomes), topic in zip(topics, answer.responses, strict=True):
        assert (topic.name == name) if version < 13 else (topic.topic_id.bytes == topic_id)
        for (wanted, _), found in zip(outcomes, topic.partition_responses, strict=True):
            check_result(version, wanted, found)
            if version >= 10 and found.current_leader is not None:
                hinted.add(found.current_leader.leader_id)
    if version >= 10:
        assert [tuple(vars_of(each)) for each in answer.node_endpoints] == [
            (*each[:3], each.rack or None) for each in NODES if each.node_id in hinted
        ]


def codes_of(topics: Iterable[Any], partitions: str) -> list[int]:
    found = [each.error_code for topic in topics for each in getattr(topic, partitions)]
    return [code for code in found if code != NONE]


def vars_of(node: Any) -> Iterable[Any]:
    return node.node_id, node.host, node.port, node.rack


REPEAT = 19
"""NotEnoughReplicas, for which each client repeats its batch."""
NEVER = 99
IN_PLACE = {
    59: (REPEAT, NEVER),
    13: (REPEAT, NEVER),
    14: (REPEAT, NEVER),
    15: (REPEAT, NEVER),
    16: (REPEAT, NEVER),
    89: (REPEAT, NEVER),
    51: (REPEAT, 12),
    90: (47, NEVER),
    120: (48, 11),
    100: (3, 13),
}
"""Error -> (the error in its place, first version of Produce that has the error itself)."""


def check_result(version: int, wanted: ProduceResult, found: Any) -> None:
    code, since = IN_PLACE.get(wanted.error_code, (wanted.error_code, 0))
    if version >= since:
        code = wanted.error_code
    assert (found.index, found.error_code) == (wanted.partition, code)
    places = wanted.base_offset, wanted.log_append_time_ms, wanted.log_start_offset
    if not wanted.appended:
        places = (-1, -1, -1)
    assert (found.base_offset, found.log_append_time_ms) == places[:2]
    if version >= 5:
        assert found.log_start_offset == places[2]
    if version >= 8:
        assert found.error_message == (wanted.error_message or None)
        assert [
            (each.batch_index, each.batch_index_error_message) for each in found.record_errors
        ] == [tuple(each) for each in wanted.record_errors]
    if version >= 10:
        leader = wanted.current_leader if code in (6, 74) else None
        hint = found.current_leader
        assert leader == (None if hint is None else (hint.leader_id, hint.leader_epoch))


@st.composite
def fetched(draw: st.DrawFn) -> FetchedPartition:
    kind = draw(st.sampled_from(["records", "diverging", "error"]))
    found = FetchedPartition(draw(st.builds(Offsets, OFFSETS, OFFSETS, OFFSETS)))
    if kind == "records":
        found.records = draw(st.sampled_from([b"", build_batch([(None, b"v")], timestamp_ms=1)]))
    elif kind == "diverging":
        found.diverging = draw(st.tuples(INT32, INT64))
    else:
        found.error = errors.from_code(draw(CODES), "why")
        leader = st.builds(CurrentLeader, BROKERS.map(BrokerId), INT32.map(LeaderEpoch))
        found.leader = draw(st.one_of(st.none(), leader))
    return found


def nodes(broker_ids: Iterable[int]) -> Sequence[NodeEndpoint]:
    return [each for each in NODES if each.node_id in list(broker_ids)]


@given(
    FETCH_VERSIONS,
    st.booleans(),
    st.lists(st.tuples(TEXTS, IDS, st.lists(st.tuples(INT32, fetched()), max_size=3))),
)
def test_answers_to_fetch(
    version: int,
    committed: bool,
    topics: list[tuple[str, bytes, list[tuple[int, FetchedPartition]]]],
) -> None:
    codes: list[int] = []
    answering = fetch_answer(
        version,
        [FetchTopic(name, own, [index for index, _ in parts]) for name, own, parts in topics],
        iter([each for _, _, parts in topics for _, each in parts]),
        code=NONE,
        committed=committed,
        nodes=nodes,
        errors=codes,
    )
    answer = decoded(raw_request("Fetch", version, b""), asyncio.run(answering))
    assert codes == codes_of(answer.responses, "partitions")
    for (name, topic_id, parts), topic in zip(topics, answer.responses, strict=True):
        assert (topic.topic == name) if version < 13 else (topic.topic_id.bytes == topic_id)
        for (index, wanted), found in zip(parts, topic.partitions, strict=True):
            assert found.partition_index == index
            check_fetched(version, committed, wanted, found)


def check_fetched(version: int, committed: bool, wanted: FetchedPartition, found: Any) -> None:
    code = NONE if wanted.error is None else wanted.error.code
    if code == UnknownTopicId.code and version < 13:
        code = UnknownTopicOrPartition.code
    if code == KafkaStorageError.code and version < 6:
        code = NotLeaderOrFollower.code
    offsets = wanted.offsets if code == NONE else (-1, -1, -1)
    assert found.error_code == code
    assert (found.high_watermark, found.last_stable_offset) == offsets[:2]
    assert found.records == wanted.records
    assert found.aborted_transactions == ([] if committed and code == NONE else None)
    if version >= 5:
        assert found.log_start_offset == offsets[2]
    if version >= 12:
        diverging = found.diverging_epoch
        assert wanted.diverging == (
            None if diverging is None else (diverging.epoch, diverging.end_offset)
        )
        leader = wanted.leader if version >= 16 and code in (6, 74) else None
        told = found.current_leader
        assert leader == (None if told is None else (told.leader_id, told.leader_epoch))


# Requests


@st.composite
def produce_requests(draw: st.DrawFn) -> tuple[int, dict[str, Any], bytes]:
    version = draw(PRODUCE_VERSIONS)
    new = codec.load()["ProduceRequest"].TopicProduceData
    topics = [
        new(
            name=name,
            topic_id=topic_id.hex(),
            partition_data=[
                new.PartitionProduceData(index=index, records=records) for index, records in parts
            ],
        )
        for name, topic_id, parts in draw(
            st.lists(
                st.tuples(
                    TEXTS,
                    IDS,
                    st.lists(st.tuples(INT32, st.one_of(st.none(), st.binary())), max_size=3),
                ),
                max_size=3,
            )
        )
    ]
    fields = {
        "transactional_id": draw(st.one_of(st.none(), TEXTS)),
        "acks": draw(st.integers(-2, 3)),
        "timeout_ms": draw(INT32),
        "topic_data": topics,
    }
    return version, fields, bytes(request("Produce", version, **fields).body)


@given(produce_requests())
def test_produce_requests(asked: tuple[int, dict[str, Any], bytes]) -> None:
    version, fields, body = asked
    found: ParsedProduce = parse_produce(memoryview(body), version, {})
    assert found[:3] == (fields["transactional_id"], fields["acks"], fields["timeout_ms"])
    for wanted, topic in zip(fields["topic_data"], found.topics, strict=True):
        assert topic.name == ("" if version >= 13 else wanted.name)
        assert topic.topic_id == (bytes.fromhex(wanted.topic_id) if version >= 13 else b"")
        assert len(topic.outcomes) == len(wanted.partition_data)
        for part, outcome in zip(wanted.partition_data, topic.outcomes, strict=True):
            assert outcome is None or outcome.partition == part.index


@st.composite
def fetch_requests(draw: st.DrawFn) -> tuple[int, dict[str, Any], bytes]:
    version = draw(FETCH_VERSIONS)
    new = codec.load()["FetchRequest"]
    part = st.builds(
        new.FetchTopic.FetchPartition,
        partition=INT32,
        current_leader_epoch=INT32,
        fetch_offset=INT64,
        last_fetched_epoch=INT32,
        log_start_offset=INT64,
        partition_max_bytes=INT32,
    )
    topics = st.lists(
        st.builds(
            new.FetchTopic,
            topic=TEXTS,
            topic_id=IDS.map(bytes.hex),
            partitions=st.lists(part, max_size=3),
        ),
        max_size=3,
    )
    forgotten = st.builds(
        new.ForgottenTopic,
        topic=TEXTS,
        topic_id=IDS.map(bytes.hex),
        partitions=st.lists(INT32, max_size=3),
    )
    replica = st.builds(new.ReplicaState, replica_id=INT32, replica_epoch=INT64)
    fields = draw(
        st.fixed_dictionaries(
            {
                "replica_id": INT32,
                "max_wait_ms": INT32,
                "min_bytes": INT32,
                "max_bytes": INT32,
                "isolation_level": st.integers(-128, 127),
                "session_id": INT32,
                "session_epoch": INT32,
                "topics": topics,
                "forgotten_topics_data": st.lists(forgotten, max_size=2),
                "rack_id": TEXTS,
            },
            optional={"cluster_id": TEXTS, "replica_state": replica},
        )
    )
    return version, fields, bytes(request("Fetch", version, **fields).body)


@given(fetch_requests())
def test_fetch_requests(asked: tuple[int, dict[str, Any], bytes]) -> None:
    version, fields, body = asked
    ids = {topic.topic: b"n" * 16 for topic in fields["topics"]}
    found = asyncio.run(parse_fetch(memoryview(body), version, ids))
    wanted = found.wanted
    limits = fields["max_wait_ms"], fields["min_bytes"], fields["max_bytes"]
    assert wanted[:4] == (*limits, fields["isolation_level"])
    if version >= 7:
        assert found.session_epoch == fields["session_epoch"]
    state = fields.get("replica_state")
    if version < 15:
        assert found.replica_id == fields["replica_id"]
    else:
        assert found.replica_id == (-1 if state is None else state.replica_id)
    assert found.cluster_id == (fields.get("cluster_id", "") if version >= 12 else "")
    expected = [
        (
            (bytes.fromhex(topic.topic_id) if version >= 13 else b"n" * 16, each.partition),
            (
                each.current_leader_epoch if version >= 9 else -1,
                each.fetch_offset,
                each.last_fetched_epoch if version >= 12 else -1,
                each.log_start_offset if version >= 5 else -1,
                each.partition_max_bytes,
            ),
        )
        for topic in fields["topics"]
        for each in topic.partitions
    ]
    assert [(key, tuple(position)) for key, position in wanted.positions] == expected


@given(st.one_of(produce_requests(), fetch_requests()), st.data())
def test_changed_bytes_are_a_request_or_malformed(
    asked: tuple[int, dict[str, Any], bytes], data: st.DataObject
) -> None:
    version, fields, body = asked
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(changed)))
        changed[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))
    view = memoryview(bytes(changed))
    try:
        if "acks" in fields:
            parse_produce(view, version, {})
        else:
            asyncio.run(parse_fetch(view, version, {}))
    except MalformedRequest:
        pass
