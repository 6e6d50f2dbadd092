"""Configurations: their description with types, and alterations as the controller gets them."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_broker.config.loading import load_broker_config
from strandline_broker.core.push_envelope import DynamicConfigs
from strandline_broker.hosts.groups.group_settings import group_settings
from strandline_broker.hosts.serving.configs import ConfigsService
from strandline_broker.kafka.cluster.configs import ConfigsCalls
from strandline_proto.v1 import metadata_pb2
from support.envelopes import applied, envelope, live_broker, partition, topic
from support.kafka_answers import ask, kind
from support.kafka_controller import WrittenController

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST = range(1, 8)
CONFIG = load_broker_config(
    None,
    {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": "/d",
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
        "log.retention.ms": "888",
    },
    {},
)
DYNAMIC = DynamicConfigs(
    broker={"log.roll.ms": "11", "log.cleaner.backoff.ms": "77"},
    cluster={"log.roll.ms": "22", "message.max.bytes": "333"},
    controller={
        "min.insync.replicas": "2",
        "num.partitions": "4",
        "offsets.topic.replication.factor": "3",
    },
    groups={"billing": {"consumer.session.timeout.ms": "50000"}},
)


def calls(*errors: tuple[int, str]) -> tuple[WrittenController, ConfigsCalls]:
    results = [metadata_pb2.AlterConfigsResult(error_code=c, error_message=m) for c, m in errors]
    controller = WrittenController(
        IncrementalAlterConfigs=metadata_pb2.IncrementalAlterConfigsResponse(results=results)
    )
    orders = topic("orders", 1, partition(0), configs={"segment.ms": "1", "retention.ms": "5"})
    pushed = envelope(
        0,
        full=True,
        topics=(orders, topic("plain", 2, partition(0))),
        live_brokers=(live_broker(1), live_broker(2, fenced=True)),
        dynamic_configs=DYNAMIC,
    )
    applied(controller.metadata, pushed)
    configs = ConfigsService(CONFIG, controller.metadata)
    return controller, ConfigsCalls(controller.forward, configs, group_settings(CONFIG))


async def described(version: int, resource_type: int, name: str, *keys: str, **fields: Any) -> Any:
    _, part = calls()
    resource = kind("DescribeConfigs", "DescribeConfigsResource")(
        resource_type=resource_type,
        resource_name=name,
        configuration_keys=list(keys) if keys else None,
    )
    answer = await ask(part, "DescribeConfigs", version, resources=[resource], **fields)
    [found] = answer.results
    assert (found.resource_type, found.resource_name) == (resource_type, name)
    return found


@pytest.mark.parametrize("version", range(1, 5))
async def test_a_topic_is_described_in_each_version(version: int) -> None:
    shows = {"include_synonyms": True}
    if version >= 3:
        shows["include_documentation"] = True
    found = await described(version, TOPIC, "orders", **shows)
    assert (found.error_code, found.error_message) == (0, None)
    by_name = {each.name: each for each in found.configs}
    values = {name: (each.value, each.config_source) for name, each in by_name.items()}
    assert values["segment.ms"] == ("1", 1)
    assert values["max.message.bytes"] == ("333", 3)
    assert values["cleanup.policy"] == ("delete", 5)
    assert values["min.insync.replicas"] == ("2", 5)
    assert values["compression.type"] == ("producer", 5)
    assert not any(each.read_only or each.is_sensitive for each in found.configs)
    synonyms = [(s.name, s.value, s.source) for s in by_name["segment.ms"].synonyms]
    assert synonyms == [
        ("segment.ms", "1", 1),
        ("log.roll.ms", "11", 2),
        ("log.roll.ms", "22", 3),
        ("log.roll.ms", "604800000", 5),
    ]
    if version >= 3:
        types = {name: each.config_type for name, each in by_name.items()}
        assert types["cleanup.policy"] == LIST
        assert types["retention.ms"] == types["retention.bytes"] == types["segment.ms"] == LONG
        assert types["segment.bytes"] == types["min.insync.replicas"] == INT
        assert types["max.message.bytes"] == types["index.interval.bytes"] == INT
        assert types["min.cleanable.dirty.ratio"] == DOUBLE
        assert types["unclean.leader.election.enable"] == types["preallocate"] == BOOLEAN
        assert types["message.timestamp.type"] == types["compression.type"] == STRING
        assert all(each.documentation for each in found.configs)


async def test_synonyms_and_documentation_are_left_out_unless_asked_for() -> None:
    found = await described(4, TOPIC, "orders")
    assert not any(each.synonyms or each.documentation for each in found.configs)


@pytest.mark.parametrize("version", range(1, 5))
async def test_a_broker_is_described_with_the_keys_that_tools_look_for(version: int) -> None:
    found = {each.name: each for each in (await described(version, BROKER, "1")).configs}
    values = {
        name: (found[name].value, found[name].config_source, found[name].read_only)
        for name in found
    }
    assert values["auto.create.topics.enable"] == ("true", 5, True)
    assert values["log.message.timestamp.type"] == ("CreateTime", 5, False)
    assert values["log.retention.ms"] == ("888", 4, False)
    assert values["log.cleaner.backoff.ms"] == ("77", 2, False)
    assert values["message.max.bytes"] == ("333", 3, False)
    assert values["offsets.topic.replication.factor"] == ("3", 5, True)
    assert values["num.partitions"] == ("4", 4, True)
    assert values["delete.topic.enable"] == ("true", 5, True)
    assert values["compression.type"] == ("producer", 5, True)
    assert values["log.dirs"] == ("/d", 4, True)
    if version >= 3:
        types = {name: each.config_type for name, each in found.items()}
        assert types["auto.create.topics.enable"] == types["delete.topic.enable"] == BOOLEAN
        assert types["log.dirs"] == types["listeners"] == LIST
        assert types["offsets.topic.replication.factor"] == SHORT
        assert types["num.partitions"] == types["node.id"] == INT
        assert types["log.retention.ms"] == types["replica.lag.time.max.ms"] == LONG
        assert types["log.cleaner.io.max.bytes.per.second"] == DOUBLE


async def test_named_keys_alone_are_described() -> None:
    found = await described(4, TOPIC, "orders", "cleanup.policy", "unknown")
    assert [each.name for each in found.configs] == ["cleanup.policy"]


async def test_defaults_of_all_brokers_and_groups_are_described() -> None:
    found = (await described(4, BROKER, "")).configs
    assert {each.name: (each.value, each.config_type) for each in found} == {
        "log.roll.ms": ("22", LONG),
        "message.max.bytes": ("333", INT),
    }
    found = (await described(4, GROUP, "billing")).configs
    assert {(each.name, each.value, each.config_source) for each in found} >= {
        ("consumer.session.timeout.ms", "50000", 8),
        ("consumer.heartbeat.interval.ms", "5000", 5),
    }
    assert {each.config_type for each in found} == {INT}


@pytest.mark.parametrize(
    ("resource_type", "name", "code", "says"),
    [
        (TOPIC, "nothing", 3, "knows no topic"),
        (BROKER, "2", 42, "ask broker 2"),
        (LOGGER, "1", 42, "resource type 8"),
        (CLIENT_METRICS, "x", 42, "resource type 16"),
    ],
)
async def test_other_resources_are_refused(
    resource_type: int, name: str, code: int, says: str
) -> None:
    found = await described(4, resource_type, name)
    assert (found.error_code, found.configs) == (code, [])
    assert says in found.error_message


def incremental(resource_type: int, name: str, *entries: tuple[str, int, str | None]) -> Any:
    made = kind("IncrementalAlterConfigs", "AlterConfigsResource")
    return made(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            made.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in entries
        ],
    )


def sent(controller: WrittenController) -> list[tuple[int, str, list[tuple[str, int, str]]]]:
    [request] = controller.requests
    return [
        (each.type, each.name, [(c.name, c.operation, c.value) for c in each.configs])
        for each in request.resources
    ]


def results(answer: Any) -> list[tuple[int, str, int]]:
    return [(r.resource_type, r.resource_name, r.error_code) for r in answer.responses]


@pytest.mark.parametrize("version", [0, 1])
async def test_keys_are_altered_one_by_one_in_each_version(version: int) -> None:
    controller, part = calls((0, ""), (40, "no such key"))
    answer = await ask(
        part,
        "IncrementalAlterConfigs",
        version,
        resources=[
            incremental(
                TOPIC,
                "orders",
                ("retention.ms", SET, "7"),
                ("segment.ms", DELETE, None),
                ("cleanup.policy", APPEND, "compact"),
                ("cleanup.policy", SUBTRACT, "delete"),
            ),
            incremental(BROKER, "1", ("wrong", SET, "7")),
            incremental(TOPIC, "null", ("retention.ms", SET, None)),
            incremental(GROUP, "g", ("consumer.session.timeout.ms", SET, "1")),
        ],
        validate_only=True,
    )
    assert controller.requests[0].validate_only
    assert sent(controller) == [
        (
            TOPIC,
            "orders",
            [
                ("retention.ms", SET, "7"),
                ("segment.ms", DELETE, ""),
                ("cleanup.policy", APPEND, "compact"),
                ("cleanup.policy", SUBTRACT, "delete"),
            ],
        ),
        (BROKER, "1", [("wrong", SET, "7")]),
    ]
    assert results(answer) == [
        (TOPIC, "orders", 0),
        (BROKER, "1", 40),
        (TOPIC, "null", 42),
        (GROUP, "g", 40),
    ]
    assert answer.responses[1].error_message == "no such key"


def whole(resource_type: int, name: str, **entries: str | None) -> Any:
    made = kind("AlterConfigs", "AlterConfigsResource")
    return made(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            made.AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in entries.items()
        ],
    )


@pytest.mark.parametrize("version", range(3))
async def test_a_whole_configuration_is_replaced_in_each_version(version: int) -> None:
    controller, part = calls((0, ""), (0, ""), (0, ""), (0, ""))
    answer = await ask(
        part,
        "AlterConfigs",
        version,
        resources=[
            whole(TOPIC, "orders", retention_ms="7", max_message_bytes="8"),
            whole(BROKER, "1", log_roll_ms="9"),
            whole(BROKER, ""),
            whole(GROUP, "billing"),
            whole(BROKER, "2"),
            whole(TOPIC, "plain", retention_ms=None),
        ],
        validate_only=False,
    )
    assert sent(controller) == [
        (
            TOPIC,
            "orders",
            [
                ("retention.ms", SET, "7"),
                ("max.message.bytes", SET, "8"),
                ("segment.ms", DELETE, ""),
            ],
        ),
        (BROKER, "1", [("log.roll.ms", SET, "9"), ("log.cleaner.backoff.ms", DELETE, "")]),
        (BROKER, "", [("log.roll.ms", DELETE, ""), ("message.max.bytes", DELETE, "")]),
        (GROUP, "billing", [("consumer.session.timeout.ms", DELETE, "")]),
    ]
    assert [code for *_, code in results(answer)] == [0, 0, 0, 0, 42, 42]
    assert "ask broker 2" in answer.responses[4].error_message


async def test_a_resource_that_is_named_twice_is_refused() -> None:
    controller, part = calls((0, ""))
    answer = await ask(
        part,
        "IncrementalAlterConfigs",
        1,
        resources=[
            incremental(TOPIC, "orders", ("retention.ms", SET, "7")),
            incremental(TOPIC, "plain", ("retention.ms", SET, "7")),
            incremental(TOPIC, "orders", ("retention.ms", SET, "8")),
        ],
    )
    assert [name for _, name, _ in sent(controller)] == ["plain"]
    assert results(answer) == [(TOPIC, "orders", 42), (TOPIC, "plain", 0)]


async def test_version_0_lists_client_metrics_and_there_are_none() -> None:
    _, part = calls()
    answer = await ask(part, "ListConfigResources", 0)
    assert (answer.error_code, answer.config_resources) == (0, [])


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([TOPIC], [(TOPIC, "orders"), (TOPIC, "plain")]),
        ([BROKER, GROUP], [(BROKER, "1"), (BROKER, "2"), (GROUP, "billing")]),
        ([LOGGER, CLIENT_METRICS], []),
        (
            [],
            [
                (TOPIC, "orders"),
                (TOPIC, "plain"),
                (BROKER, "1"),
                (BROKER, "2"),
                (GROUP, "billing"),
            ],
        ),
    ],
)
async def test_resources_are_listed_by_type(asked: list[int], found: list[tuple[int, str]]) -> None:
    _, part = calls()
    answer = await ask(part, "ListConfigResources", 1, resource_types=asked)
    assert answer.error_code == 0
    assert [(r.resource_type, r.resource_name) for r in answer.config_resources] == found


async def test_a_type_that_kafka_does_not_have_is_refused() -> None:
    _, part = calls()
    answer = await ask(part, "ListConfigResources", 1, resource_types=[TOPIC, 3])
    assert (answer.error_code, answer.config_resources) == (35, [])


async def test_a_resource_that_is_repeated_is_described_once() -> None:
    _, part = calls()
    made = kind("DescribeConfigs", "DescribeConfigsResource")

    def orders(*keys: str) -> Any:
        return made(resource_type=TOPIC, resource_name="orders", configuration_keys=list(keys))

    many = [orders(), orders("segment.ms"), *(orders() for _ in range(50))]
    answer = await ask(part, "DescribeConfigs", 4, resources=many)
    assert [len(each.configs) > 1 for each in answer.results] == [True, False]


@pytest.mark.parametrize("name", ["n" * 32_767, "\x00" * 32_767])
async def test_a_message_that_quotes_a_long_name_fits_into_the_answer(name: str) -> None:
    for version in range(1, 5):
        for resource_type, code in ((TOPIC, 3), (BROKER, 42)):
            found = await described(version, resource_type, name)
            assert (found.error_code, len(found.error_message) <= 4_000) == (code, True)
    _, part = calls()
    for version in range(3):
        asked = [whole(BROKER, name), whole(TOPIC, "plain", **{name: None})]
        answer = await ask(part, "AlterConfigs", version, resources=asked)
        assert [each.error_code for each in answer.responses] == [42, 42]
