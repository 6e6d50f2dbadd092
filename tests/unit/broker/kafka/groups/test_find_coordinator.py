"""FindCoordinator over Kafka's protocol, in each version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.kafka.groups.find_coordinator import FindCoordinatorCalls
from strandline_proto.errors import CoordinatorNotAvailable, InvalidGroupId, InvalidRequest
from support.group_broker import group_broker
from support.kafka_calls import KafkaCalls
from support.transaction_broker import transaction_broker

if TYPE_CHECKING:
    from pathlib import Path

    from support.group_broker import GroupBroker

UNSUPPORTED_VERSION = 35
GROUP, TRANSACTION, SHARE = 0, 1, 2


def calls(broker: GroupBroker) -> KafkaCalls:
    return KafkaCalls(FindCoordinatorCalls(broker.metadata, "PLAINTEXT"))


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
        (TRANSACTION, CoordinatorNotAvailable.code, "__transaction_state is not made yet"),
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


@pytest.mark.parametrize("version", range(7))
async def test_a_transactional_id_has_its_coordinator(tmp_path: Path, version: int) -> None:
    """Version 0 has no key types: it asks about groups."""
    async with transaction_broker(tmp_path) as broker:
        await broker.lead(1)
        for key, code in (("x", 0), ("", InvalidRequest.code)):
            names: dict[str, Any] = {"key": key} if version < 4 else {"coordinator_keys": [key]}
            kind = {} if version == 0 else {"key_type": TRANSACTION}
            found = await calls(broker)("FindCoordinator", version, **names, **kind)
            each = found if version < 4 else found.coordinators[0]
            if version == 0:
                assert each.error_code in (CoordinatorNotAvailable.code, InvalidGroupId.code)
            else:
                assert (each.error_code, each.node_id) == (code, 1 if code == 0 else -1)


@pytest.mark.parametrize("version", range(7))
async def test_without_a_leader_the_coordinator_is_not_available(
    tmp_path: Path, version: int
) -> None:
    names: dict[str, Any] = {"key": "g"} if version < 4 else {"coordinator_keys": ["g"]}
    async with group_broker(tmp_path) as broker:
        found = await calls(broker)("FindCoordinator", version, **names)
    each = found if version < 4 else found.coordinators[0]
    assert (each.error_code, each.node_id) == (CoordinatorNotAvailable.code, -1)
