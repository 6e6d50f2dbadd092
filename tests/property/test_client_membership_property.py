"""Members against a scripted coordinator, over streams that break at any moment: nobody owns what
another owns, and once nothing goes wrong any more every partition has its owner.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from strandline._core.membership import Beat, Membership, State, Subscription
from strandline._core.reconciling import Kind, Step
from support.examples import examples
from support.scripted_group import Key, ScriptedGroup, View

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = b"t" * 16
NAMES = ("a", "b", "c")
WHICH = st.integers(0, len(NAMES) - 1)
PARTITIONS = 4


class Member:
    """A consumer, its stream, and the coordinator's end of it."""

    def __init__(self, group: ScriptedGroup, name: str) -> None:
        self.group, self.name = group, name
        self.core = Membership(static=False)
        self.now_ms = 0.0
        self.step: Step | None = None
        self.told: list[tuple[str, frozenset[Key]]] = []
        self.is_open = False
        self.up: deque[Beat] = deque()
        self.down: deque[tuple[int, int, View | int]] = deque()
        self.pushed, self.last_view = 0, View(-9, frozenset())

    def open(self) -> None:
        if self.is_open or not self.core.wants_stream:
            return
        self.core.on_stream_opened(self.now_ms)
        self.is_open, self.pushed, self.last_view = True, 0, View(-9, frozenset())
        self.up.clear()

    def cut(self) -> None:
        """What is on its way to the coordinator is gone; what came down may yet be read."""
        self.is_open = False
        self.up.clear()

    def send(self) -> None:
        if self.is_open and (beat := self.core.next_beat(self.now_ms)) is not None:
            self.up.append(beat)

    def arrive(self) -> None:
        """The coordinator takes in the oldest heartbeat."""
        if not self.up:
            return
        beat, generation = self.up.popleft(), self.core.generation
        group, name = self.group, self.name
        if beat.epoch == -1:
            group.remove(name)
            self.down.append((generation, 0, View(-1, frozenset())))
            self.cut()
        elif beat.epoch == 0:
            group.join(name, frozenset({"t"}), None)
            self.push()
        else:
            epoch, owned = beat.epoch, None if beat.owned is None else set(beat.owned)
            if beat.seen_push < self.pushed and name in group.members:
                epoch, owned = group.members[name].epoch, None
            code = group.beat(name, epoch, owned)
            if code:
                self.down.append((generation, 0, code))
                self.cut()
            else:
                self.push(full=beat.full)
        group.reconcile_all()

    def push(self, *, full: bool = True) -> None:
        """The slot: what the member is told is how things stand now."""
        member = self.group.members.get(self.name)
        if not self.is_open or member is None or (self.up and self.pushed == 0):
            return
        if full or member.view != self.last_view:
            self.pushed += 1
            self.last_view = member.view
            self.down.append((self.core.generation, self.pushed, member.view))

    def hear(self) -> None:
        if not self.down:
            return
        generation, push, said = self.down.popleft()
        if isinstance(said, int):
            self.core.on_error(generation, said, retriable=False)
        else:
            self.core.on_answer(
                generation, push, epoch=said.epoch, interval_ms=5, assignment=said.assigned
            )

    def work(self) -> None:
        """Begin a step of the reconciliation, or end the one that was begun."""
        core = self.core.reconciling
        if self.step is None:
            self.step = core.next_step()
            return
        step, self.step = self.step, None
        if step.kind is Kind.ASSIGN:
            added = core.still_granted(step)
            self.told.append(("assigned", added))
            core.on_assigned(added)
        else:
            self.told.append(("gone", step.partitions))
            core.on_told(step.partitions)
        self.core.on_given_up()


class Members(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.group = ScriptedGroup({"t": (TOPIC, PARTITIONS)})
        self.members = [Member(self.group, name) for name in NAMES]

    @rule(which=WHICH)
    def subscribe(self, which: int) -> None:
        member = self.members[which]
        if member.core.subscribe(Subscription(("t",))):
            member.cut()
        self.exchange(which, 1)

    @rule(which=WHICH)
    def leave(self, which: int) -> None:
        self.members[which].core.leave()

    @rule(which=WHICH)
    def overdue(self, which: int) -> None:
        self.members[which].core.on_poll_overdue()

    @rule(which=WHICH)
    def poll(self, which: int) -> None:
        if self.members[which].core.on_poll():
            self.members[which].cut()

    @rule(which=WHICH)
    def open(self, which: int) -> None:
        self.members[which].open()

    @rule(which=WHICH)
    def cut(self, which: int) -> None:
        self.members[which].cut()

    @rule(which=WHICH)
    def send(self, which: int) -> None:
        self.members[which].send()

    @rule(which=WHICH)
    def arrive(self, which: int) -> None:
        self.members[which].arrive()

    @rule(which=WHICH, times=st.integers(1, 3))
    def exchange(self, which: int, times: int) -> None:
        """All goes well for a while, but that the application takes its time."""
        member = self.members[which]
        for _ in range(times):
            member.open()
            member.send()
            while member.up:
                member.arrive()
            self.tell_all()
            while member.down:
                member.hear()

    @rule(which=WHICH)
    def reconnect(self, which: int) -> None:
        member = self.members[which]
        member.cut()
        member.open()
        member.send()
        member.arrive()

    @rule()
    def tell_all(self) -> None:
        for member in self.members:
            member.push(full=False)

    @rule(which=WHICH)
    def push(self, which: int) -> None:
        self.members[which].push(full=False)

    @rule(which=WHICH)
    def hear(self, which: int) -> None:
        self.members[which].hear()

    @rule(which=WHICH)
    def work(self, which: int) -> None:
        self.members[which].work()

    @rule(which=WHICH)
    def beat_time(self, which: int) -> None:
        self.members[which].now_ms += 10_000

    @rule(which=WHICH)
    def expire(self, which: int) -> None:
        """The session ends: the coordinator forgets the member, which does not know."""
        self.group.remove(NAMES[which])
        self.group.reconcile_all()

    def living(self) -> Iterator[Member]:
        """Whoever the coordinator has not forgotten, as far as it and the member can tell."""
        for member in self.members:
            known = self.group.members.get(member.name)
            if known is None or not member.core.is_member or member.core.epoch == 0:
                continue
            if member.core.epoch in (known.epoch, known.previous_epoch):
                yield member

    @invariant()
    def nobody_owns_what_another_owns(self) -> None:
        owners: dict[Key, str] = {}
        for member in self.living():
            for key in member.core.reconciling.owned:
                assert key not in owners, (key, owners[key], member.name)
                owners[key] = member.name

    @invariant()
    def what_the_coordinator_takes_for_given_up_is_given_up(self) -> None:
        """I-134: what a living member believes to own, it holds at the coordinator."""
        for member in self.living():
            known = self.group.members[member.name]
            owned = member.core.reconciling.owned
            assert owned <= known.assigned | known.pending, (member.name, owned, known)

    @invariant()
    def each_partition_is_assigned_before_it_goes(self) -> None:
        for member in self.members:
            held: set[Key] = set()
            for what, keys in member.told:
                if what == "assigned":
                    assert not keys & held
                    held |= keys
                else:
                    assert keys <= held
                    held -= keys
            assert held == member.core.reconciling.assigned

    def teardown(self) -> None:
        """From here nothing goes wrong: every partition finds its owner."""
        for member in self.members:
            member.core.on_poll()
            member.cut()
        for _ in range(40):
            for member in self.members:
                member.now_ms += 10_000
                self.exchange(NAMES.index(member.name), 3)
                member.work()
        wanted = {m.name for m in self.members if m.core.subscription is not None}
        for name in set(self.group.members) - wanted:
            self.group.remove(name)  # left without a word: its session ends
        self.group.reconcile_all()
        for _ in range(20):
            for member in self.members:
                self.exchange(NAMES.index(member.name), 3)
                member.work()
        assert set(self.group.members) == wanted
        assert self.group.is_stable, self.group.members
        for member in self.members:
            held = member.core.reconciling.assigned
            if member.name in wanted:
                assert member.core.state is State.STABLE
                assert held == self.group.members[member.name].assigned, member.name
            else:
                assert not held


TestMembers = Members.TestCase
TestMembers.settings = settings(max_examples=examples(70), stateful_step_count=70)
