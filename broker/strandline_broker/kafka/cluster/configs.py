"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.controller.topics.configs import DELETE, Alteration
from strandline_broker.hosts.serving.administration import (
    TIMEOUT_S_DEFAULT,
    ConfigChange,
    checked_change,
    decide_each,
    named_once,
)
from strandline_broker.hosts.serving.turns import Turns, in_turns
from strandline_broker.kafka.cluster.errors import error_fields
from strandline_broker.kafka.codec import answer_of
from strandline_proto.errors import NONE, InvalidRequest, UnsupportedVersion, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_broker.core.groups.settings import GroupSettings
    from strandline_broker.hosts.serving.configs import ConfigsService, DescribedConfig
    from strandline_broker.kafka.cluster.forward import Forward
    from strandline_broker.kafka.request import Request

NAMES_TYPES: Final = 1
"""First version of ListConfigResources with types; version 0 lists client metrics."""
CLIENT_METRICS: Final = 16


class ConfigsCalls:
    def __init__(self, forward: Forward, configs: ConfigsService, groups: GroupSettings) -> None:
        self._forward = forward
        self._configs = configs
        self._groups = groups

    async def DescribeConfigs(self, request: Request, message: Any) -> Any:
        answer = answer_of("DescribeConfigs")
        found = answer()
        found.results, turns = [], Turns()
        asked: dict[tuple[int, str, tuple[str, ...]], Any] = {
            (each.resource_type, each.resource_name, tuple(each.configuration_keys or ())): each
            for each in message.resources
        }
        for resource in asked.values():  # each once: the answer needs a bound
            result = answer.DescribeConfigsResult(
                resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            failure: WireError | None = None
            try:
                wanted = frozenset(resource.configuration_keys or ())
                described = self._configs.describe(resource.resource_type, resource.resource_name)
                result.configs = [
                    _to_wire(result, each, message)
                    for each in described
                    if not wanted or each.name in wanted
                ]
            except WireError as error:
                failure = error
            for name, value in error_fields(failure).items():
                setattr(result, name, value)
            found.results.append(result)
            await turns.took(100)
        return found

    async def IncrementalAlterConfigs(self, request: Request, message: Any) -> Any:
        return await self._alter("IncrementalAlterConfigs", message, _alterations)

    async def AlterConfigs(self, request: Request, message: Any) -> Any:
        """Replaces the whole configuration of each resource: absent keys get their defaults."""

        def replacing(resource: Any) -> list[Alteration] | WireError:
            given = {each.name: each.value for each in resource.configs}
            if len(given) < len(resource.configs):
                return InvalidRequest("a key is given twice: give it once")
            for name, value in given.items():
                if value is None:
                    return InvalidRequest(f"the value of {name} is null; leave the key out")
            try:
                return self._configs.replacing(
                    resource.resource_type, resource.resource_name, given
                )
            except WireError as error:
                return error

        return await self._alter("AlterConfigs", message, replacing)

    async def _alter(
        self,
        api_name: str,
        message: Any,
        alterations: Callable[[Any], list[Alteration] | WireError],
    ) -> Any:
        async def decide(changes: list[ConfigChange]) -> list[WireError | None]:
            return await self._forward.alter_configs(
                changes, validate_only=message.validate_only, limit_s=TIMEOUT_S_DEFAULT
            )

        wishes: list[tuple[tuple[int, str], ConfigChange | WireError]] = []
        async for resource in in_turns(message.resources, every=20):
            key = (resource.resource_type, resource.resource_name)
            asked = alterations(resource)
            if isinstance(asked, WireError):
                wishes.append((key, asked))
            else:
                change = ConfigChange(*key, tuple(asked))
                wishes.append((key, checked_change(change, self._groups)))
        results = await decide_each(named_once(wishes), decide)
        answer = answer_of(api_name)
        return answer(
            responses=[
                answer.AlterConfigsResourceResponse(
                    resource_type=kind, resource_name=name, **error_fields(result)
                )
                for (kind, name), result in results.items()
            ]
        )

    async def ListConfigResources(self, request: Request, message: Any) -> Any:
        asked = list(message.resource_types or ()) if request.version >= NAMES_TYPES else []
        if request.version < NAMES_TYPES:
            asked = [CLIENT_METRICS]
        answer = answer_of("ListConfigResources")
        try:
            resources = self._configs.resources(asked)
        except UnsupportedVersion as error:
            return answer(error_code=error.code, config_resources=[])
        return answer(
            error_code=NONE,
            config_resources=[
                answer.ConfigResource(resource_name=name, resource_type=kind)
                for kind, name in resources
            ],
        )


def _alterations(resource: Any) -> list[Alteration] | WireError:
    for each in resource.configs:
        if each.value is None and each.config_operation != DELETE:
            return InvalidRequest(f"the value of {each.name} is null")
    return [
        Alteration(each.name, each.config_operation, each.value or "") for each in resource.configs
    ]


def _to_wire(result: Any, config: DescribedConfig, asked: Any) -> Any:
    kind = result.DescribeConfigsResourceResult
    synonyms: Iterable[Any] = config.synonyms if asked.include_synonyms else ()
    return kind(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.source,
        is_sensitive=False,
        synonyms=[
            kind.DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
            for each in synonyms
        ],
        config_type=int(config.kind),
        documentation=config.documentation if asked.include_documentation else None,
    )
