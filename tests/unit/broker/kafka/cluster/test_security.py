"""Access lists and SASL: refused as by a Kafka without authorizer."""

import pytest

from strandline_broker.kafka.cluster.security import SecurityCalls
from support.kafka_answers import ask, kind

ACL = {
    "resource_type": 2,
    "resource_name": "orders",
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_access_lists_are_refused_in_each_version(version: int) -> None:
    part = SecurityCalls()
    described = await ask(part, "DescribeAcls", version, **FILTER)
    assert (described.error_code, described.resources) == (54, [])
    assert "no access lists" in described.error_message
    creation = kind("CreateAcls", "AclCreation")(**ACL)
    created = await ask(part, "CreateAcls", version, creations=[creation, creation])
    assert [each.error_code for each in created.results] == [54, 54]
    deletion = kind("DeleteAcls", "DeleteAclsFilter")(**FILTER)
    deleted = await ask(part, "DeleteAcls", version, filters=[deletion])
    assert [(each.error_code, each.matching_acls) for each in deleted.filter_results] == [(54, [])]


@pytest.mark.parametrize("version", [0, 1])
async def test_a_sasl_handshake_is_out_of_place(version: int) -> None:
    answer = await ask(SecurityCalls(), "SaslHandshake", version, mechanism="PLAIN")
    assert (answer.error_code, answer.mechanisms) == (34, [])
