"""The hot calls on the wire, byte by byte: what other versions and programs read and write."""

from typing import Any

import pytest

from strandline_proto import hot_messages as hot
from support.hot_wire import KINDS

TOPIC = bytes(range(16))
GOLDEN: dict[str, tuple[Any, str]] = {
    "produce_request": (
        hot.ProduceRequest(
            300, -1, 30_000, [hot.ProduceData(TOPIC, 2, b"records", 7)], "transactional"
        ),
        "08ac0210ffffffffffffffffff0118b0ea01220d7472616e73616374696f6e616c2a210a10000102"
        "030405060708090a0b0c0d0e0f120d080212077265636f7264731807",
    ),
    "produce_response": (
        hot.ProduceResponse(
            300,
            [
                hot.ProduceResult(TOPIC, 2, 0, 1_000_000, -1, 5, appended=True, leader_epoch=7),
                hot.ProduceResult(
                    TOPIC, 3, 6, -1, current_leader=hot.CurrentLeader(2, 8), error_message="no"
                ),
            ],
            [hot.NodeEndpoint(2, "b2", 9092, "r")],
        ),
        "08ac0212460a10000102030405060708090a0b0c0d0e0f1217080218c0843d20ffffffffffffffff"
        "ff0128054801500712190803100618ffffffffffffffffff013a026e6f4204080210081a0c080212"
        "026232188447220172",
    ),
    "fetch_request": (
        hot.FetchRequest(
            300,
            "cluster",
            hot.ReplicaState(2, 41),
            500,
            1,
            10_485_760,
            0,
            9,
            300,
            [hot.FetchPartition(TOPIC, 2, 7, 1_000_000, 6, 5, 1_048_576)],
            ((TOPIC, 3),),
        ),
        "08ac021207636c75737465721a040802102920f40328013080808005400948ac0252240a10000102"
        "030405060708090a0b0c0d0e0f12100802100718c0843d20062805308080405a150a100001020304"
        "05060708090a0b0c0d0e0f120103",
    ),
    "fetch_response": (
        hot.FetchResponse(
            300,
            0,
            9,
            [
                hot.FetchResult(TOPIC, 2, 0, 10, 10, 5, None, None, -1, b"records"),
                hot.FetchResult(
                    TOPIC,
                    3,
                    diverging_epoch=hot.EpochEndOffset(6, 900),
                    preferred_read_replica=-1,
                ),
            ],
            [],
        ),
        "08ac02180922460a10000102030405060708090a0b0c0d0e0f121c0802180a200a280548ffffffff"
        "ffffffffff0152077265636f726473121408033205080610840748ffffffffffffffffff01",
    ),
    "fetch_range_request": (
        hot.FetchRangeRequest(TOPIC, 2, -1, 5, 1_000_000, 0, 2_097_152),
        "0a10000102030405060708090a0b0c0d0e0f100218ffffffffffffffffff01200528c0843d3880808001",
    ),
    "fetch_range_response": (
        hot.FetchRangeResponse(0, "", 5, 1_000, 7, b"records", 5, 1_000_000),
        "180520e80728073a077265636f726473400548c0843d",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_message_is_these_bytes(name: str) -> None:
    message, text = GOLDEN[name]
    data = bytes.fromhex(text)
    assert KINDS[name].encode(message) == data
    assert KINDS[name].to_protobuf(message).SerializeToString() == data
    assert KINDS[name].decode(data) == message
