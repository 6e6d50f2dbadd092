"""Random histories of a classic group, held against rules that the test keeps for itself.

Members join, sync, speak, leave and crash, with ids and without, static ones too; calls end with
their connections, timers fire, coordinators change, and the consumer protocol asks for the group.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_broker.core.groups.classic.commands import (
    GroupJoined,
    GroupSynced,
    MemberIdGiven,
)
from strandline_broker.core.groups.commands import (
    CommitOffsets,
    DeleteGroup,
    Expire,
    PartitionCommit,
    TopicRef,
)
from strandline_broker.core.groups.effects import JoinTimer, SessionTimer, SyncTimer
from strandline_broker.core.groups.settings import GroupSettings
from strandline_proto.errors import (
    FencedInstanceId,
    UnknownMemberId,
    WireError,
)
from support.classic_rig import Call, ClassicRig, code_of
from support.examples import examples
from support.groups_rig import compacted, durable, joining

MEMBERS_MAX = 5
PROTOCOLS = (("range",), ("range", "sticky"), ("sticky", "range"), ("sticky", "range", "other"))
NEXT = {
    "Empty": {"Empty", "PreparingRebalance"},
    "PreparingRebalance": {"PreparingRebalance", "CompletingRebalance", "Empty"},
    "CompletingRebalance": {"CompletingRebalance", "PreparingRebalance", "Stable"},
    "Stable": {"Stable", "PreparingRebalance"},
}


@dataclass(eq=False)
class Client:
    """One process: what it has been told, and the call that it waits for."""

    instance_id: str | None
    knows_ids: bool
    skips: bool
    protocols: tuple[str, ...]
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    leads: tuple[str, ...] = ()
    """The members that it assigns to."""
    has_synced: bool = False
    call: Call | None = None


@dataclass
class History:
    random: Random
    rig: ClassicRig = field(
        default_factory=lambda: ClassicRig(GroupSettings(classic_max_size=MEMBERS_MAX))
    )
    clients: list[Client] = field(default_factory=list)
    fenced: list[tuple[str, str]] = field(default_factory=list)
    """Former member ids of instances, each with the instance."""
    epoch: int = 0
    state: str = "Empty"
    generation: int = 0
    leaders: dict[tuple[int, int], str] = field(default_factory=dict)
    """The one that assigned in each generation of each coordinator, by instance or id."""
    parts: dict[tuple[int, int, str], bytes] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)
    """Ids that have sent a JoinGroup since the last generation began."""

    def __post_init__(self) -> None:
        self.rig.topic("t", 3)

    # Steps

    def step(self) -> None:
        steps = [
            (5, self.arrives), (9, self.joins), (9, self.syncs), (3, self.beats), (1, self.leaves),
            (1, self.crashes), (1, self.loses_connection), (6, self.time_passes),
            (1, self.fails_over), (1, self.commits), (1, self.others_ask), (1, self.zombie_speaks),
            (1, self.changes_protocols),
        ]  # fmt: skip
        weights = [weight for weight, _ in steps]
        self.random.choices([step for _, step in steps], weights)[0]()
        self.hear()
        self.check()

    def arrives(self) -> None:
        if len(self.clients) > MEMBERS_MAX + 1:
            return
        instance = self.random.choice([None, None, None, "i", "j"])
        client = Client(
            instance,
            knows_ids=self.random.random() < 0.7,
            skips=self.random.random() < 0.5,
            protocols=self.random.choice(PROTOCOLS),
        )
        self.clients.append(client)
        self.join(client)

    def joins(self) -> None:
        client = self.pick(lambda c: c.call is None)
        if client is not None:
            self.join(client)

    def join(self, client: Client) -> None:
        before = dict(self.group_instances())
        if client.member_id:
            self.joined.add(client.member_id)
        client.call = self.rig.join_group(
            client.member_id,
            *client.protocols,
            instance_id=client.instance_id,
            requires_known_member_id=client.knows_ids,
            skips_assignment=client.skips,
            rebalance_timeout_ms=self.random.choice([5_000, 30_000]),
        )
        after = self.group_instances()
        for instance, former in before.items():
            if instance in after and after[instance] != former:
                self.fenced.append((instance, former))
                self.joined.discard(former)
                self.rename(former, after[instance])
        if not client.member_id:
            self.joined.update(m for m in self.member_ids() if m not in before.values())

    def rename(self, former: str, member_id: str) -> None:
        self.joined.add(member_id)
        for client in self.clients:
            client.leads = tuple(member_id if m == former else m for m in client.leads)

    def syncs(self) -> None:
        client = self.pick(lambda c: c.call is None and c.generation >= 0)
        if client is None:
            return
        parts = {m: f"{client.generation}/{m}".encode() for m in client.leads}
        if parts and self.random.random() < 0.2:
            parts.popitem()
        leads = bool(client.leads) and self.state == "CompletingRebalance"
        current = client.generation == self.generation
        client.call = self.rig.sync_group(
            client.member_id,
            client.generation,
            instance_id=client.instance_id,
            protocol=client.protocol,
            parts=parts,
        )
        if leads and current and client.call.code == 0:
            for member_id in self.member_ids():
                self.parts[self.epoch, client.generation, self.name_of(member_id)] = parts.get(
                    member_id, b""
                )

    def beats(self) -> None:
        client = self.pick(lambda c: c.generation >= 0)
        if client is not None:
            code = self.rig.heartbeat(client.member_id, client.generation, client.instance_id)
            assert code in (0, 22, 25, 27, 82), code
            if code in (25, 82):
                self.forget(client, code)

    def leaves(self) -> None:
        client = self.pick(lambda c: c.member_id != "")
        if client is not None:
            self.rig.leave_group((client.member_id, client.instance_id))
            self.clients.remove(client)

    def crashes(self) -> None:
        client = self.pick()
        if client is not None:
            self.loses(client)
            self.clients.remove(client)

    def loses_connection(self) -> None:
        client = self.pick(lambda c: c.call is not None and c.call.waits)
        if client is not None:
            self.loses(client)

    def loses(self, client: Client) -> None:
        if client.call is not None and client.call.waits:
            self.rig.drop(client.call)
        client.call = None

    def time_passes(self) -> None:
        self.rig.wait(self.random.choice([10, 100, 100, 1_000, 4_000, 9_000, 31_000]))

    def fails_over(self) -> None:
        before = durable(self.rig.groups)
        if self.random.random() < 0.5:
            self.rig.log = compacted(self.rig.log)
        self.rig.fail_over()
        assert durable(self.rig.groups) == before, "I-102"
        self.epoch += 1
        self.joined.clear()
        value = self.rig.groups.table.classic.get("g")
        self.generation = 0 if value is None else value.generation
        self.state = "Stable" if value is not None and value.members else "Empty"
        for client in self.clients:
            client.call = None

    def commits(self) -> None:
        client = self.pick(lambda c: c.generation >= 0)
        if client is None:
            return
        wish = PartitionCommit(TopicRef(name="t"), 0, 1)
        answer = self.rig.run(
            CommitOffsets(
                group_id="g",
                partitions=(wish,),
                member_id=client.member_id,
                member_epoch=client.generation,
                instance_id=client.instance_id,
            )
        ).answer
        assert code_of(answer) in (0, 22, 25, 27, 69, 82), answer

    def others_ask(self) -> None:
        kind = self.random.choice(["consumer", "delete", "expire"])
        has_members = bool(self.member_ids())
        if kind == "consumer":
            answer = self.rig.run(joining("m", "t")).answer
            assert isinstance(answer, WireError) == has_members
            if not has_members:
                assert self.rig.join_group().code == 23
                self.rig.beat("m", -1)
        elif kind == "delete":
            code = code_of(self.rig.run(DeleteGroup("g")).answer)
            assert code == (68 if has_members else code)
        else:
            self.rig.run(Expire("g"))
        if self.rig.groups.table.classic_group("g") is None:
            self.generation, self.state = 0, "Empty"
            self.epoch += 1

    def zombie_speaks(self) -> None:
        """I-124: whatever a former id of an instance asks, it is refused."""
        if not self.fenced:
            return
        instance, former = self.random.choice(self.fenced)
        for generation in range(self.generation + 1):
            code = self.rig.heartbeat(former, generation, instance)
            assert code in (FencedInstanceId.code, UnknownMemberId.code), "I-124"
            if instance in self.group_instances():
                assert code == FencedInstanceId.code, "I-124"

    def changes_protocols(self) -> None:
        client = self.pick(lambda c: c.call is None)
        if client is not None:
            client.protocols = self.random.choice(PROTOCOLS)

    # Answers

    def hear(self) -> None:
        for client in self.clients:
            if client.call is None or client.call.waits:
                continue
            answer, client.call = client.call.answer, None
            if isinstance(answer, GroupJoined):
                self.hear_joined(client, answer)
            elif isinstance(answer, GroupSynced):
                self.hear_synced(client, answer)
            elif isinstance(answer, MemberIdGiven):
                client.member_id = answer.member_id
            elif isinstance(answer, WireError):
                assert answer.code in (22, 23, 25, 27, 81, 82), answer
                self.forget(client, answer.code)

    def hear_joined(self, client: Client, answer: GroupJoined) -> None:
        client.member_id, client.generation = answer.member_id, answer.generation
        client.protocol, client.has_synced = answer.protocol, False
        client.leads = tuple(m.member_id for m in answer.members)
        assert answer.protocol in client.protocols, "I-115"
        if client.leads and not answer.skip_assignment:
            assert answer.leader == answer.member_id
            key = (self.epoch, answer.generation)
            leader = self.leaders.setdefault(key, self.name_of(answer.member_id))
            assert leader == self.name_of(answer.member_id), "I-115: one leader of a generation"

    def hear_synced(self, client: Client, answer: GroupSynced) -> None:
        key = (self.epoch, client.generation, self.name_of(client.member_id))
        if key in self.parts:
            assert answer.assignment == self.parts[key], "I-118"
        self.parts.setdefault(key, answer.assignment)
        client.has_synced = True

    def forget(self, client: Client, code: int) -> None:
        if code in (25, 81):
            client.member_id, client.generation, client.leads = "", -1, ()
        elif code == FencedInstanceId.code:
            self.clients.remove(client)

    # Rules

    def check(self) -> None:
        table = self.rig.groups.table
        group = table.classic_group("g")
        assert durable(self.rig.load()) == durable(self.rig.groups), "I-102"
        if group is None or group.is_void:
            kinds = {type(key) for key in self.rig.timers}
            assert not kinds & {JoinTimer, SyncTimer}
        if group is None:
            return
        state = group.state.value
        reach = NEXT[self.state] | {b for a in NEXT[self.state] for b in NEXT[a]}
        assert state in reach | {"Stable", "Empty"}, ("I-114", self.state, state)
        assert group.generation >= self.generation, "I-116"
        if group.generation > self.generation:
            self.check_barrier(group)
        self.state, self.generation = state, group.generation
        ids = set(group.members)
        assert {i: m.member_id for m in group.members.values() if (i := m.instance_id)} == (
            group.instances
        ), "I-123"
        assert not ids & set(group.pending), "I-120"
        counted = group.joined | set(group.instances.values())
        assert len(counted if state == "PreparingRebalance" else ids) <= MEMBERS_MAX, "I-120"
        sessions = {key.member_id for key in self.rig.timers if isinstance(key, SessionTimer)}
        assert sessions == ids | set(group.pending), "I-121"
        assert (JoinTimer("g") in self.rig.timers) == (state == "PreparingRebalance")
        assert (SyncTimer("g") in self.rig.timers) == bool(group.unsynced)
        parked = {c.number for c in self.rig.calls.values() if c.waits}
        assert parked == set(group.calls), "I-122"
        if not group.members:
            assert state == "Empty"
            return
        assert group.leader in ids, "I-115"
        common = set.intersection(*({p.name for p in m.protocols} for m in group.members.values()))
        assert common, "I-115"
        if state in ("CompletingRebalance", "Stable"):
            assert group.protocol in common, "I-115"
        if state == "Stable":
            assert table.classic["g"] == group.value(), "I-119"

    def check_barrier(self, group: Any) -> None:
        """I-117: those in a new generation have joined it, or are absent and static."""
        if group.generation == self.generation + 1 and group.state.value == "CompletingRebalance":
            for member in group.members.values():
                assert member.member_id in self.joined or member.instance_id, "I-117"
        self.joined = {
            member_id for member_id, member in group.members.items() if member.join_call is not None
        }

    def come_to_rest(self) -> None:
        """Nobody speaks any more: every call is answered, and the group ends empty (I-181)."""
        for _ in range(40):
            self.rig.wait(31_000)
            self.hear()
            self.check()
        assert [call for call in self.rig.calls.values() if call.waits] == []
        assert self.member_ids() == []
        assert self.rig.timers == {}
        self.rig.now_ms += 2 * self.rig.settings.offsets_retention_ms
        self.rig.run(Expire("g"))
        assert compacted(self.rig.log) == [], "I-138"

    # Who there is

    def pick(self, fits: Any = lambda _client: True) -> Client | None:
        fitting = [client for client in self.clients if fits(client)]
        return self.random.choice(fitting) if fitting else None

    def member_ids(self) -> list[str]:
        group = self.rig.groups.table.classic_group("g")
        return [] if group is None else list(group.members)

    def group_instances(self) -> dict[str, str]:
        group = self.rig.groups.table.classic_group("g")
        return {} if group is None else dict(group.instances)

    def name_of(self, member_id: str) -> str:
        """The instance of a static member, which keeps its part under another id."""
        for instance, former in self.fenced:
            if former == member_id:
                return instance
        found = [i for i, m in self.group_instances().items() if m == member_id]
        return found[0] if found else member_id


@settings(max_examples=examples(80))
@given(seed=st.integers(0, 2**32))
def test_the_rules_of_classic_groups_hold_in_random_histories(seed: int) -> None:
    history = History(Random(seed))
    for _ in range(80):
        history.step()
    history.come_to_rest()


def run_fixed_histories() -> str:
    """One text for what a few histories wrote."""
    written = []
    for seed in range(20):
        history = History(Random(seed))
        for _ in range(100):
            history.step()
        written.append(repr(history.rig.log))
    return "\n".join(written)


def test_a_fixed_history_reaches_every_state_and_writes_often() -> None:
    seen, records = set(), 0
    for seed in range(30):
        history = History(Random(seed))
        for _ in range(80):
            history.step()
            seen.add(history.state)
        records += len(history.rig.log)
    assert seen == set(NEXT)
    assert records > 100


def test_the_same_history_writes_the_same_in_every_process() -> None:
    """Under two orders of sets (I-113)."""
    here = Path(__file__)
    program = (
        f"import sys; sys.path[:0] = {[str(here.parent), str(here.parents[4])]!r}\n"
        f"import {here.stem} as t, hashlib\n"
        "print(hashlib.sha256(t.run_fixed_histories().encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
