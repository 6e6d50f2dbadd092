"""The calls of groups over Kafka's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.serving.classic_groups import ClassicGroupsService
from strandline_broker.hosts.serving.groups import GroupsService
from strandline_broker.kafka.groups.classic import ClassicGroupCalls
from strandline_broker.kafka.groups.consumer import ConsumerGroupCalls
from strandline_broker.kafka.groups.describe import GroupAdminCalls
from strandline_broker.kafka.groups.find_coordinator import FindCoordinatorCalls
from strandline_broker.kafka.groups.offset_commits import OffsetCommitsCalls
from strandline_broker.kafka.groups.offset_fetch import OffsetFetchCalls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.kafka.services import Services


def group_parts(services: Services, listener: str) -> Iterable[Any]:
    groups = GroupsService(services.shards)
    yield FindCoordinatorCalls(services.metadata, listener)
    yield ClassicGroupCalls(ClassicGroupsService(services.shards))
    yield OffsetCommitsCalls(groups)
    yield OffsetFetchCalls(groups)
    yield GroupAdminCalls(groups)
    yield ConsumerGroupCalls(groups, services.metadata, services.runtime)
