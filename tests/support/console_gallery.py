"""A console whose every page has something to show: for tests of their width, and for pictures."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Final

from strandline_console.answers import (
    BatchHeader,
    FaultChoice,
    FaultLab,
    FaultTarget,
    Meta,
    Payload,
    RecordHeader,
    RecordRow,
    Records,
)
from strandline_console.faults.machines import KINDS
from strandline_console.messages import (
    MESSAGES_VERSION,
    Cost,
    Fault,
    Group,
    Waiter,
    Workload,
)
from strandline_console.pipelines import Batch, Pipeline, Planned, TableState
from support import console_scenes as scenes
from support.scripted_console import ScriptedConsole

T0: Final = 1_780_000_000_000
PAGES: Final = {
    "board": "board",
    "partition": "partition/orders:2",
    "groups": "groups/wide",
    "records": "records/orders:2?offset=0",
    "timeline": "timeline",
    "faults": "faults",
    "tables": "tables",
}
"""Each page, and a route that shows it."""
LONG: Final = "a-topic-with-a-rather-long-name.of-orders-by-country-and-currency.v2"


@contextmanager
def gallery() -> Iterator[ScriptedConsole]:
    """A cluster of which broker 3 was killed and has returned, with a group and a pipeline."""
    state = scenes.cluster(T0, {"orders": 24, "payments": 12, LONG: 3})
    state.pipelines["/lake/pipeline.toml"] = pipeline(1)
    state.groups["billing"] = scenes.group("billing", state, "orders")
    state.groups[LONG] = scenes.group(LONG, state, LONG)
    state.groups["wide"] = wide(scenes.group("wide", state, "orders"))
    state.workload = Workload(
        state="running",
        topic="console-workload",
        sent=48_210,
        acknowledged=48_190,
        read=48_101,
        slowest_acknowledgement_ms=1_840,
    )
    script = ScriptedConsole(state, T0)
    script.answers |= {
        "/api/meta": asdict(meta()),
        "/api/faults": asdict(lab()),
        "/api/records": asdict(records()),
    }
    with script:
        script.change(T0 + 4_000, scenes.event("topic", f"Topic {LONG} was created.", topic=LONG))
        break_one(script)
        yield script


def break_one(script: ScriptedConsole) -> None:
    state = script.state
    state.faults["1"] = Fault(
        id="1",
        kind="kill",
        target="broker-3",
        state="active",
        begun_ms=T0 + 5_000,
        heals_ms=T0 + 20_000,
        sentence="broker-3 was killed (SIGKILL) for 15 s",
    )
    scenes.kill(state, 3, T0 + 5_000)
    begun = scenes.event("fault", "broker-3 was killed (SIGKILL) for 15 s", broker=3, fault="1")
    script.change(T0 + 5_000, begun)
    lost = scenes.event("server", "The console lost broker 3.", broker=3)
    script.change(T0 + 5_100, lost)
    script.change(T0 + 14_000, *scenes.fence(state, 3, T0 + 14_000)[:4])
    replica = state.replicas["orders:2@1"]
    replica.waiters = [
        Waiter(kind="produce", offset=1_270, count=2),
        Waiter(kind="group", offset=1_272, count=1),
        Waiter(kind="fetch", offset=1_274, count=3),
    ]
    replica.waiters_count = 6
    gone = state.replicas["orders:2@2"]
    gone.ghosts = [
        scenes.ghost(T0 + 14_500, start=1_262, end=1_270, epoch=3, acknowledged=False),
        scenes.ghost(T0 + 15_000, start=1_255, end=1_262, epoch=3, acknowledged=True),
    ]
    moved = scenes.event("rebalance", "Group billing rebalances: a member left.", group="billing")
    script.change(T0 + 16_000, moved)
    state.pipelines["/lake/pipeline.toml"] = pipeline(2)
    state.faults["1"].state = "healed"
    state.faults["1"].healed_ms = T0 + 20_000
    state.faults["1"].cost = Cost(
        elections=8,
        isr_changes=24,
        offline_ms=9_100,
        truncated_records=15,
        slowest_acknowledgement_ms=1_840,
        lost=0,
        doubled=0,
    )
    healed = scenes.event("fault", "broker-3 was started again", broker=3, fault="1")
    script.change(T0 + 20_000, healed)
    script.change(T0 + 60_000)


def wide(group: Group) -> Group:
    """The group with three hundred more partitions, of a topic with a long name."""
    assert group.members is not None
    more = [f"{LONG}:{number}" for number in range(300)]
    for member in group.members:
        member.target = [*member.target, *more]
        more, member.assigned = [], [*member.assigned, *more]
    return group


def meta() -> Meta:
    return Meta(
        messages_version=MESSAGES_VERSION,
        build="gallery",
        run="script",
        bootstrap="127.0.0.1:9091",
        read_only=False,
        read_only_reason=None,
        has_tables=True,
        kept_ms=900_000,
    )


def lab() -> FaultLab:
    targets = []
    for target in ("controller", "broker-1", "broker-2", "broker-3"):
        choices = [
            FaultChoice(kind=kind, available=kind != "full_disk", reason=reason)
            for kind in KINDS
            for reason in [None if kind != "full_disk" else "the disk is the machine's own"]
        ]
        targets.append(FaultTarget(id=target, alive=True, choices=choices))
    return FaultLab(
        available=True,
        reason=None,
        targets=targets,
        duration_s_max=600,
        workload_topic="console-workload",
    )


def payload(text: str, *, json: bool = False) -> Payload:
    return Payload(size=len(text), text=text, json=json, hex=text.encode().hex(), truncated=False)


def records() -> Records:
    header = BatchHeader(
        base_offset=0,
        last_offset=39,
        leader_epoch=3,
        producer_id=4711,
        producer_epoch=0,
        base_sequence=0,
        codec="zstd",
        timestamp_type="create",
        control=False,
        transactional=False,
        size=5_120,
        records=40,
    )
    rows = [
        RecordRow(
            offset=number,
            timestamp_ms=T0 + 100 * number,
            batch=0,
            key=payload(f"order-{number}"),
            value=payload(f'{{"order": {number}, "amount": {number * 7}.50}}', json=True),
            headers=[RecordHeader(name="trace", value=payload("4bf92f3577b34da6a3ce929d0e0e4736"))],
        )
        for number in range(40)
    ]
    return Records(
        topic="orders",
        partition=2,
        log_start=0,
        high_watermark=1_274,
        first_offset=0,
        next_offset=40,
        batches=[header],
        records=rows,
    )


def pipeline(batch: int) -> Pipeline:
    """A pipeline after its batch of this number."""
    planned = [Planned(topic="orders", partition=n, planned=400 * batch + n) for n in range(24)]
    planned.append(Planned(topic=LONG, partition=0, planned=None))
    layers = ("bronze", "silver", "state", "gold", "quarantine")
    tables = [
        TableState(
            name=f"{layer} per minute" if layer == "gold" else layer,
            layer=layer,  # type: ignore[arg-type]
            path=f"/lake/{layer}",
            version=batch,
            rows=9_000 * batch + place,
            files=batch,
            batch=batch,
            written_ms=T0 + 1_000 * batch,
            quarantined=3 if layer == "quarantine" else None,
        )
        for place, layer in enumerate(layers)
    ]
    batches = [
        Batch(
            table=table,
            number=number,
            state="planned" if number == batch and table == "bronze" else "committed",
            at_ms=T0 + 1_000 * number,
            sources=planned[:6],
        )
        for table in ("bronze", "silver")
        for number in range(batch, -1, -1)
    ]
    return Pipeline(name="shop", folder="/lake", topics=planned, tables=tables, batches=batches)
