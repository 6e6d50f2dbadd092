"""Configuration calls on the wire: requests, the brokers to ask, and their answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline._core.in_parts import in_parts
from strandline._net.answers import check
from strandline._net.arguments import mapping, several
from strandline.errors import BrokerUnreachable, ConfigurationError
from strandline.types import (
    AlterConfigOpType,
    ConfigChange,
    ConfigSource,
    ConfigSynonym,
    ConfigValue,
)
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline._net.session import Session

Resource = tuple[str, str]
Described = dict[Resource, dict[str, ConfigValue]]

KINDS: Final = {"topic": 2, "broker": 4, "group": 32}
"""Kafka's numbers for the kinds of resources that have a configuration."""
AT_ONCE: Final = 500
"""Largest number of resources in one request; a broker takes 1,000."""
_NAMES: Final = {number: kind for kind, number in KINDS.items()}


def resources_of(given: Iterable[tuple[str, str | int]]) -> list[Resource]:
    """("topic", name), ("broker", id) or ("group", id), checked; a broker without an id stands for
    all of them.
    """
    resources = []
    for kind, name in several("resources", given, tuple):
        if kind not in KINDS:
            raise ConfigurationError(f"a resource is a topic, a broker or a group, not {kind!r}")
        resources.append((kind, str(name)))
    return resources


async def describe_configs(
    session: Session, resources: list[Resource], timeout_s: float
) -> Described:
    """Asks each broker for its own configuration, and any broker for the rest."""
    apart: dict[str, list[Resource]] = {}
    for kind, name in resources:
        apart.setdefault(name if kind == "broker" else "", []).append((kind, name))
    if apart.keys() - {""}:
        await session.cluster.refresh(timeout_s)
    found: Described = {}

    async def ask(broker: str, of_it: list[Resource]) -> None:
        request = metadata_pb2.DescribeConfigsRequest()
        for kind, name in of_it:
            request.resources.add(type=KINDS[kind], name=name)
        answer = await _ask(session, broker, request, timeout_s)
        for result in answer.results:
            check(result)
            kind = _NAMES.get(result.type, str(result.type))
            found[kind, result.name] = {c.name: _value(c) for c in result.configs}

    try:
        async with asyncio.TaskGroup() as group:
            for broker, of_it in apart.items():
                for part in in_parts(of_it, AT_ONCE):
                    group.create_task(ask(broker, part))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return {resource: found[resource] for resource in resources}


async def _ask(
    session: Session,
    broker: str,
    request: metadata_pb2.DescribeConfigsRequest,
    timeout_s: float,
) -> metadata_pb2.DescribeConfigsResponse:
    if broker == "":
        return await session.cluster.ask_any(
            lambda stub: stub.DescribeConfigs,
            request,
            timeout_s=timeout_s,
            returns=metadata_pb2.DescribeConfigsResponse,
        )
    brokers = session.cluster.view.brokers
    address = session.cluster.address_of(int(broker)) if broker.isdecimal() else None
    if address is None:
        live = ", ".join(str(b) for b in sorted(brokers)) or "none"
        raise BrokerUnreachable(f"broker {broker} is not among the live brokers ({live})")
    return await session.connections.call(
        address,
        lambda stub: stub.DescribeConfigs,
        request,
        timeout_s=timeout_s,
        returns=metadata_pb2.DescribeConfigsResponse,
    )


def _value(config: metadata_pb2.DescribedConfig) -> ConfigValue:
    return ConfigValue(
        config.name,
        config.value,
        _source(config.source),
        config.read_only,
        config.sensitive,
        config.documentation,
        tuple(ConfigSynonym(s.name, s.value, _source(s.source)) for s in config.synonyms),
    )


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN_CONFIG


def alteration(
    changes: Mapping[tuple[str, str | int], Iterable[ConfigChange]],
    *,
    timeout_s: float,
    validate_only: bool,
) -> metadata_pb2.IncrementalAlterConfigsRequest:
    """The request that alters these keys."""
    request = metadata_pb2.IncrementalAlterConfigsRequest(
        timeout_ms=int(timeout_s * 1000), validate_only=validate_only
    )
    for (kind, name), entries in zip(
        resources_of(mapping("changes", changes)), changes.values(), strict=True
    ):
        resource = request.resources.add(type=KINDS[kind], name=name)
        for change in several("changes", entries, ConfigChange):
            if change.value is None and change.operation is not AlterConfigOpType.DELETE:
                raise ConfigurationError(
                    f"{change.name}: {change.operation.name} needs a value; to go back to the "
                    "default, use DELETE"
                )
            resource.configs.add(
                name=change.name, operation=change.operation, value=change.value or ""
            )
    return request
