"""The records calls of a Kafka listener over the replicas of one broker, without a socket: requests
are encoded and answers decoded by kafka-python and, where it knows the version, by kio.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kio.serial import entity_reader
from prometheus_client import CollectorRegistry

from strandline_broker.config.loading import load_broker_config
from strandline_broker.hosts.fetching.copy_throttle import LeaderThrottle
from strandline_broker.hosts.member.producer_ids import ProducerIds
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.replica.record_check import RecordChecks
from strandline_broker.hosts.serving.applied_views import AppliedViews
from strandline_broker.kafka import codec
from strandline_broker.kafka.calls import Calls
from strandline_broker.kafka.headers import Header
from strandline_broker.kafka.request import Request
from strandline_broker.kafka.services import Services
from strandline_broker.kafka.versions import BY_NAME
from strandline_broker.rpc.cluster.controller_link import ControllerLink
from strandline_broker.telemetry import ServerMetrics
from strandline_proto.batch import build_batch
from strandline_proto.ids import BrokerEpoch, BrokerId
from support.envelopes import applied, envelope
from support.replica_nodes import TOPIC, TOPIC_ID, Node, decide, run_node_without_server, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from strandline_broker.hosts.common.verifier import Verifier
    from strandline_runtime.runtime import Buffer

LISTENER = "PLAINTEXT"
NO_CONTROLLER = "127.0.0.1:1"
MISSING = object()
CONNECTION = object()
PLAIN = (int, bytes, str, bool, type(None))


@dataclass
class KafkaRecords:
    node: Node
    calls: Calls

    async def call(self, api: str, version: int, **fields: Any) -> Any:
        """The answer to a request with these fields."""
        return await self.send(request(api, version, **fields))

    async def send(self, asked: Request) -> Any:
        return decoded(asked, await self.calls.answer(asked))

    async def append(self, asked: Request) -> list[Any]:
        """The answers so far, in a list that a later one joins; None for a request without one."""
        answers: list[Any] = []

        def answer(body: Any) -> None:
            answers.append(None if body is None else decoded(asked, body))

        await self.calls.append(asked, answer)
        return answers

    def write(self, *values: bytes, acks: int = 1, **options: Any) -> bytes:
        """Appends one batch, which is returned."""
        batch = build_batch([(None, value) for value in values], timestamp_ms=1, **options)
        leading = check_leader(self.node.partition, None)
        leading.appends.append(batch, acks=acks, on_done=lambda _: None)
        return batch


@asynccontextmanager
async def kafka_records(
    path: Path,
    *,
    controller: str = NO_CONTROLLER,
    led: bool = True,
    verifier: Verifier | None = None,
    **settings: str,
) -> AsyncIterator[KafkaRecords]:
    """Broker 1, which leads orders-0 alone."""
    async with run_node_without_server(path, 1, **settings) as node:
        if led:
            await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        else:
            applied(node.metadata, envelope(0, full=True, cluster_id="c", store_id="s"))
        config = load_broker_config(
            None,
            {
                "node.id": "1",
                "listeners": f"PLAINTEXT://127.0.0.1:{node.port}",
                "log.dirs": str(path),
                "controller.quorum.bootstrap.servers": NO_CONTROLLER,
            },
            {},
        )
        runtime, unused = node.runtime, Any
        link = ControllerLink(runtime, controller)
        services = Services(
            runtime=runtime,
            metrics=ServerMetrics(CollectorRegistry(), runtime.clock),
            config=config,
            metadata=node.metadata,
            views=AppliedViews(node.metadata),
            replicas=node.replicas,
            checks=RecordChecks(
                runtime.clock, node.replicas.partitions, runtime.serial_executor("record-checks")
            ),
            copies=LeaderThrottle(runtime.clock, node.replicas.config),
            shards=unused,  # type: ignore[arg-type] # of groups
            transactions=unused,  # type: ignore[arg-type] # their coordinators
            producer_ids=ProducerIds(link, BrokerId(1), lambda: BrokerEpoch(1)),
            controller=link,
            verifier=verifier,
        )
        yield KafkaRecords(node, Calls(services, LISTENER))
        await link.close()


def request(api: str, version: int, **fields: Any) -> Request:
    """A request of kafka-python's message with these fields."""
    message = codec.load()[f"{api}Request"](**fields)
    return raw_request(api, version, codec.encode(message, version))


def raw_request(api: str, version: int, body: bytes) -> Request:
    header = Header(BY_NAME[api], version, correlation_id=7, client_id="test")
    return Request(header, memoryview(body), "10.0.0.7", CONNECTION)


def decoded(asked: Request, body: Any) -> Any:
    """kafka-python's answer. It has all bytes, and kio reads the same values."""
    data, api, version = b"".join(body), asked.header.api.name, asked.version
    answer = codec.load()[f"{api}Response"].decode(data, version=version)
    answer._header = None
    assert codec.encode(answer, version) == data, (api, version)
    check_with_kio(api, version, data, answer)
    return answer


def check_with_kio(api: str, version: int, data: bytes, answer: Any) -> None:
    """kio reads the same values from all of the bytes, in the versions that it knows."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", api).lower()
    try:
        module = importlib.import_module(f"kio.schema.{name}.v{version}.response")
    except ModuleNotFoundError:
        return
    found, size = entity_reader(getattr(module, f"{api}Response"))(data, 0)
    assert size == len(data)
    assert plain(found) == plain(_like(found, answer))


def _like(kio: Any, answer: Any) -> dict[str, Any]:
    """The fields of kafka-python's object by kio's names."""
    values = {}
    for each in dataclasses.fields(kio):
        own: Any = getattr(kio, each.name)
        value: Any = getattr(answer, each.name, MISSING)
        if value is MISSING:
            value = getattr(answer, f"{each.name}_ms")  # kio has times of Python
            value = None if own is None and value == -1 else value
        if isinstance(own, tuple) and own and dataclasses.is_dataclass(own[0]):
            assert len(own) == len(value), each.name
            value = [_like(*both) for both in zip(own, value, strict=True)]
        elif dataclasses.is_dataclass(own):
            # A tagged field that is not sent has its defaults in kio, and None in kafka-python.
            defaults: Any = type(own)
            value = plain(defaults()) if value is None else _like(own, value)
        values[each.name] = value
    return values


def plain(value: Any) -> Any:
    """Values of kio as numbers, bytes, lists and dictionaries."""
    if type(value) in PLAIN:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    if isinstance(value, datetime):
        return round((value - datetime.fromtimestamp(0, UTC)) / timedelta(milliseconds=1))
    if isinstance(value, enum.IntEnum):
        return int(value)
    return value


def produce(version: int, *batches: Buffer | None, acks: int = -1, **options: Any) -> Request:
    """A Produce request with these batches for orders-0 and on."""
    new = codec.load()["ProduceRequest"]
    topic = new.TopicProduceData
    parts = [
        topic.PartitionProduceData(index=i, records=None if each is None else bytes(each))
        for i, each in enumerate(batches)
    ]
    name, topic_id = options.pop("topic", (TOPIC, TOPIC_ID))
    return request(
        "Produce",
        version,
        **{"transactional_id": None, "timeout_ms": 5_000, **options},
        acks=acks,
        topic_data=[topic(name=name, topic_id=topic_id.hex(), partition_data=parts)],
    )


def fetch(version: int, *offsets: int, **options: Any) -> Request:
    """A Fetch request for these offsets in orders-0 and on."""
    new = codec.load()["FetchRequest"].FetchTopic
    own = {
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    own |= {name: options.pop(name) for name in list(options) if name in own}
    parts = [
        new.FetchPartition(partition=i, fetch_offset=offset, **own)
        for i, offset in enumerate(offsets)
    ]
    name, topic_id = options.pop("topic", (TOPIC, TOPIC_ID))
    fields = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [new(topic=name, topic_id=topic_id.hex(), partitions=parts)] if parts else [],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return request("Fetch", version, **{**fields, **options})
