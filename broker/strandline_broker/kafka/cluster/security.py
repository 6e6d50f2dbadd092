"""Requests about access lists and SASL, answered as by a Kafka without authorizer and SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.kafka.cluster.errors import ILLEGAL_SASL_STATE, SECURITY_DISABLED
from strandline_broker.kafka.codec import answer_of

if TYPE_CHECKING:
    from strandline_broker.kafka.request import Request

_REFUSED: Final = {
    "error_code": SECURITY_DISABLED,
    "error_message": "this cluster has no access lists: every client may do everything",
}


class SecurityCalls:
    async def DescribeAcls(self, request: Request, message: Any) -> Any:
        return answer_of("DescribeAcls")(**_REFUSED, resources=[])

    async def CreateAcls(self, request: Request, message: Any) -> Any:
        answer = answer_of("CreateAcls")
        return answer(results=[answer.AclCreationResult(**_REFUSED) for _ in message.creations])

    async def DeleteAcls(self, request: Request, message: Any) -> Any:
        answer = answer_of("DeleteAcls")
        kind = answer.DeleteAclsFilterResult
        return answer(filter_results=[kind(**_REFUSED, matching_acls=[]) for _ in message.filters])

    async def SaslHandshake(self, request: Request, message: Any) -> Any:
        return answer_of("SaslHandshake")(error_code=ILLEGAL_SASL_STATE, mechanisms=[])
