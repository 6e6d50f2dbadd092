"""A broker's registration, heartbeats and controlled shutdown, against a scripted controller over
real gRPC.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

import pytest

from strandline_broker.config.loading import load_broker_config
from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.compatibility import OURS, Levels
from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.core.registration import kafka_listeners
from strandline_broker.core.replication.replica_condition import RefusedTruncation, ReplicaCondition
from strandline_broker.hosts.member import lifecycle as lifecycle_module
from strandline_broker.hosts.member.lifecycle import BrokerLifecycle, BrokerState, CannotStart
from strandline_broker.hosts.replica.losses import Losses
from strandline_broker.rpc.cluster.controller_link import ControllerLink
from strandline_broker.storage.directory.broker_directories import BrokerDirectories
from strandline_proto.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    NotController,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from strandline_proto.ids import ControllerEpoch, MetadataOffset
from strandline_proto.v1 import common_pb2, controller_pb2
from strandline_runtime.real import real_runtime
from support.envelopes import applied, envelope
from support.scripted_controller import WAIT_S, running, scripted_controller
from support.told_controller import ToldController

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

Registration = controller_pb2.BrokerRegistrationResponse
Heartbeat = controller_pb2.BrokerHeartbeatResponse


class Exited(Exception):
    """The process would have stopped at once."""


def _exit(why: str) -> NoReturn:
    raise Exited(why)


class NoReplicas:
    def __init__(self) -> None:
        self.losses = Losses(real_runtime("broker-1"), ToldController(7))

    @property
    def applied_partitions(self) -> int:
        return 7

    def offline_replicas(self) -> dict[tuple[bytes, int], ReplicaCondition]:
        return {}

    def strays(self) -> list[str]:
        return []

    def refused_truncations(self) -> list[RefusedTruncation]:
        return []


@dataclass
class Subject:
    lifecycle: BrokerLifecycle
    directory: BrokerDirectories
    metadata: MetadataCache
    replicas: NoReplicas


@asynccontextmanager
async def broker(
    path: Path,
    target: str,
    metadata: MetadataCache | None = None,
    levels: Levels = OURS,
    **settings: str,
) -> AsyncIterator[Subject]:
    """Everything a lifecycle needs; the caller runs it."""
    runtime = replace(real_runtime("broker-1"), exit=_exit)
    config = load_broker_config(
        None,
        {
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "log.dirs": str(path),
            "controller.quorum.bootstrap.servers": target,
            "broker.heartbeat.interval.ms": "50",
        }
        | {name.replace("_", "."): value for name, value in settings.items()},
        {},
    )
    directory = BrokerDirectories.open(
        runtime.fs, [str(path)], node_id=1, cluster_id=None, new_id=runtime.random_id
    )
    metadata = metadata or MetadataCache(cluster_id=directory.cluster_id or "")
    link = ControllerLink(runtime, target)
    lifecycle = BrokerLifecycle(
        runtime,
        config,
        directory,
        metadata,
        link,
        endpoints=[Endpoint("PLAINTEXT", "127.0.0.1", 9092)],
        build="0.1.0+aaa",
        levels=levels,
    )
    try:
        yield Subject(lifecycle, directory, metadata, NoReplicas())
    finally:
        await link.close()
        directory.close()


async def within(waiting: asyncio.Event) -> None:
    async with asyncio.timeout(WAIT_S):
        await waiting.wait()


async def failure(subject: Subject, kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        async with asyncio.timeout(WAIT_S):
            await subject.lifecycle.run(subject.replicas)
    return str(caught.value)


async def test_a_registration_says_who_where_and_what_was_applied_before(tmp_path: Path) -> None:
    before = MetadataCache(
        store_id="store",
        known_controller_epoch=ControllerEpoch(3),
        known_offset=MetadataOffset(40),
    )
    async with (
        scripted_controller() as controller,
        broker(tmp_path, controller.target, before) as b,
    ):
        async with running(b.lifecycle.run(b.replicas)):
            await within(b.lifecycle.registered)
        assert b.lifecycle.broker_epoch == 7
        assert b.directory.cluster_id == b.metadata.cluster_id == "cluster"
    said = controller.registrations[0]
    assert (said.broker_id, said.incarnation_id) == (1, b.lifecycle.incarnation_id)
    assert said.directory_id == b.directory.directory_id
    assert (said.store_id, said.controller_epoch, said.metadata_offset) == ("store", 3, 40)
    assert [(e.listener, e.host, e.port) for e in said.listeners] == [
        ("PLAINTEXT", "127.0.0.1", 9092)
    ]
    assert said.inter_broker_listener == "PLAINTEXT"
    assert 0 < said.replicas_max < real_runtime("test").descriptors
    assert said.flush_policy == "replicated"
    assert said.previous_broker_epoch == -1


async def test_a_registration_says_which_listeners_speak_kafkas_protocol(tmp_path: Path) -> None:
    listeners = "PLAINTEXT://127.0.0.1:9092,GRPC://127.0.0.1:9093,K://127.0.0.1:9094"
    async with (
        scripted_controller() as controller,
        broker(
            tmp_path,
            controller.target,
            listeners=listeners,
            listener_security_protocol_map="K:PLAINTEXT",
        ) as b,
        running(b.lifecycle.run(b.replicas)),
    ):
        await within(b.lifecycle.registered)
    features = tuple(controller.registrations[0].features)
    assert features == (*OURS.features, "kafka:PLAINTEXT", "kafka:K")
    assert kafka_listeners(features) == ("PLAINTEXT", "K")


async def test_the_epoch_of_a_clean_shutdown_is_presented_once(tmp_path: Path) -> None:
    """I-52: the marker is gone as soon as the directory is opened."""
    async with scripted_controller() as controller:
        async with broker(tmp_path, controller.target) as first:
            first.directory.write_clean_shutdown(5)
        for _ in range(2):
            async with (
                broker(tmp_path, controller.target) as b,
                running(b.lifecycle.run(b.replicas)),
            ):
                await within(b.lifecycle.registered)
    assert [r.previous_broker_epoch for r in controller.registrations] == [5, -1]


async def test_what_cannot_be_served_is_named_at_once_and_known_once_it_is_answered(
    tmp_path: Path,
) -> None:
    key = (b"t" * 16, 3)
    offline: dict[tuple[bytes, int], ReplicaCondition] = {}
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        b.replicas.offline_replicas = lambda: dict(offline)  # type: ignore[method-assign]
        async with running(b.lifecycle.run(b.replicas)):
            await controller.until(lambda: len(controller.heartbeats) >= 1)
            assert b.lifecycle.offline_known_at(key) is None
            offline[key] = ReplicaCondition.DAMAGED
            b.directory.failed["/lost"] = "it failed"
            b.lifecycle.report_offline()
            await controller.until(lambda: b.lifecycle.offline_known_at(key) is not None)
            said = controller.heartbeats[-1]
            assert said.applied_partitions == 7
            (named,) = said.offline_replicas
            assert (named.topic_id, named.partition_index) == key
            assert named.condition == common_pb2.REPLICA_CONDITION_DAMAGED
            assert [h.number for h in controller.heartbeats] == [
                *range(1, len(controller.heartbeats) + 1)
            ]
            assert list(said.offline_log_dirs) == ["/lost"]
            controller.heartbeats_go_on.clear()
            offline.clear()
            b.lifecycle.report_offline()
            await controller.until(lambda: not controller.heartbeats[-1].offline_replicas)
            assert b.lifecycle.offline_known_at(key) is None, "taken back before it is answered"
            controller.heartbeats_go_on.set()


async def test_a_broker_wants_to_be_fenced_until_it_has_loaded_and_applied_a_snapshot(
    tmp_path: Path,
) -> None:
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        async with running(b.lifecycle.run(b.replicas)):
            await controller.until(lambda: len(controller.heartbeats) >= 2)
            b.lifecycle.on_loaded()
            seen = len(controller.heartbeats)
            await controller.until(lambda: len(controller.heartbeats) >= seen + 2)
            assert all(beat.want_fence for beat in controller.heartbeats)
            assert b.lifecycle.state is BrokerState.FENCED
            applied(b.metadata, envelope(9, full=True))
            b.lifecycle.on_applied()
            await within(b.lifecycle.unfenced)
        assert controller.heartbeats[-1].current_metadata_offset == 9
        assert controller.heartbeats[0].current_metadata_offset == -1
        assert {beat.broker_epoch for beat in controller.heartbeats} == {7}


async def test_a_broker_is_sure_for_most_of_a_session_after_what_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-101. And again once it is answered; a fenced one is not."""
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        assert not b.lifecycle.is_sure()
        async with running(b.lifecycle.run(b.replicas)):
            await controller.until(lambda: len(controller.heartbeats) >= 2)
            assert not b.lifecycle.is_sure(), "it is fenced"
            b.lifecycle.on_loaded()
            applied(b.metadata, envelope(9, full=True))
            b.lifecycle.on_applied()
            await within(b.lifecycle.unfenced)
            assert b.lifecycle.is_sure()
            monkeypatch.setattr(lifecycle_module, "SURE", 0.0)  # as if a session had passed since
            seen = len(controller.heartbeats)
            await controller.until(lambda: len(controller.heartbeats) >= seen + 2)
            assert not b.lifecycle.is_sure()


async def test_a_controller_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    async with scripted_controller() as gone:
        port = int(gone.target.rpartition(":")[2])
    async with broker(tmp_path, f"127.0.0.1:{port}") as b, running(b.lifecycle.run(b.replicas)):
        await asyncio.sleep(0)
        async with scripted_controller(port):
            await within(b.lifecycle.registered)


async def test_a_broken_heartbeat_stream_is_opened_again_without_registering_again(
    tmp_path: Path,
) -> None:
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        controller.on_heartbeat = lambda _: None
        async with running(b.lifecycle.run(b.replicas)):
            await controller.until(lambda: controller.streams >= 3)
    assert len(controller.registrations) == 1


async def test_a_silent_controller_costs_one_message_timeout_not_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-80: a half-open peer is noticed by the timer of each message."""
    monkeypatch.setattr(lifecycle_module, "ANSWER_TIMEOUT_S_MIN", 0.1)
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        controller.heartbeats_go_on.clear()
        async with running(b.lifecycle.run(b.replicas)):
            await controller.until(lambda: controller.streams >= 2)
            assert b.lifecycle.last_answer_s is None
            controller.heartbeats_go_on.set()
            await controller.until(lambda: len(controller.heartbeats) >= 5)
            assert b.lifecycle.last_answer_s is not None
    assert len(controller.registrations) == 1


@pytest.mark.parametrize("when", ["registration", "heartbeat"])
async def test_a_process_that_was_replaced_stops_at_once(tmp_path: Path, when: str) -> None:
    """P-73."""
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        if when == "registration":
            controller.on_registration = lambda _: Registration(
                error_code=StaleBrokerEpoch.code, error_message="epoch 9 is newer"
            )
        else:
            controller.on_heartbeat = lambda _: Heartbeat(
                error_code=StaleBrokerEpoch.code, error_message="epoch 9 is newer"
            )
        why = await failure(b, Exited)
    assert "has been replaced by another process" in why
    assert "epoch 9 is newer" in why
    assert len(controller.registrations) == 1


async def test_a_controller_that_does_not_know_the_broker_gets_the_same_incarnation_again(
    tmp_path: Path,
) -> None:
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        epochs = iter((7, 30))
        controller.on_registration = lambda _: Registration(
            broker_epoch=next(epochs), cluster_id="cluster", store_id="store"
        )
        controller.on_heartbeat = lambda beat: Heartbeat(
            error_code=BrokerIdNotRegistered.code if beat.broker_epoch == 7 else 0
        )
        async with running(b.lifecycle.run(b.replicas)):
            await controller.until(lambda: len(controller.heartbeats) >= 3)
    assert b.lifecycle.broker_epoch == 30
    assert len({r.incarnation_id for r in controller.registrations}) == 1
    assert len(controller.registrations) == 2


async def test_a_taken_broker_id_is_tried_again_and_then_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-71."""
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        controller.on_registration = lambda _: Registration(
            error_code=DuplicateBrokerRegistration.code, error_message="id 1 is in use by pid 5"
        )
        monkeypatch.setattr(lifecycle_module, "DUPLICATE_WAIT_S", 0.2)
        assert await failure(b, CannotStart) == "id 1 is in use by pid 5"
    assert len(controller.registrations) >= 2


async def test_a_broker_of_another_cluster_is_refused_at_once(tmp_path: Path) -> None:
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        controller.on_registration = lambda _: Registration(
            error_code=InconsistentClusterId.code, error_message="you belong to cluster X"
        )
        message = await failure(b, CannotStart)
    assert message == (
        f"the controller at {controller.target} refuses this broker: you belong to cluster X"
    )
    assert len(controller.registrations) == 1


async def test_a_broker_says_what_it_is_and_what_it_speaks(tmp_path: Path) -> None:
    async with (
        scripted_controller() as controller,
        broker(tmp_path, controller.target) as b,
        running(b.lifecycle.run(b.replicas)),
    ):
        await controller.until(lambda: bool(controller.heartbeats))
    said = controller.registrations[0]
    assert (said.version, list(said.features)) == ("0.1.0+aaa", ["protocol:0-1"])


async def test_a_controller_that_does_not_fit_is_refused_by_the_names_of_both(
    tmp_path: Path,
) -> None:
    """One of before levels lets in whom it cannot speak to."""
    async with (
        scripted_controller() as controller,
        broker(tmp_path, controller.target, levels=Levels(1, 2)) as b,
    ):
        message = await failure(b, CannotStart)
    name = f"the controller at {controller.target}"
    assert message.startswith(
        f"this broker refuses {name}: {name} runs build unknown and speaks protocol level 0;"
        " broker 1 runs build 0.1.0+aaa and speaks protocol levels 1 to 2: they share no level."
        f" Upgrade {name} to a build that speaks protocol level 1"
    )


async def test_a_broker_that_serves_goes_on_when_another_controller_does_not_fit(
    tmp_path: Path,
) -> None:
    async with (
        scripted_controller() as controller,
        broker(tmp_path, controller.target) as b,
        running(b.lifecycle.run(b.replicas)),
    ):
        await controller.until(lambda: bool(controller.heartbeats))
        controller.on_registration = lambda _: Registration(
            error_code=UnsupportedVersion.code, error_message="they share no level"
        )
        controller.on_heartbeat = lambda _: Heartbeat(error_code=BrokerIdNotRegistered.code)
        await controller.until(lambda: len(controller.registrations) >= 3)
        assert b.lifecycle.broker_epoch == 7


async def test_a_controller_with_another_store_is_refused_by_the_broker(tmp_path: Path) -> None:
    """P-76: the directory remembers whose log it has applied."""
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        b.metadata.store_id = "the-one-before"
        message = await failure(b, CannotStart)
    assert "has store store" in message
    assert "start the controller on its original data directory" in message


@pytest.mark.parametrize("how", ["another store", "another cluster"])
async def test_a_broker_that_serves_outlives_another_controller_in_the_place_of_its_own(
    tmp_path: Path, how: str
) -> None:
    """P-76: an empty controller must not take the brokers down with their data."""
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        right = Registration(broker_epoch=7, cluster_id="cluster", store_id="store")
        wrong = Registration(broker_epoch=1, cluster_id="cluster", store_id="empty")
        if how == "another cluster":
            wrong = Registration(error_code=InconsistentClusterId.code, error_message="who are you")
        answers = iter((right, wrong, wrong, right))
        controller.on_registration = lambda _: next(answers)
        controller.on_heartbeat = lambda _: Heartbeat(
            error_code=BrokerIdNotRegistered.code if len(controller.registrations) < 4 else 0
        )
        async with running(b.lifecycle.run(b.replicas)):
            b.metadata.store_id = "store"
            await controller.until(lambda: len(controller.registrations) == 4)
            await controller.until(lambda: len(controller.heartbeats) >= 3)
    assert b.lifecycle.broker_epoch == 7


async def test_a_controller_that_is_not_ready_is_asked_again(tmp_path: Path) -> None:
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        accept: Callable[[object], Registration] = controller.on_registration  # type: ignore[assignment]
        refusals = iter((True, True, False))
        controller.on_registration = lambda request: (
            Registration(error_code=NotController.code) if next(refusals) else accept(request)
        )
        async with running(b.lifecycle.run(b.replicas)):
            await within(b.lifecycle.registered)
    assert len(controller.registrations) == 3


async def test_a_controlled_shutdown_waits_for_the_word_of_the_controller(tmp_path: Path) -> None:
    async with scripted_controller() as controller, broker(tmp_path, controller.target) as b:
        controller.on_heartbeat = lambda beat: Heartbeat(
            should_shut_down=beat.want_shut_down
            and sum(1 for h in controller.heartbeats if h.want_shut_down) >= 3
        )
        async with running(b.lifecycle.run(b.replicas)):
            await within(b.lifecycle.registered)
            async with asyncio.timeout(WAIT_S):
                await b.lifecycle.shut_down()
    assert sum(1 for h in controller.heartbeats if h.want_shut_down) == 3


async def test_a_shutdown_that_is_not_granted_goes_on_at_its_deadline(tmp_path: Path) -> None:
    async with (
        scripted_controller() as controller,
        broker(tmp_path, controller.target, controlled_shutdown_max_wait_ms="100") as b,
    ):
        controller.on_heartbeat = lambda _: Heartbeat()
        async with running(b.lifecycle.run(b.replicas)):
            await within(b.lifecycle.registered)
            async with asyncio.timeout(WAIT_S):
                await b.lifecycle.shut_down()
        assert b.lifecycle.state is BrokerState.SHUTTING_DOWN


async def test_a_shutdown_does_not_wait_long_for_a_controller_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle_module, "GIVE_UP_CONTROLLER_S", 0.1)
    async with AsyncExitStack() as rest:
        async with scripted_controller() as controller:
            subject = broker(tmp_path, controller.target, controlled_shutdown_max_wait_ms="600000")
            b = await rest.enter_async_context(subject)
            await rest.enter_async_context(running(b.lifecycle.run(b.replicas)))
            await within(b.lifecycle.registered)
        async with asyncio.timeout(WAIT_S):
            await b.lifecycle.shut_down()


async def test_a_broker_that_never_registered_shuts_down_at_once(tmp_path: Path) -> None:
    async with broker(tmp_path, "127.0.0.1:1") as b:
        async with asyncio.timeout(WAIT_S):
            await b.lifecycle.shut_down()
