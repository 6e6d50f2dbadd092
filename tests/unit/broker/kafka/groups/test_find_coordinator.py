"""FindCoordinator over Kafka's protocol, in each version."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from strandline_broker.kafka.groups.find_coordinator import FindCoordinatorCalls
from strandline_proto.errors import CoordinatorNotAvailable, InvalidGroupId, InvalidRequest
from strandline_runtime.real import real_runtime
from support.group_broker import group_broker
from support.kafka_calls import KafkaCalls

if TYPE_CHECKING:
    from pathlib import Path

    from support.group_broker import GroupBroker

UNSUPPORTED_VERSION = 35
GROUP, TRANSACTION, SHARE = 0, 1, 2


def calls(broker: GroupBroker, *, lines: Any = None) -> KafkaCalls:
    runtime = real_runtime("broker-1")
    if lines is not None:
        log = SimpleNamespace(warning=lambda event, **fields: lines.append((event, fields)))
        runtime = replace(runtime, log=cast("Any", log))
    return KafkaCalls(FindCoordinatorCalls(broker.metadata, "PLAINTEXT", runtime))


@pytest.mark.parametrize("version", range(4))
async def test_a_version_for_one_key_names_the_leader_of_the_groups_partition(
    tmp_path: Path, version: int
) -> None:
    async with group_broker(tmp_path) as broker:
        await broker.lead(1)
        found = await calls(broker)("FindCoordinator", version, key="g")
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "127.0.0.1", 1)
    if version >= 1:
        assert (found.throttle_time_ms, found.error_message) == (0, None)


@pytest.mark.parametrize("version", range(4, 7))
async def test_a_version_for_several_keys_answers_each_by_itself(
    tmp_path: Path, version: int
) -> None:
    async with group_broker(tmp_path) as broker:
        await broker.lead(1)
        keys = ["g", "", "other"]
        found = await calls(broker)("FindCoordinator", version, coordinator_keys=keys)
        none = await calls(broker)("FindCoordinator", version, coordinator_keys=[])
    assert [
        (each.key, each.error_code, each.node_id, each.host, each.port)
        for each in found.coordinators
    ] == [
        ("g", 0, 1, "127.0.0.1", 1),
        ("", InvalidGroupId.code, -1, "", -1),
        ("other", 0, 1, "127.0.0.1", 1),
    ]
    assert [each.error_message for each in found.coordinators] == [
        None,
        "the group id is empty",
        None,
    ]
    assert none.coordinators == []


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize(
    ("key_type", "code", "why"),
    [
        (TRANSACTION, UNSUPPORTED_VERSION, "transactions are not supported"),
        (SHARE, UNSUPPORTED_VERSION, "share groups are not supported"),
        (9, InvalidRequest.code, "key_type is 9"),
    ],
)
async def test_another_key_than_a_group_is_refused_with_the_reason(
    tmp_path: Path, version: int, key_type: int, code: int, why: str
) -> None:
    names: dict[str, Any] = {"key": "t"} if version < 4 else {"coordinator_keys": ["t", "u"]}
    async with group_broker(tmp_path) as broker:
        await broker.lead(1)
        found = await calls(broker)("FindCoordinator", version, key_type=key_type, **names)
    answers = [found] if version < 4 else found.coordinators
    assert len(answers) == (1 if version < 4 else 2)
    for each in answers:
        assert (each.error_code, each.node_id, each.host, each.port) == (code, -1, "", -1)
        assert why in each.error_message


async def test_the_log_explains_a_refused_transaction_once(tmp_path: Path) -> None:
    lines: list[tuple[str, dict[str, object]]] = []
    async with group_broker(tmp_path) as broker:
        await broker.lead(1)
        ask = calls(broker, lines=lines)
        for _ in range(3):
            await ask("FindCoordinator", 3, key="t", key_type=TRANSACTION)
        await ask("FindCoordinator", 3, key="g", key_type=GROUP)
    ((event, fields),) = lines
    assert "transactions are not supported" in event
    assert fields == {
        "request": "FindCoordinator",
        "transactional_id": "t",
        "client_id": "client",
        "client_host": "::1",
        "remedy": "unset transactional.id in the client",
    }


@pytest.mark.parametrize("version", range(7))
async def test_without_a_leader_the_coordinator_is_not_available(
    tmp_path: Path, version: int
) -> None:
    names: dict[str, Any] = {"key": "g"} if version < 4 else {"coordinator_keys": ["g"]}
    async with group_broker(tmp_path) as broker:
        found = await calls(broker)("FindCoordinator", version, **names)
    each = found if version < 4 else found.coordinators[0]
    assert (each.error_code, each.node_id) == (CoordinatorNotAvailable.code, -1)
