"""FindCoordinator: from version 4 on for several keys, each with an error of its own (KIP-699)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline_broker.hosts.serving.coordinators import find_coordinator
from strandline_broker.hosts.serving.turns import in_turns
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.groups.bounds import LISTED_MAX, check_count
from strandline_broker.kafka.groups.errors import code_of, text_of
from strandline_proto.errors import WireError

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache, MetadataView
    from strandline_broker.kafka.request import Request

SEVERAL_KEYS_SINCE: Final = 4
_NO_NODE: Final = -1


class _Found(NamedTuple):
    """The fields that an answer has for one key, by their names on the wire."""

    node_id: int = _NO_NODE
    host: str = ""
    port: int = _NO_NODE
    error_code: int = 0
    error_message: str | None = None


class FindCoordinatorCalls:
    """FindCoordinator on one listener. The answer names the coordinator's address on the listener
    of that name.
    """

    def __init__(self, metadata: MetadataCache, listener: str) -> None:
        self._metadata = metadata
        self._listener = listener
        self._answer = answer_of("FindCoordinator")

    async def FindCoordinator(self, request: Request, message: Any) -> Any:
        view = self._metadata.view  # read once: the answer is of one moment
        if request.version < SEVERAL_KEYS_SINCE:
            return self._answer(**self._find(view, message.key_type, message.key)._asdict())
        check_count(len(message.coordinator_keys), "keys", LISTED_MAX)
        coordinators = [
            self._answer.Coordinator(key=key, **self._find(view, message.key_type, key)._asdict())
            async for key in in_turns(message.coordinator_keys)
        ]
        return self._answer(coordinators=coordinators)

    def _find(self, view: MetadataView, key_type: int, key: str) -> _Found:
        try:
            node = find_coordinator(view, key_type, key, self._listener)
        except WireError as error:
            return _Found(error_code=code_of(error), error_message=text_of(error))
        return _Found(node.broker_id, node.host, node.port)
