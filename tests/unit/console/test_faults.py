"""The fault lab: what it refuses, how a fault heals, what it cost, and who may ask for it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_cli.errors import CliError
from strandline_console.answers import FaultRequest
from strandline_console.faults.lab import Lab, NotInjected
from strandline_console.faults.tally import Tally
from strandline_console.recording.entities import new_entity
from strandline_console.recording.recorder import Recorder
from strandline_console.serving.app import build_app
from strandline_console.serving.fault_routes import FaultRoutes
from strandline_console.serving.security import Actions
from support.asgi import AsgiClient
from support.hand_clock import HandClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from strandline_console.messages import FaultKind


def test_a_record_is_acknowledged_and_read() -> None:
    tally = Tally({0: 5})
    tally.on_acknowledged(0, 5, 100)
    tally.on_read(0, 5, 100)
    tally.on_passed(0, 6)
    assert (tally.acknowledged, tally.read, tally.lost, tally.doubled) == (1, 1, 0, 0)


def test_a_record_that_the_reader_passes_is_lost() -> None:
    tally = Tally({0: 0})
    tally.on_acknowledged(0, 1, 100)
    tally.on_passed(0, 1)
    assert tally.lost == 0
    tally.on_passed(0, 2)
    assert tally.lost == 1
    tally.on_acknowledged(0, 1, 101)  # the reader has passed it already
    assert tally.lost == 2


def test_a_record_at_two_offsets_is_doubled_and_one_that_is_read_again_is_not() -> None:
    tally = Tally({0: 0})
    for offset in (3, 3, 7):
        tally.on_read(0, offset, 100)
    assert (tally.read, tally.doubled) == (1, 1)


@given(st.permutations(range(8)), st.integers(0, 8))
def test_a_sound_log_has_neither_in_whatever_order_acknowledgements_come(
    order: list[int], read_before: int
) -> None:
    tally = Tally({0: 0})
    for number, offset in enumerate(order):
        if number == read_before:
            for found in range(8):
                tally.on_read(0, found, 100 + found)
            tally.on_passed(0, 8)
        tally.on_acknowledged(0, offset, 100 + offset)
    for found in range(8):
        tally.on_read(0, found, 100 + found)
    tally.on_passed(0, 8)
    assert (tally.read, tally.lost, tally.doubled) == (8, 0, 0)


class Machine:
    def __init__(self) -> None:
        self.did: list[str] = []
        self.dead: set[str] = set()
        self.fails: str | None = None

    @property
    def targets(self) -> list[str]:
        return ["controller", "broker-1"]

    def is_alive(self, target: str) -> bool:
        return target not in self.dead

    def how_it_ended(self, target: str) -> str:
        return f"{target} ended with exit status 1"

    def cannot_do(self, target: str) -> Mapping[FaultKind, str]:
        return {"slow_disk": "no such disk here"}

    def find_controller(self) -> str | None:
        return None

    def strike(self, kind: FaultKind, target: str) -> None:
        if self.fails == "strike":
            raise CliError("no right to do it")
        self.did.append(f"{kind} {target}")

    def heal(self, kind: FaultKind, target: str) -> None:
        if self.fails == "heal":
            raise CliError("it does not start")
        self.did.append(f"heal {kind} {target}")


class Rig:
    def __init__(
        self, tasks: asyncio.TaskGroup, *, ours: bool = True, aftermath_s: float = 0
    ) -> None:
        self.clock = HandClock()
        self.recorder = Recorder("run", lambda: int(self.clock.now_s * 1000))
        self.machine = Machine()
        self.lab = Lab(
            self.recorder,
            None,
            self.machine if ours else None,
            reason=None if ours else "the cluster is not ours",
            clock=self.clock,
            tasks=tasks,
            aftermath_s=aftermath_s,
        )

    @property
    def faults(self) -> dict[str, Any]:
        return self.recorder.live.maps["faults"]

    async def inject(self, kind: Any = "kill", target: str = "broker-1", seconds: float = 5) -> Any:
        return await self.lab.inject(FaultRequest(kind=kind, target=target, duration_s=seconds))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0)

    def client(self, *, read_only_reason: str | None = None) -> AsgiClient:
        actions = Actions("secret", read_only_reason=read_only_reason)
        routes = FaultRoutes(self.lab, self.recorder.live, actions).routes()
        return AsgiClient(build_app(routes, loopback=True))


@asynccontextmanager
async def rig(*, ours: bool = True, aftermath_s: float = 0) -> AsyncIterator[Rig]:
    async with asyncio.TaskGroup() as tasks:
        made = Rig(tasks, ours=ours, aftermath_s=aftermath_s)
        yield made
        made.clock.now_s += 1_000


async def test_a_fault_heals_by_itself() -> None:
    async with rig() as made:
        fault = await made.inject(seconds=5)
        assert (fault["state"], fault["heals_ms"] - fault["begun_ms"]) == ("active", 5_000)
        made.clock.now_s += 4.9
        await asyncio.sleep(0)
        assert made.machine.did == ["kill broker-1"]
        made.clock.now_s += 0.2
        await made.until(lambda: made.faults["1"]["state"] == "healed")
        assert made.machine.did == ["kill broker-1", "heal kill broker-1"]
        made.recorder.tick()
        told = [e.sentence for e in made.recorder.all_events() if e.kind == "fault"]
        assert told == [
            "broker-1 was killed (SIGKILL) for 5 s",
            "broker-1 was started again",
        ]


async def test_a_fault_heals_when_asked_and_when_the_console_ends() -> None:
    async with rig() as made:
        await made.inject("pause", seconds=600)
        await made.inject("pause", "controller", seconds=600)
        made.lab.heal("1")
        await made.until(lambda: made.faults["1"]["state"] == "healed")
        await made.lab.close()
        assert made.faults["2"]["state"] == "healed"
        assert made.machine.did[2:] == ["heal pause broker-1", "heal pause controller"]
        with pytest.raises(NotInjected, match="no fault '1' is active"):
            made.lab.heal("1")


async def test_the_cost_counts_what_happened_since_and_keeps_the_unknown() -> None:
    async with rig() as made:
        live = made.recorder.live
        live.event("election", "before")
        await made.inject()
        live.event("election", "x")
        live.event("isr", "y")
        live.event("truncation", "z", details={"from": 9, "to": 4})
        made.recorder.tick()
        live.event("election", "not yet in a frame")
        made.lab.heal("1")
        await made.until(lambda: made.faults["1"]["state"] == "healed")
        cost = made.faults["1"]["cost"]
        assert (cost["elections"], cost["offline_ms"]) == (None, None)  # no controller was watched
        assert (cost["truncated_records"], cost["lost"]) == (5, None)
        fields = {"id": "controller", "kind": "controller", "state": "watching"}
        live.set("servers", "controller", new_entity("servers", fields))
        await made.inject()
        live.event("election", "x")
        made.lab.heal("2")
        await made.until(lambda: made.faults["2"]["state"] == "healed")
        assert made.faults["2"]["cost"]["elections"] == 1


@pytest.mark.parametrize(
    ("kind", "target", "seconds", "status", "word"),
    [
        ("kill", "broker-7", 5, 404, "choose one of controller, broker-1"),
        ("kill", "../x", 5, 404, "choose one"),
        ("kill", "broker-1", 0, 400, "from 1 to 600"),
        ("kill", "broker-1", 601, 400, "from 1 to 600"),
        ("kill", "broker-1", float("inf"), 400, "from 1 to 600"),
        ("slow_disk", "broker-1", 5, 409, "no such disk here"),
    ],
)
async def test_a_wrong_fault_is_refused(
    kind: str, target: str, seconds: float, status: int, word: str
) -> None:
    async with rig() as made:
        with pytest.raises(NotInjected, match=word) as refused:
            await made.inject(kind, target, seconds)
        assert refused.value.status == status
        assert made.machine.did == []


async def test_a_process_has_one_fault_at_a_time_and_a_dead_one_none() -> None:
    async with rig() as made:
        await made.inject()
        with pytest.raises(NotInjected, match="has fault 1"):
            await made.inject("pause")
        made.machine.dead.add("controller")
        with pytest.raises(NotInjected, match="controller is not running"):
            await made.inject("pause", "controller")


async def test_a_fault_that_fails_is_told() -> None:
    async with rig() as made:
        made.machine.fails = "strike"
        with pytest.raises(NotInjected, match="no right"):
            await made.inject()
        assert made.faults["1"]["state"] == "failed"
        assert made.machine.did == ["heal kill broker-1"], "what was half done is taken back"
        made.machine.fails = "heal"
        await made.inject()
        made.lab.heal("2")
        await made.until(lambda: made.faults["2"]["state"] == "failed")
        assert made.faults["2"]["sentence"] == "broker-1 was not healed: it does not start"


async def test_a_process_that_ends_again_after_its_start_is_not_healed() -> None:
    async with rig(aftermath_s=60) as made:
        fields = {"id": "broker-1", "kind": "broker", "state": "absent"}
        made.recorder.live.set("servers", "broker-1", new_entity("servers", fields))
        await made.inject()
        made.lab.heal("1")
        await made.until(lambda: made.faults["1"]["state"] == "healed")
        made.machine.dead.add("broker-1")
        await made.until(lambda: made.faults["1"]["state"] == "failed")
        assert made.faults["1"]["sentence"] == (
            "broker-1 was started, and ended again: broker-1 ended with exit status 1"
        )


async def test_a_cluster_that_is_not_ours_is_refused_with_the_reason() -> None:
    async with rig(ours=False) as made:
        with pytest.raises(NotInjected, match="the cluster is not ours"):
            await made.inject()
        lab = await made.lab.describe()
        assert (lab.available, lab.reason, lab.targets) == (False, "the cluster is not ours", [])


GOOD = {"kind": "kill", "target": "broker-1", "duration_s": 5}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Basic secret"}, 401),
        ({"authorization": "Bearer s\u00e9cret"}, 401),
        ({"authorization": "Bearer secret", "content_type": "text/plain"}, 415),
        ({"authorization": "Bearer secret", "origin": "http://evil.example"}, 403),
        ({"authorization": "Bearer secret", "origin": "null"}, 403),
        ({"authorization": "Bearer secret", "origin": "http://127.0.0.1:8080"}, 201),
        ({"authorization": "Bearer secret"}, 201),
    ],
)
async def test_an_action_needs_the_token(headers: dict[str, str], status: int) -> None:
    async with rig() as made:
        answer = await made.client().post("/api/faults", GOOD, **headers)
        assert answer.status == status
        assert made.machine.did == (["kill broker-1"] if status == 201 else [])
        assert "secret" not in answer.body.decode()


async def test_a_read_only_console_acts_for_none() -> None:
    async with rig() as made:
        client = made.client(read_only_reason="it is read-only")
        for target in ("/api/faults", "/api/faults/1/heal", "/api/workload"):
            answer = await client.post(target, GOOD, authorization="Bearer secret")
            assert (answer.status, answer.json["error"]) == (403, "it is read-only")
        described = (await client.get("/api/faults")).json
        assert (described["available"], described["reason"]) == (False, "it is read-only")


@pytest.mark.parametrize(
    "body", [[], {}, {**GOOD, "kind": "nuke"}, {**GOOD, "duration_s": "5"}, "x" * 20_000]
)
async def test_a_body_of_another_form_is_refused(body: Any) -> None:
    async with rig() as made:
        answer = await made.client().post("/api/faults", body, authorization="Bearer secret")
        assert answer.status in (400, 413)
        assert made.machine.did == []


async def test_a_workload_needs_a_lab() -> None:
    async with rig(ours=False) as made:
        wanted = {"running": True}
        answer = await made.client().post("/api/workload", wanted, authorization="Bearer secret")
        assert (answer.status, answer.json["error"]) == (403, "the cluster is not ours")


@pytest.mark.parametrize("token", [None, "Bearer secret", "Bearer wrong"])
async def test_a_cluster_that_is_not_ours_is_named_before_the_token(token: str | None) -> None:
    """A console without a lab prints no token: it must not ask for one."""
    async with rig(ours=False) as made:
        headers = {} if token is None else {"authorization": token}
        for target in ("/api/faults", "/api/faults/1/heal", "/api/workload"):
            answer = await made.client().post(target, GOOD, **headers)
            assert (answer.status, answer.json["error"]) == (403, "the cluster is not ours")
