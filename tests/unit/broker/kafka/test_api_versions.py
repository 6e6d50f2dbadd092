"""ApiVersions: the advertised versions, and the answers to a newer client and to a stray one."""

import importlib
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kio.serial import entity_reader

from strandline_broker.kafka.cluster.api_versions import ApiVersionsCalls
from strandline_broker.kafka.headers import answer_header, read_header
from strandline_broker.kafka.request import Request
from strandline_broker.kafka.versions import SERVED

CALLS = ApiVersionsCalls(cast("Any", SimpleNamespace(cluster_id="ours")), node_id=4)


async def answered(frame: bytes) -> tuple[int, bytes]:
    header, body = read_header(memoryview(frame))
    found = await CALLS.ApiVersions(Request(header, body, "h", None))
    return len(answer_header(header)), b"".join(found)


def asked(version: int) -> bytes:
    request = ApiVersionsRequest(
        version=version, client_software_name="n", client_software_version="1"
    )
    request.with_header(correlation_id=7, client_id="c")
    return bytes(request.encode(header=True))


@pytest.mark.parametrize("version", range(5))
async def test_every_version_lists_what_is_served(version: int) -> None:
    header_bytes, body = await answered(asked(version))
    answer = ApiVersionsResponse.decode(body, version=version)
    assert header_bytes == 4
    assert answer.error_code == 0
    listed = [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys]
    assert listed == sorted((api.key, api.first, api.last) for api in SERVED)


@pytest.mark.parametrize("version", [3, 4])
async def test_transactions_of_version_2_are_a_finalized_feature(version: int) -> None:
    """Java's producer needs its level and an epoch. A supported level of 0 breaks clients of
    version 3 (KIP-584).
    """
    _, body = await answered(asked(version))
    answer = ApiVersionsResponse.decode(body, version=version)
    (feature,) = answer.finalized_features
    assert (feature.name, feature.max_version_level) == ("transaction.version", 2)
    assert feature.min_version_level == 2
    assert answer.finalized_features_epoch == 0
    supported = [(f.name, f.min_version, f.max_version) for f in answer.supported_features or ()]
    assert supported == ([] if version == 3 else [("transaction.version", 0, 2)])
    module = importlib.import_module(f"kio.schema.api_versions.v{version}.response")
    found, size = entity_reader(module.ApiVersionsResponse)(body, 0)
    assert size == len(body)
    assert [(f.name, f.max_version_level) for f in found.finalized_features] == [
        ("transaction.version", 2)
    ]


async def test_a_client_that_is_newer_than_the_broker_gets_version_0_and_the_list() -> None:
    header_bytes, body = await answered(b"\x00\x12\x00\x63\x00\x00\x00\x07 what is this")
    answer = ApiVersionsResponse.decode(body, version=0)
    assert (header_bytes, answer.error_code) == (4, 35)
    assert len(answer.api_keys) == len(SERVED)


def named(cluster_id: bytes | None, node_id: int) -> bytes:
    """A request of version 5, which kafka-python does not know (KIP-1242)."""
    cluster = b"\x00" if cluster_id is None else bytes((len(cluster_id) + 1,)) + cluster_id
    header = b"\x00\x12\x00\x05\x00\x00\x00\x07\x00\x01c\x00"
    return header + b"\x02n\x021" + cluster + node_id.to_bytes(4, "big", signed=True) + b"\x00"


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, 0),
        (b"ours", 4, 0),
        (b"ours", -1, 0),
        (b"theirs", 4, 129),
        (b"ours", 5, 129),
        (None, 5, 129),
    ],
)
async def test_version_5_is_for_one_cluster_and_one_broker(
    cluster_id: bytes | None, node_id: int, error: int
) -> None:
    _, body = await answered(named(cluster_id, node_id))
    assert int.from_bytes(body[:2], "big") == error
    assert body[2] == len(SERVED) + 1  # a compact array, as in each version from 3 on
