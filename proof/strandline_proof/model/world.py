"""The whole model: every step that a state allows, and the checks of every state.

Parts of a state are kept once, in a table, and a state is their places there. A step of a broker or
of the controller depends on its own part alone, and on the one message that it receives. So the
real code computes each such step once, and the table has it afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from strandline_proof.model import (
    checks,
    controller_steps,
    fetch_steps,
    leader_steps,
    machines,
    role_steps,
)
from strandline_proof.model.values import (
    BROKERS,
    Bounds,
    Decided,
    Entry,
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

Action = tuple[Any, ...]
"""The name of a step, the broker that takes it, and for some steps a number."""
Step = tuple[Action, State]


class Successor(NamedTuple):
    """The result of a broker's step: places of parts, and what the truth must record of it."""

    node: int
    broker_id: int
    sender: int | None = None
    """The broker whose fetch was served, if the answer is on its way to it."""
    committed: tuple[Entry, ...] | None = None
    cut: tuple[tuple[int, Entry], ...] = ()


class World:
    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._parts: list[Any] = []
        self._places: dict[Any, int] = {}
        self._known: dict[Hashable, Any] = {}
        self.trying: tuple[Callable[..., Any], tuple[int, ...]] | None = None
        """The computation under way: if a step raises, the last line of its trace names it."""

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

    def _once(self, compute: Callable[..., Any], *places: int) -> Any:
        """`compute` of the parts at `places`: the real code runs the first time only."""
        key = (compute, *places)
        found = self._known.get(key)
        if found is None:
            self.trying = (compute, places)
            found = self._known[key] = compute(*(self._parts[place] for place in places))
        return found

    def _node_after(self, change: Callable[..., Node], place: int, *rest: Any) -> int:
        """The place of the broker after a change that leaves all other parts alone."""
        key = (change, place, rest)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.place(change(self._parts[place], *rest))
        return found

    def _step(self, compute: Callable[..., leader_steps.Done], *places: int) -> Successor:
        """Returns a broker's step, with its result in the table."""
        key = (compute, *places)
        found = self._known.get(key)
        if found is None:
            self.trying = (compute, places)
            done = compute(*(self._parts[place] for place in places))
            node = done.node
            entries = None if done.committed is None else node.log.entries[: done.committed]
            sender = None if done.sender is None else self.place(done.sender)
            found = self._known[key] = Successor(
                self.place(node), node.broker_id, sender, entries, done.cut
            )
        return found

    def last_words(self) -> str:
        """The step that raised, in words."""
        assert self.trying is not None
        compute, places = self.trying
        names = [
            f"broker {part.broker_id}"
            for place in places
            if isinstance(part := self._parts[place], Node)
        ]
        what = compute.__name__.strip("_").replace("_", " ")
        return f"{' for '.join(names) or 'the controller'}: {what}"

    def initial(self) -> State:
        """All three brokers are in sync, broker 1 leads, every log is empty."""
        decided = Decided(1, 0, 0, BROKERS, (RegisteredBroker(),) * 3)
        one, two, three = (self.place(Node(b, 1)) for b in BROKERS)
        state = State(self.place(decided), one, two, three, self.place(Ghost()))
        for b in BROKERS:
            state = self._learn(state, b)
        return state

    # Steps

    def steps(self, state: State) -> Iterator[Step]:
        """Every step from here, with the state that it leads to. Raises Violation for a step that
        breaks an invariant.
        """
        if self.decided(state).leader == NO_LEADER:
            yield from self._recovers(state)
        for broker_id in BROKERS:
            node = self.node(state, broker_id)
            if node.is_up:
                yield from self._of_the_living(state, node)
            else:
                yield from self._of_the_dead(state, node)
            yield from self._of_messages(state, node)

    def _recovers(self, state: State) -> Iterator[Step]:
        """No broker of the ISR is left, and the last members of the ISR are back."""
        decided = self._once(self._recover, *state[:4])
        if decided != state[0] and self._within(decided):
            leader = self._parts[decided].leader
            yield ("leads-by-recovery", leader), _put(state, 0, decided)

    def _recover(self, decided: Decided, *nodes: Node) -> int:
        return self.place(controller_steps.recover(decided, *nodes))

    def take(self, state: State, action: Action) -> State:
        """The state after `action`, which must be possible."""
        for found, after in self.steps(state):
            if found == action:
                return after
        raise LookupError(f"{action} is not possible")

    def _of_the_living(self, state: State, node: Node) -> Iterator[Step]:
        b, role = node.broker_id, node.role
        if isinstance(role, LeaderView):
            yield from self._of_leaders(state, node, role)
        elif isinstance(role, FollowerView) and node.fetch is None:
            yield from self._fetches(state, node)
        if isinstance(node.fetch, FetchResponse):
            successor = self._step(fetch_steps.on_fetch_response, state[b])
            yield ("answer-arrives", b), self._after(state, successor)
        if node.push is not None:
            successor = self._step(role_steps.on_push, state[b])
            yield ("push-arrives-late", b), self._after(state, successor)
        if node.late is not None:
            successor = self._step(fetch_steps.on_late_response, state[b])
            yield ("late-answer-arrives", b), self._after(state, successor)
        if isinstance(node.alter, IsrResponse):
            successor = self._step(leader_steps.on_isr_response, state[b])
            yield ("isr-answer-arrives", b), self._after(state, successor)
        yield from self._of_control(state, node)

    def _of_leaders(self, state: State, node: Node, role: LeaderView) -> Iterator[Step]:
        b, place = node.broker_id, state[node.broker_id]
        used = self._spend(state, "appends")
        if used is not None:
            yield ("append", b), self._after(used, self._step(leader_steps.append, place))
        proposal = role.proposal
        used = self._spend(state, "lags")
        if proposal is None and used is not None:
            successor = self._step(leader_steps.time_passes, place)
            if successor.node != place:
                yield ("lag-passes", b), self._after(used, successor)
        if proposal is not None and proposal.waits_to_retry:
            yield ("asks-again", b), self._after(state, self._step(leader_steps.retry, place))
        used = self._spend(state, "timeouts")
        if used is not None and isinstance(node.alter, IsrRequest) and node.alter.is_awaited:
            successor = self._step(leader_steps.give_up_on_isr_response, place)
            yield ("gives-up-waiting", b), self._after(used, successor)

    def _fetches(self, state: State, node: Node) -> Iterator[Step]:
        """A fetch that is served at once, or sent to be served later."""
        b, place = node.broker_id, state[node.broker_id]
        assert isinstance(node.role, FollowerView)
        if not self._once(fetch_steps.may_fetch, place):
            return
        leader = node.role.told.leader
        if self.node(state, leader).is_up:
            successor = self._step(fetch_steps.serve, state[leader], place)
            after = self._after(state, successor)
            if after != state:
                yield ("fetch", b), after
        used = self._spend(state, "delays")
        if used is not None:
            yield ("sends-fetch", b), _put(used, b, self._node_after(fetch_steps.send, place))

    def _of_messages(self, state: State, node: Node) -> Iterator[Step]:
        """Messages under way arrive, whether or not their senders still live."""
        b, place, sent = node.broker_id, state[node.broker_id], node.fetch
        if isinstance(sent, FetchRequest):
            if self.node(state, sent.leader).is_up:
                successor = self._step(fetch_steps.serve_sent, state[sent.leader], place)
                yield ("fetch-is-served", b), self._after(state, successor)
            if not self._can_still_matter(state, node, sent):
                lost = self._node_after(fetch_steps.lose_fetch, place)
                yield ("fetch-is-lost", b), _put(state, b, lost)
        if isinstance(node.alter, IsrRequest):
            decided, told = self._once(self._alter_partition, state[0], place)
            if self._within(decided):
                yield ("isr-is-decided", b), _put(_put(state, b, told), 0, decided)

    def _alter_partition(self, decided: Decided, node: Node) -> tuple[int, int]:
        """The controller's decision, and the broker that waits for it now."""
        assert isinstance(node.alter, IsrRequest)
        after, answer = controller_steps.alter_partition(decided, node.broker_id, node.alter)
        response = None
        if node.alter.is_awaited:
            response = IsrResponse(node.alter.leader_epoch, answer)
        return self.place(after), self.place(node._replace(alter=response))

    def _can_still_matter(self, state: State, node: Node, request: FetchRequest) -> bool:
        """Returns whether losing this fetch matters: one that could be sent again does not."""
        if not self.node(state, request.leader).is_up or not node.is_up:
            return False
        same = node.broker_epoch == request.broker_epoch
        known = node.known
        return same and known is not None and known.leader_epoch == request.position.leader_epoch

    def _of_control(self, state: State, node: Node) -> Iterator[Step]:
        """Deaths, shutdowns, and the controller's suspicion of a running broker."""
        b, decided = node.broker_id, self.decided(state)
        registered = decided.brokers[b - 1]
        if self._once(_has_news, state[0], state[b]):
            yield ("learns", b), self._learn(state, b)
            used = self._spend(state, "late_pushes")
            if used is not None and node.push is None:
                held = self._node_after(role_steps.hold_push, state[b], decided)
                yield ("push-is-held-up", b), _put(used, b, held)
        elif registered.is_fenced:
            yield from self._decides("is-unfenced", state, controller_steps.unfence, b)
        elif registered.is_stopping and decided.leader != b:
            stopped = self._node_after(role_steps.stop_process, state[b])
            yield ("stops", b), _put(state, b, stopped)
        elif decided.leader == b and decided.last_known_elr:
            used = self._spend(state, "answers")
            if used is not None:
                yield from self._decides("has-answered", used, controller_steps.forget, b)
        yield from self._faults(state, node, registered)

    def _faults(self, state: State, node: Node, registered: RegisteredBroker) -> Iterator[Step]:
        b, place = node.broker_id, state[node.broker_id]
        used = self._spend(state, "kills")
        if used is not None:
            killed = self._node_after(role_steps.kill_process, place, None)
            yield ("is-killed", b), _put(used, b, killed)
        used = self._spend(state, "losses")
        if used is not None:
            for keeps in range(len(node.log.entries)):
                dark = self._node_after(role_steps.kill_process, place, keeps)
                yield ("loses-power", b, keeps), _put(used, b, dark)
        if registered.is_fenced:
            return
        used = self._spend(state, "suspicions")
        if used is not None:
            yield from self._decides("is-suspected", used, controller_steps.fence, b)
        used = self._spend(state, "shutdowns")
        if used is not None and not registered.is_stopping:
            yield from self._decides("begins-shutdown", used, controller_steps.begin_shutdown, b)

    def _of_the_dead(self, state: State, node: Node) -> Iterator[Step]:
        b = node.broker_id
        if not self.decided(state).brokers[b - 1].is_fenced:
            yield from self._decides("is-found-dead", state, controller_steps.fence, b)
        decided, started = self._once(self._restart, state[0], state[b])
        if self._within(decided):
            yield ("restarts", b), _put(_put(state, b, started), 0, decided)

    def _restart(self, decided: Decided, node: Node) -> tuple[int, int]:
        b = node.broker_id
        after = controller_steps.register(decided, b, stopped_cleanly=node.stopped_cleanly)
        started = role_steps.start_process(node, after.brokers[b - 1].epoch)
        return self.place(after), self.place(started)

    def _decides(
        self, name: str, state: State, decide: Callable[[Decided, int], Decided], b: int
    ) -> Iterator[Step]:
        key = (decide, state[0], b)
        decided = self._known.get(key)
        if decided is None:
            self.trying = (decide, (state[0],))
            decided = self._known[key] = self.place(decide(self.decided(state), b))
        if decided != state[0] and self._within(decided):
            yield (name, b), _put(state, 0, decided)

    def _within(self, place: int) -> bool:
        bounds, decided = self.bounds, self._parts[place]
        return bool(
            decided.leader_epoch <= bounds.leader_epochs
            and decided.partition_epoch <= bounds.partition_epochs
        )

    def _spend(self, state: State, what: str) -> State | None:
        """The state with one event of that kind less to come; None if none is left."""
        key = (what, state[4])
        found = self._known.get(key)
        if found is None:
            ghost = self.ghost(state)
            used = getattr(ghost, what) + 1
            left = used <= getattr(self.bounds, what)
            found = self._known[key] = self.place(ghost._replace(**{what: used})) if left else -1
        return None if found < 0 else _put(state, 4, found)

    def _learn(self, state: State, b: int) -> State:
        return self._after(state, self._step(role_steps.learn, state[b], state[0]))

    # Changes of the truth by a broker's step

    def _after(self, state: State, successor: Successor) -> State:
        if successor.sender is not None:
            state = _put(state, self._parts[successor.sender].broker_id, successor.sender)
        state = _put(state, successor.broker_id, successor.node)
        if successor.committed is None and not successor.cut:
            return state
        ghost = self.ghost(state)
        truth, committed = ghost.committed, successor.committed or ()
        self._check_cut(state, successor, truth)
        common = min(len(committed), len(truth))
        if committed[:common] != truth[:common]:
            raise Violation(
                f"I-18: broker {successor.broker_id} calls {committed} committed, where {truth} was"
            )
        if len(committed) <= len(truth):
            return state
        return _put(state, 4, self.place(ghost._replace(committed=committed)))

    def _check_cut(self, state: State, successor: Successor, truth: tuple[Entry, ...]) -> None:
        """I-41. A follower that has missed an election may still truncate records that its old
        leader lacks and a newer leader has committed since. That follower is in no ISR, and fetches
        the records again.
        """
        known = self.node(state, successor.broker_id).known
        if known is None or known.leader_epoch != self.decided(state).leader_epoch:
            return
        for offset, entry in successor.cut:
            if offset < len(truth) and truth[offset] == entry:
                raise Violation(
                    f"I-41: broker {successor.broker_id} cuts away the committed record {offset}"
                )

    # Checks

    def check(self, state: State) -> None:
        """Raises Violation if this state breaks an invariant."""
        decided, one, two, three, ghost = state
        self._once(checks.check_decided, decided)
        for node in (one, two, three):
            self._once(checks.check_node, node, ghost)
            self._once(checks.check_member, decided, node, ghost)
        self._once(checks.check_matching, one, two)
        self._once(checks.check_matching, one, three)
        self._once(checks.check_matching, two, three)
        self._once(checks.check_held, one, two, three, ghost)


def _put(state: State, at: int, place: int) -> State:
    parts = list(state)
    parts[at] = place
    return State._make(parts)


def _has_news(decided: Decided, node: Node) -> bool:
    """True if a push would change anything at this broker."""
    known = node.known
    if known is None or known.leader_epoch != decided.leader_epoch:
        return True
    if not isinstance(node.role, LeaderView):
        return False
    return (
        known.partition_epoch != decided.partition_epoch
        or node.eligible != machines.pushed_eligible(decided)
    )
