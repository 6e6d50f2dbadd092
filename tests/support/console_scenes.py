"""Scenes for the console's pages: a cluster of three brokers, made by hand."""

from strandline_console.messages import (
    Committed,
    Directory,
    Fetcher,
    Ghost,
    Group,
    Member,
    Partition,
    Replica,
    Server,
    State,
    Summary,
    TimelineEvent,
    Waiter,
)

BROKERS = (1, 2, 3)


def servers(at_ms: int) -> dict[str, Server]:
    """The controller and three brokers, all watched."""
    controller = Server(
        id="controller",
        kind="controller",
        node_id=0,
        address="127.0.0.1:9090",
        state="watching",
        state_since_ms=at_ms,
        server_time_ms=at_ms,
        controller_epoch=1,
    )
    brokers = [
        Server(
            id=f"broker-{broker}",
            kind="broker",
            node_id=broker,
            address=f"127.0.0.1:{9090 + broker}",
            state="watching",
            state_since_ms=at_ms,
            incarnation=f"incarnation-{broker}",
            server_time_ms=at_ms,
            fenced=False,
            in_controlled_shutdown=False,
            lifecycle="running",
            last_heartbeat_ms=at_ms - 120,
            directories=[Directory(path=f"/data/{broker}", condition="ok")],
            bytes_in_per_s=184_000.0,
        )
        for broker in BROKERS
    ]
    return {server.id: server for server in [controller, *brokers]}


def partition(topic: str, number: int, leader: int, *, epoch: int = 3) -> Partition:
    """A partition that every broker has a replica of, all in sync."""
    return Partition(
        topic=topic,
        partition=number,
        replicas=[(leader - 1 + i) % 3 + 1 for i in range(3)],
        adding=[],
        removing=[],
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=epoch + 4,
        isr=[1, 2, 3],
        elr=[],
        last_known_elr=[],
        min_isr=2,
        recovering=False,
    )


def replica(of: Partition, broker: int, end: int, *, now_ms: int, lag: int = 0) -> Replica:
    """A replica in the state that its partition says; a follower's watermark is a little behind."""
    is_leader = of.leader == broker
    epoch = of.leader_epoch or 0
    starts = [[e, s] for e, s in ((0, 0), (1, 420), (epoch, 910)) if e <= epoch]
    return Replica(
        topic=of.topic,
        partition=of.partition,
        broker=broker,
        role="leader" if is_leader else "follower",
        leader_epoch=epoch,
        log_start=0,
        durable=max(0, end - lag - 6),
        log_end=end - lag,
        high_watermark=max(0, end - 4) if is_leader else max(0, end - max(8, lag)),
        epochs=starts,
        epochs_older=0,
        isr_committed=of.isr,
        elr=of.elr,
        fetchers=[
            Fetcher(
                broker=other,
                fetch_offset=end - 4,
                last_caught_up_ms=now_ms - 40,
                in_maximal_isr=True,
            )
            for other in of.replicas or []
            if other != broker
        ]
        if is_leader
        else None,
        waiters=[Waiter(kind="produce", offset=end - 1, count=2)] if is_leader else [],
        waiters_count=2 if is_leader else 0,
        ghosts=[],
    )


def cluster(at_ms: int, topics: dict[str, int]) -> State:
    """All in order: `topics` has the number of partitions of each."""
    state = State(servers=servers(at_ms))
    for topic, count in topics.items():
        for number in range(count):
            one = partition(topic, number, number % 3 + 1)
            key = f"{topic}:{number}"
            state.partitions[key] = one
            for broker in BROKERS:
                end = 1200 + 37 * number
                state.replicas[f"{key}@{broker}"] = replica(one, broker, end, now_ms=at_ms)
    summarize(state)
    return state


def summarize(state: State) -> None:
    """The line above the board, from the partitions."""
    partitions = state.partitions.values()
    under = [f"{p.topic}:{p.partition}" for p in partitions if len(p.isr or []) < 3]
    state.summary = Summary(
        partitions=len(state.partitions),
        under_replicated=len(under),
        below_minimum=sum(len(p.isr or []) < (p.min_isr or 0) for p in partitions),
        offline=sum(p.leader == -1 for p in partitions),
        records_per_s=1840.0,
        committed_per_s=1836.0,
        troubled=under[:100],
    )


def kill(state: State, broker: int, at_ms: int) -> None:
    """The console loses a broker: it has not been fenced yet."""
    server = state.servers[f"broker-{broker}"]
    server.state = "absent"
    server.state_since_ms = at_ms
    server.reason = "The connection was refused; the console tries again."


def fence(state: State, broker: int, at_ms: int) -> list[TimelineEvent]:
    """The controller fences the broker: it leaves every ISR, and others lead."""
    state.servers[f"broker-{broker}"].fenced = True
    events = [event("broker", f"Broker {broker} is fenced: its session ended.", broker=broker)]
    for key, one in state.partitions.items():
        one.isr = [other for other in one.isr or [] if other != broker]
        if one.leader == broker:
            one.leader = one.isr[0] if one.isr else -1
            one.leader_epoch = (one.leader_epoch or 0) + 1
            events.append(
                event(
                    "election",
                    f"Broker {one.leader} leads {key} in epoch {one.leader_epoch}:"
                    f" broker {broker} is fenced.",
                    topic=one.topic,
                    partition=one.partition,
                    broker=one.leader,
                )
            )
        _follow(state, key, one, broker, at_ms)
    summarize(state)
    return events


def _follow(state: State, key: str, one: Partition, gone: int, at_ms: int) -> None:
    for other in BROKERS:
        mine = state.replicas[f"{key}@{other}"]
        if other != gone:
            end = mine.log_end or 0
            fresh = replica(one, other, end, now_ms=at_ms)
            fresh.epochs = [*(mine.epochs or [])]
            if one.leader_epoch not in [epoch for epoch, _ in fresh.epochs]:
                fresh.epochs.append([one.leader_epoch or 0, end])
            fresh.waiters = mine.waiters if other == one.leader else []
            state.replicas[f"{key}@{other}"] = fresh


def ghost(at_ms: int, *, start: int, end: int, epoch: int, acknowledged: bool | None) -> Ghost:
    return Ghost(
        start=start,
        end=end,
        reason="diverged",
        leader_epoch=epoch + 1,
        high_watermark=start,
        acknowledged=acknowledged,
        epochs=[[epoch, start]],
        at_ms=at_ms,
        server_time_ms=at_ms,
    )


def group(name: str, state: State, topic: str) -> Group:
    """Two members that share the partitions of a topic; one partition is on its way."""
    keys = [key for key, one in state.partitions.items() if one.topic == topic]
    half = len(keys) // 2
    ends = {key: state.replicas[f"{key}@{state.partitions[key].leader}"] for key in keys}
    offsets = {
        key: Committed(
            offset=(ends[key].high_watermark or 0) - 5 * i,
            leader_epoch=3,
            at_ms=None,
            lag=5 * i,
        )
        for i, key in enumerate(keys)
    }
    members = [
        Member(
            id=f"{name}-{letter}-0b1c",
            client_id=f"{name}-{letter}",
            client_host="127.0.0.1",
            instance_id=None,
            epoch=6 + i,
            assigned=keys[:half] if i == 0 else keys[half + 1 :],
            target=keys[:half] if i == 0 else keys[half:],
        )
        for i, letter in enumerate("ab")
    ]
    return Group(
        id=name,
        kind="Consumer",
        state="Reconciling",
        epoch=7,
        assignment_epoch=7,
        assignor="uniform",
        coordinator=2,
        coordinator_epoch=3,
        members=members,
        offsets=offsets,
        lag=sum(one.lag or 0 for one in offsets.values()),
    )


def event(kind: str, sentence: str, **places: object) -> TimelineEvent:
    """An event of the timeline; the console numbers it."""
    return TimelineEvent(
        id=0,
        frame=0,
        at_ms=0,
        kind=kind,  # type: ignore[arg-type]
        sentence=sentence,
        **places,  # type: ignore[arg-type]
    )
