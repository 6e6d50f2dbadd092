"""The fault lab: injects faults on request, heals each after its duration, and says what it cost.

A fault heals by itself, also when the console ends first: `close` heals what is still active.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline_console.answers import FaultChoice, FaultLab, FaultTarget
from strandline_console.faults.machines import KINDS
from strandline_console.faults.workload import TOPIC
from strandline_console.messages import Cost
from strandline_console.recording.figures import is_watched
from strandline_local.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_console.answers import FaultRequest
    from strandline_console.faults.machines import Machine
    from strandline_console.faults.workload import CheckingWorkload
    from strandline_console.recording.entities import Entity
    from strandline_console.recording.recorder import Recorder
    from strandline_runtime.runtime import Clock

DURATION_S_MAX: Final = 600
FAULTS_KEPT: Final = 200
LOOK_S: Final = 0.1
AFTERMATH_S: Final = 30.0
"""Time after a fault in which its cost still grows, while the cluster is not whole again."""
WORDS: Final = {
    "kill": ("was killed (SIGKILL)", "was started again"),
    "stop": ("was stopped (SIGTERM)", "was started again"),
    "pause": ("was paused (SIGSTOP)", "goes on (SIGCONT)"),
    "cut_off": ("was cut off from the network", "is connected again"),
    "slow_disk": ("has a slow disk", "has its disk's speed back"),
    "full_disk": ("has a full disk", "has room on its disk again"),
}


class NotInjected(Exception):
    """A fault is refused. `status` is HTTP's; the text is one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(slots=True)
class _Active:
    id: str
    kind: Any
    target: str
    begun_ms: int
    first_event: int
    lost: int
    doubled: int
    heal_now: asyncio.Event
    offline_ms: int = 0
    slowest_ms: int | None = None


class Lab:
    """Faults of one cluster. Without a machine every fault is refused with `reason`."""

    def __init__(
        self,
        recorder: Recorder,
        workload: CheckingWorkload | None,
        machine: Machine | None,
        *,
        reason: str | None,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        aftermath_s: float = AFTERMATH_S,
    ) -> None:
        self._recorder = recorder
        self._live = recorder.live
        self._workload = workload
        self._machine = machine
        self._reason = reason
        self._clock = clock
        self._tasks = tasks
        self._aftermath_s = aftermath_s
        self._active: dict[str, _Active] = {}
        self._number = 0
        self._turn = asyncio.Lock()
        self._cannot: dict[str, dict[str, str]] = {}
        """The faults that each target cannot have, with the reason."""

    @property
    def workload(self) -> CheckingWorkload | None:
        """The checking workload; None if the lab is not available."""
        return self._workload

    @property
    def reason(self) -> str | None:
        """The reason why the lab is not available; None if it is."""
        return self._reason

    async def describe(self) -> FaultLab:
        """The abilities of the lab as they are now."""
        targets: list[FaultTarget] = []
        if self._machine is not None:
            for target in self._machine.targets:
                alive = await _on_thread(partial(self._machine.is_alive, target))
                choices = [
                    FaultChoice(kind=kind, available=why is None, reason=why)
                    for kind in KINDS
                    for why in [await self._why_not(kind, target, alive=alive)]
                ]
                targets.append(FaultTarget(id=target, alive=alive, choices=choices))
        return FaultLab(
            available=self._reason is None,
            reason=self._reason,
            targets=targets,
            duration_s_max=DURATION_S_MAX,
            workload_topic=TOPIC,
        )

    async def _why_not(self, kind: str, target: str, *, alive: bool) -> str | None:
        assert self._machine is not None
        cannot = self._cannot.get(target)
        if cannot is None:
            found: Any = await _on_thread(partial(self._machine.cannot_do, target))
            cannot = self._cannot[target] = dict(found)
        if kind in cannot:
            return cannot[kind]
        active = next((a for a in self._active.values() if a.target == target), None)
        if active is not None:
            return f"{target} has fault {active.id} ({active.kind}) until that heals"
        return None if alive else f"{target} is not running"

    async def inject(self, request: FaultRequest) -> Entity:
        """Begin a fault. Raises NotInjected."""
        if self._machine is None:
            raise NotInjected(403, self._reason or "there is no fault lab")
        if request.target not in self._machine.targets:
            known = ", ".join(self._machine.targets)
            raise NotInjected(404, f"there is no {request.target[:60]!r}: choose one of {known}")
        if not 1 <= request.duration_s <= DURATION_S_MAX:
            raise NotInjected(
                400, f"duration_s is {request.duration_s}: give a number from 1 to {DURATION_S_MAX}"
            )
        async with self._turn:
            alive = await _on_thread(partial(self._machine.is_alive, request.target))
            why = await self._why_not(request.kind, request.target, alive=alive)
            if why is not None:
                raise NotInjected(409, f"{request.kind} is not possible: {why}")
            return await self._strike(self._machine, request)

    async def _strike(self, machine: Machine, request: FaultRequest) -> Entity:
        self._number += 1
        tally = None if self._workload is None else self._workload.tally
        active = _Active(
            id=str(self._number),
            kind=request.kind,
            target=request.target,
            begun_ms=self._now_ms(),
            first_event=self._live.events,
            lost=0 if tally is None else tally.lost,
            doubled=0 if tally is None else tally.doubled,
            heal_now=asyncio.Event(),
        )
        heals_ms = active.begun_ms + int(request.duration_s * 1000)
        fields: Entity = {
            "id": active.id,
            "kind": active.kind,
            "target": active.target,
            "state": "active",
            "begun_ms": active.begun_ms,
            "heals_ms": heals_ms,
            "sentence": f"{active.target} {WORDS[active.kind][0]} for {request.duration_s:g} s",
        }
        self._active[active.id] = active
        self._live.set("faults", active.id, fields)
        self._forget_old()
        self._event(active, fields["sentence"])
        try:
            await _on_thread(partial(machine.strike, active.kind, active.target))
        except (ClusterError, OSError) as why:
            with contextlib.suppress(ClusterError, OSError):  # what is half done is taken back
                await _on_thread(partial(machine.heal, active.kind, active.target))
            del self._active[active.id]
            self._fail(active, f"{active.target}: the fault was not injected: {why}")
            raise NotInjected(502, str(why)) from None
        self._tasks.create_task(self._attend(machine, active, heals_ms), name=f"fault {active.id}")
        return dict(self._live.maps["faults"][active.id])

    def heal(self, fault_id: str) -> Entity:
        """Heal a fault before its time. Raises NotInjected."""
        active = self._active.get(fault_id)
        if active is None:
            raise NotInjected(404, f"no fault {fault_id[:20]!r} is active")
        active.heal_now.set()
        return dict(self._live.maps["faults"][fault_id])

    async def _attend(self, machine: Machine, active: _Active, heals_ms: int) -> None:
        """Wait for the end of a fault, heal it, and count its cost until the cluster is whole."""
        await self._look_until(active, heals_ms)
        await self._mend(machine, active)
        until_ms = self._now_ms() + int(self._aftermath_s * 1000)
        while self._now_ms() < until_ms and not self._is_whole(active):
            await self._look(active)
            if await self._has_ended_again(machine, active):
                return
            self._live.set("faults", active.id, {"cost": asdict(self._cost(active))})

    async def _look_until(self, active: _Active, heals_ms: int) -> None:
        while not active.heal_now.is_set() and self._now_ms() < heals_ms:
            await self._look(active)

    async def _look(self, active: _Active) -> None:
        """Count what passes in a tenth of a second."""
        begun = self._clock.monotonic()
        await asyncio.sleep(LOOK_S)
        passed_ms = int((self._clock.monotonic() - begun) * 1000)
        if any(each["leader"] == -1 for each in self._live.maps["partitions"].values()):
            active.offline_ms += passed_ms
        if self._workload is not None:
            slowest = self._workload.slowest_ms((self._now_ms() - active.begun_ms) / 1000)
            if slowest is not None:
                active.slowest_ms = max(slowest, active.slowest_ms or 0)

    async def _has_ended_again(self, machine: Machine, active: _Active) -> bool:
        """True if the process did not stay: then the fault is not healed."""
        if any(each.target == active.target for each in self._active.values()):
            return False  # another fault may have killed it
        if await _on_thread(partial(machine.is_alive, active.target)):
            return False
        how = await _on_thread(partial(machine.how_it_ended, active.target))
        self._fail(active, f"{active.target} was started, and ended again: {how}")
        return True

    def _is_whole(self, active: _Active) -> bool:
        """True if the target is watched again and every ISR is complete."""
        servers = self._live.maps["servers"]
        if active.target in servers and servers[active.target]["state"] != "watching":
            return False
        return all(
            len(each["isr"]) == len(each["replicas"])
            for each in self._live.maps["partitions"].values()
        )

    async def _mend(self, machine: Machine, active: _Active) -> None:
        self._live.set("faults", active.id, {"state": "healing"})
        try:
            await _on_thread(partial(machine.heal, active.kind, active.target))
        except (ClusterError, OSError) as why:
            self._active.pop(active.id, None)
            self._fail(active, f"{active.target} was not healed: {why}")
            return
        self._active.pop(active.id, None)
        self._live.set(
            "faults",
            active.id,
            {
                "state": "healed",
                "healed_ms": self._now_ms(),
                "cost": asdict(self._cost(active)),
            },
        )
        self._event(active, f"{active.target} {WORDS[active.kind][1]}")

    def _cost(self, active: _Active) -> Cost:
        events = [e for e in self._recorder.all_events() if e.id > active.first_event]
        truncated = [e for e in events if e.kind == "truncation"]
        tally = None if self._workload is None else self._workload.tally
        ran = tally is not None and tally.sent > 0
        servers = self._live.maps["servers"]
        by_controller = is_watched(self._live.maps, "controller")
        by_brokers = all(each["state"] != "without_watch" for each in servers.values())
        return Cost(
            elections=sum(e.kind == "election" for e in events) if by_controller else None,
            isr_changes=sum(e.kind == "isr" for e in events) if by_controller else None,
            offline_ms=active.offline_ms if by_controller else None,
            truncated_records=(
                sum(_difference(e.details) for e in truncated) if by_brokers else None
            ),
            slowest_acknowledgement_ms=active.slowest_ms if ran else None,
            lost=max(0, tally.lost - active.lost) if tally is not None and ran else None,
            doubled=max(0, tally.doubled - active.doubled) if tally is not None and ran else None,
        )

    def _fail(self, active: _Active, sentence: str) -> None:
        self._live.set("faults", active.id, {"state": "failed", "sentence": sentence})
        self._event(active, sentence)

    def _event(self, active: _Active, sentence: str) -> None:
        node = active.target.removeprefix("broker-")
        broker = int(node) if node.isdecimal() else None
        self._live.event(
            "fault",
            sentence,
            fault=active.id,
            broker=broker,
            details={"kind": active.kind, "target": active.target},
        )

    def _forget_old(self) -> None:
        faults = self._live.maps["faults"]
        ended = [key for key in faults if key not in self._active]
        for key in ended[: max(0, len(faults) - FAULTS_KEPT)]:
            self._live.remove("faults", key)

    async def close(self) -> None:
        """Heal what is active: no process stays paused behind the console."""
        if self._machine is None:
            return
        for active in list(self._active.values()):
            await self._mend(self._machine, active)

    def _now_ms(self) -> int:
        return int(self._clock.time() * 1000)


def _difference(details: dict[str, Any]) -> int:
    return max(0, int(details.get("from", 0)) - int(details.get("to", 0)))


async def _on_thread(work: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, work)
