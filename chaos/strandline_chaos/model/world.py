"""The whole: every step that any state allows, and what must hold in every state.

Parts of a state are kept once, in tables, and a state is their places. What a broker or the
controller does depends on its own part alone (and on the one message that it is given), so each
such step is computed once, by the real code, and found again afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_chaos.model import broker_steps, controller_steps, logs, machines
from strandline_chaos.model.checks import check_state
from strandline_chaos.model.values import (
    BROKERS,
    Bounds,
    Decided,
    FetchRequest,
    FetchResponse,
    FollowerView,
    Ghost,
    IsrRequest,
    IsrResponse,
    LeaderView,
    Node,
    RegisteredBroker,
    State,
    Violation,
)
from strandline_proto.ids import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from strandline_chaos.model.broker_steps import Done

Action = tuple[Any, ...]
"""The name of a step, the broker whose step it is, and at times a number."""
Step = tuple[Action, State]


class World:
    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._parts: list[Any] = []
        self._places: dict[Any, int] = {}
        self._known: dict[Hashable, Any] = {}
        self.trying: tuple[Callable[..., Any], int, tuple[Hashable, ...]] | None = None
        """What is being computed: where a step breaks off, the last word of its trace."""

    # Parts

    def place(self, part: Any) -> int:
        found = self._places.get(part)
        if found is None:
            found = self._places[part] = len(self._parts)
            self._parts.append(part)
        return found

    def decided(self, state: State) -> Decided:
        return self._parts[state[0]]  # type: ignore[no-any-return]

    def node(self, state: State, broker_id: int) -> Node:
        return self._parts[state[broker_id]]  # type: ignore[no-any-return]

    def ghost(self, state: State) -> Ghost:
        return self._parts[state[4]]  # type: ignore[no-any-return]

    def _once(self, function: Callable[..., Any], place: int, *rest: Hashable) -> Any:
        """`function` of the part at `place`: computed the first time."""
        key = (function, place, *rest)
        found = self._known.get(key)
        self.trying = (function, place, rest)
        if found is None:
            found = self._known[key] = function(self._parts[place], *rest)
        return found

    def last_words(self) -> str:
        """The step that broke off."""
        assert self.trying is not None
        function, place, rest = self.trying
        part = self._parts[place]
        names = [f"broker {p.broker_id}" for p in (part, *rest) if isinstance(p, Node)]
        what = function.__name__.strip("_").replace("_", " ")
        return f"{' for '.join(names) or 'the controller'}: {what}"

    def initial(self) -> State:
        """All three in sync, broker 1 leads, every log is empty."""
        decided = Decided(1, 0, 0, BROKERS, (RegisteredBroker(),) * 3)
        state = self._state(decided, tuple(Node(b, 1) for b in BROKERS), Ghost())
        for b in BROKERS:
            state = self._learn(state, b)
        return state

    def _state(self, decided: Decided, nodes: tuple[Node, ...], ghost: Ghost) -> State:
        one, two, three = (self.place(node) for node in nodes)
        return State(self.place(decided), one, two, three, self.place(ghost))

    def _with(
        self,
        state: State,
        *,
        node: Node | None = None,
        decided: Decided | None = None,
        ghost: Ghost | None = None,
    ) -> State:
        parts = list(state)
        if node is not None:
            parts[node.broker_id] = self.place(node)
        if decided is not None:
            parts[0] = self.place(decided)
        if ghost is not None:
            parts[4] = self.place(ghost)
        return State(*parts)

    # Steps

    def steps(self, state: State) -> Iterator[Step]:
        """Every step from here, with where it leads. Raises Violation where one must not be."""
        for broker_id in BROKERS:
            node = self.node(state, broker_id)
            if node.is_up:
                yield from self._of_the_living(state, node)
            else:
                yield from self._of_the_dead(state, node)
            yield from self._of_messages(state, node)

    def take(self, state: State, action: Action) -> State:
        """The state after `action`, which must be possible."""
        for found, after in self.steps(state):
            if found == action:
                return after
        raise LookupError(f"{action} is not possible")

    def check(self, state: State) -> None:
        """Raise Violation if this state must not be."""
        decided, one, two, three, ghost = (self._parts[place] for place in state)
        check_state(decided, (one, two, three), ghost)

    def _of_the_living(self, state: State, node: Node) -> Iterator[Step]:
        b, role = node.broker_id, node.role
        if isinstance(role, LeaderView):
            yield from self._of_leaders(state, node, role)
        elif isinstance(role, FollowerView) and node.fetch is None:
            yield from self._fetches(state, node)
        if isinstance(node.fetch, FetchResponse):
            done = self._once(broker_steps.hear_fetch, state[b])
            yield ("answer-arrives", b), self._after(state, done)
        if isinstance(node.alter, IsrResponse):
            done = self._once(broker_steps.hear_isr_outcome, state[b])
            yield ("isr-answer-arrives", b), self._after(state, done)
        yield from self._of_control(state, node)

    def _of_leaders(self, state: State, node: Node, role: LeaderView) -> Iterator[Step]:
        b, ghost = node.broker_id, self.ghost(state)
        if ghost.appends < self.bounds.appends:
            done = self._once(broker_steps.append, state[b])
            used = ghost._replace(appends=ghost.appends + 1)
            yield ("append", b), self._after(self._with(state, ghost=used), done)
        if role.proposal is None and ghost.lags < self.bounds.lags:
            done = self._once(broker_steps.time_passes, state[b])
            if done.node != node:
                used = ghost._replace(lags=ghost.lags + 1)
                yield ("lag-passes", b), self._after(self._with(state, ghost=used), done)
        if role.proposal is not None and role.proposal.waits_to_retry:
            yield ("asks-again", b), self._after(state, self._once(broker_steps.retry, state[b]))
        awaited = isinstance(node.alter, IsrRequest) and node.alter.is_awaited
        if awaited and ghost.timeouts < self.bounds.timeouts:
            done = self._once(broker_steps.give_up_on_isr_outcome, state[b])
            used = ghost._replace(timeouts=ghost.timeouts + 1)
            yield ("gives-up-waiting", b), self._after(self._with(state, ghost=used), done)

    def _fetches(self, state: State, node: Node) -> Iterator[Step]:
        """A fetch that is served at once, or sent to be served later."""
        b = node.broker_id
        if not self._once(broker_steps.may_fetch, state[b]):
            return
        request: FetchRequest = self._once(broker_steps.next_fetch, state[b])
        if self.node(state, request.leader).is_up:
            after = self._serve(state, node, request)
            if after != state:
                yield ("fetch", b), after
        ghost = self.ghost(state)
        if ghost.delays < self.bounds.delays:
            used = ghost._replace(delays=ghost.delays + 1)
            sent = node._replace(fetch=request)
            yield ("sends-fetch", b), self._with(state, node=sent, ghost=used)

    def _serve(self, state: State, node: Node, request: FetchRequest) -> State:
        """The leader's broker serves the fetch; the answer waits at its sender, unless it says
        nothing.
        """
        done: Done
        place = state[request.leader]
        done, answered = self._once(broker_steps.serve, place, node, request)
        return self._after(self._with(state, node=answered), done)

    def _of_messages(self, state: State, node: Node) -> Iterator[Step]:
        """What is under way arrives, whether or not its sender still lives."""
        b = node.broker_id
        if isinstance(node.fetch, FetchRequest):
            if self.node(state, node.fetch.leader).is_up:
                yield ("fetch-is-served", b), self._serve(state, node, node.fetch)
            if not self._can_still_matter(state, node, node.fetch):
                yield ("fetch-is-lost", b), self._with(state, node=node._replace(fetch=None))
        if isinstance(node.alter, IsrRequest):
            request = node.alter
            decided, outcome = self._once(controller_steps.alter_partition, state[0], b, request)
            response = IsrResponse(request.leader_epoch, outcome) if request.is_awaited else None
            told = node._replace(alter=response)
            if self._within(decided):
                yield ("isr-is-decided", b), self._with(state, node=told, decided=decided)

    def _can_still_matter(self, state: State, node: Node, request: FetchRequest) -> bool:
        """A fetch that could be sent anew is not worth losing."""
        if not self.node(state, request.leader).is_up or not node.is_up:
            return False
        same = node.broker_epoch == request.broker_epoch
        known = node.known
        return same and known is not None and known.leader_epoch == request.position.leader_epoch

    def _of_control(self, state: State, node: Node) -> Iterator[Step]:
        """Deaths, shutdowns, and what the controller thinks of a broker that runs."""
        b, decided, ghost = node.broker_id, self.decided(state), self.ghost(state)
        if self._has_news(decided, node):
            yield ("learns", b), self._learn(state, b)
        registered = decided.brokers[b - 1]
        if registered.is_fenced:
            if not self._has_news(decided, node):
                yield from self._decides("is-unfenced", state, b, controller_steps.unfence)
        elif registered.is_stopping and decided.leader != b and not self._has_news(decided, node):
            yield ("stops", b), self._with(state, node=broker_steps.end_process(node, cleanly=True))
        yield from self._faults(state, node, registered)

    def _faults(self, state: State, node: Node, registered: RegisteredBroker) -> Iterator[Step]:
        b, ghost, bounds = node.broker_id, self.ghost(state), self.bounds
        if ghost.kills < bounds.kills:
            used = ghost._replace(kills=ghost.kills + 1)
            ended = broker_steps.end_process(node, cleanly=False)
            yield ("is-killed", b), self._with(state, node=ended, ghost=used)
        if self._may_lose(self.decided(state), node, ghost):
            used = ghost._replace(losses=ghost.losses + 1)
            for keeps in range(len(node.log.entries)):
                ended = broker_steps.end_process(node, cleanly=False, keeps=keeps)
                yield ("loses-power", b, keeps), self._with(state, node=ended, ghost=used)
        if registered.is_fenced:
            return
        if ghost.suspicions < bounds.suspicions:
            used = ghost._replace(suspicions=ghost.suspicions + 1)
            fence = controller_steps.fence
            yield from self._decides("is-suspected", self._with(state, ghost=used), b, fence)
        if ghost.shutdowns < bounds.shutdowns and not registered.is_stopping:
            used = ghost._replace(shutdowns=ghost.shutdowns + 1)
            begin = controller_steps.begin_shutdown
            yield from self._decides("begins-shutdown", self._with(state, ghost=used), b, begin)

    def _may_lose(self, decided: Decided, node: Node, ghost: Ghost) -> bool:
        if ghost.losses >= self.bounds.losses:
            return False
        return decided.isr != (node.broker_id,) or self.bounds.last_replica_may_lose

    def _of_the_dead(self, state: State, node: Node) -> Iterator[Step]:
        b, decided = node.broker_id, self.decided(state)
        if not decided.brokers[b - 1].is_fenced:
            yield from self._decides("is-found-dead", state, b, controller_steps.fence)
        clean = node.stopped_cleanly
        registered = self._once(_register, state[0], b, clean)
        if self._within(registered):
            started = broker_steps.start_process(node, registered.brokers[b - 1].epoch)
            yield ("restarts", b), self._with(state, node=started, decided=registered)

    def _decides(
        self, name: str, state: State, b: int, decide: Callable[[Decided, int], Decided]
    ) -> Iterator[Step]:
        decided = self._once(decide, state[0], b)
        if decided != self.decided(state) and self._within(decided):
            yield (name, b), self._with(state, decided=decided)

    def _within(self, decided: Decided) -> bool:
        bounds = self.bounds
        return (
            decided.leader_epoch <= bounds.leader_epochs
            and decided.partition_epoch <= bounds.partition_epochs
        )

    # Metadata

    def _has_news(self, decided: Decided, node: Node) -> bool:
        """Whether a push would change anything here."""
        known = node.known
        if known is None or known.leader_epoch != decided.leader_epoch:
            return True
        if not isinstance(node.role, LeaderView):
            return False
        place = self.place(decided)
        return known.partition_epoch != decided.partition_epoch or node.eligible != self._once(
            machines.pushed_eligible, place
        )

    def _learn(self, state: State, b: int) -> State:
        pushed = self._once(machines.pushed, state[0])
        eligible = self._once(machines.pushed_eligible, state[0])
        return self._after(state, self._once(broker_steps.learn, state[b], pushed, eligible))

    # What a broker's step means for the truth

    def _after(self, state: State, done: Done) -> State:
        ghost = self.ghost(state)
        if done.cut_at is not None and done.cut_at < len(ghost.committed):
            raise Violation(
                f"I-41: broker {done.node.broker_id} cuts its log at {done.cut_at}, below the true"
                f" high watermark {len(ghost.committed)}"
            )
        if done.committed is not None:
            committed = done.node.log.entries[: done.committed]
            common = min(len(committed), len(ghost.committed))
            if committed[:common] != ghost.committed[:common]:
                raise Violation(
                    f"I-18: broker {done.node.broker_id} calls {committed} committed, where"
                    f" {ghost.committed} was"
                )
            if len(committed) > len(ghost.committed):
                ghost = ghost._replace(committed=committed)
        return self._with(state, node=done.node, ghost=ghost)


def _register(decided: Decided, broker_id: int, stopped_cleanly: bool) -> Decided:
    return controller_steps.register(decided, broker_id, stopped_cleanly=stopped_cleanly)


def describe(world: World, action: Action, before: State, after: State) -> str:
    """One line of a trace: what happens, and what changes."""
    name, b, *rest = action
    words = [f"broker {b} {name.replace('-', ' ')}", *(f"({r} records left)" for r in rest)]
    was, now = world.node(before, b), world.node(after, b)
    changes = []
    for broker_id in BROKERS:
        old, new = world.node(before, broker_id), world.node(after, broker_id)
        if old.log != new.log:
            changes.append(f"log {broker_id}: {_log(new)}")
    if was.alter != now.alter and isinstance(now.alter, IsrRequest):
        asked = [m.broker_id for m in now.alter.isr]
        changes.append(f"asks for ISR {asked}")
    decided = world.decided(after)
    if decided != world.decided(before):
        leader = "nobody" if decided.leader == NO_LEADER else f"broker {decided.leader}"
        changes.append(
            f"controller: {leader} leads in epoch {decided.leader_epoch}, ISR {list(decided.isr)}"
        )
    committed = world.ghost(after).committed
    if committed != world.ghost(before).committed:
        changes.append(f"{len(committed)} committed")
    return " ".join(words) + (f"; {'; '.join(changes)}" if changes else "")


def _log(node: Node) -> str:
    records = " ".join(f"{at}@{entry[0]}" for at, entry in enumerate(node.log.entries))
    problem = logs.problem(node.log)
    return f"[{records}] hw {node.log.high_watermark}" + (f" ({problem})" if problem else "")
