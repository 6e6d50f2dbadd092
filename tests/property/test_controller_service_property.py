"""Anybody may send the controller anything: it answers, refuses, and goes on.

Requests are made from the descriptors of its service, so that a new method or field is tried as
soon as it is there. Values come from what the controller holds and from what no sender should say.
After each history the controller still decides, and a restart replays its log to the same state.

One message ends a controller on purpose: a broker that remembers what this store lacks (P-76).
No request here claims a memory.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.hosts.controller import controller as host
from strandline_broker.hosts.controller.pipeline import replay_log
from strandline_broker.rpc.controller import answers
from strandline_proto.v1 import push_pb2, services_pb2
from support.controller_store import same
from support.examples import examples
from support.hostile_controller import BROKERS, HostileRun, hostile_run

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

METHODS: Final = services_pb2.DESCRIPTOR.services_by_name["ControllerService"].methods_by_name
INTEGERS: Final = (-(2**31), -2, -1, 0, 1, 2, 3, 4, 100, 10_001, 65_536, 2**31 - 1)
LONG_INTEGERS: Final = (*INTEGERS, -(2**63), 2**63 - 1)
TEXTS: Final = (
    *("", "t", "u", "1", "2", "INTERNAL", "127.0.0.1", "dir-1", "incarnation-1", "replicated"),
    *("broker..1", "x" * 300, "\0", "ü.example", "::", "[", "a b", ".", "__cluster_metadata"),
    *("min.insync.replicas", "cleanup.policy", "compact", "log.retention.ms", "9" * 5000),
)


async def _known() -> tuple[list[int], list[bytes]]:
    async with hostile_run() as run:
        state = run.controller.state
        return [b.epoch for b in state.brokers.values()], list(state.topics)


EPOCHS, TOPIC_IDS = asyncio.run(_known())


def values(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    """What one field may hold."""
    if field.name == "store_id":
        return st.just("")
    if field.name == "broker_id":
        return st.sampled_from((*BROKERS, *BROKERS, 4, -1, 2**31 - 1))
    if field.name in ("broker_epoch", "previous_broker_epoch"):
        return st.sampled_from((*EPOCHS, *EPOCHS, -1, 2**63 - 1))
    match field.type:
        case FieldDescriptor.TYPE_MESSAGE:
            assert field.message_type is not None
            return messages(field.message_type, depth + 1)
        case FieldDescriptor.TYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.TYPE_STRING:
            return st.sampled_from(TEXTS) | st.text(st.characters(codec="utf-8"), max_size=9)
        case FieldDescriptor.TYPE_BYTES:
            known = st.sampled_from((*TOPIC_IDS, *TOPIC_IDS, b"", b"x" * 15))
            return known | st.binary(max_size=20)
        case FieldDescriptor.TYPE_INT64:
            return st.sampled_from(LONG_INTEGERS) | st.integers(-(2**63), 2**63 - 1)
        case _:
            return st.sampled_from(INTEGERS) | st.integers(-(2**31), 2**31 - 1)


@st.composite
def messages(draw: st.DrawFn, kind: Descriptor, depth: int = 0) -> Message:
    """Any message of that kind, each field set or not."""
    message = GetMessageClass(kind)()
    for field in kind.fields:
        if field.is_repeated:
            given_values = draw(st.lists(values(field, depth), max_size=3))
            getattr(message, field.name).extend(given_values)
        elif draw(st.integers(0, 4)) > 0:
            value = draw(values(field, depth))
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                getattr(message, field.name).CopyFrom(value)
            else:
                setattr(message, field.name, value)
    return message


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, list[Message]]:
    name = draw(st.sampled_from(sorted(METHODS)))
    request = messages(METHODS[name].input_type)
    most = 3 if name == "BrokerHeartbeat" else 1
    return name, draw(st.lists(request, min_size=1, max_size=most))


@pytest.fixture(autouse=True, scope="module")
def _nobody_waits() -> Any:
    """No broker ever applies anything here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "APPLY_WAIT_S", 0.0)
        patch.setattr(host, "SHUTDOWN_WAIT_S", 0.0)
        yield


@given(
    history=st.lists(calls(), min_size=1, max_size=6),
    pushed=st.lists(messages(push_pb2.LeaderAndIsrResponse.DESCRIPTOR), max_size=3),
)
@settings(max_examples=examples(40))
def test_nothing_that_is_sent_ends_the_controller(
    history: list[tuple[str, list[Message]]], pushed: list[push_pb2.LeaderAndIsrResponse]
) -> None:
    asyncio.run(_survives(history, pushed))


async def _survives(
    history: list[tuple[str, list[Message]]], pushed: list[push_pb2.LeaderAndIsrResponse]
) -> None:
    async with hostile_run() as run:
        run.network.answers += pushed
        for method, requests in history:
            answered = await run.call(method, *requests)
            assert len(answered) == len(requests), method
            for answer in answered:
                answer.SerializeToString()
        await _goes_on(run)


async def _goes_on(run: HostileRun) -> None:
    before = run.controller.state.last_offset
    await run.create("and-on", partitions=1)
    for b in BROKERS:
        if b in run.controller.state.brokers:
            await run.call("BrokerHeartbeat", run.heartbeat(b))
    answer: Any = await run.create("and-on-and-on", partitions=1)
    assert run.controller.state.last_offset >= before
    assert answer.topics[0].name == "and-on-and-on"
    again = ControllerState()
    replay_log(again, run.store)
    assert same(again, run.controller.state)
