"""The JSON between the console's server and its pages: the state, its frames, the recording.

The types of answers that a page requests are in `answers.py`, by the same rules.

Every field of type `X | None` is null while it is unknown, unless its comment says otherwise. A
page hatches an unknown value and draws no guess. Times are milliseconds since 1970, by the
console's clock, unless a field is named `server_time_ms`. End offsets are exclusive.

The state is a set of maps of flat entities. A `Delta` has, for each map, the fields that changed in
each entity, and the keys that left. A page merges field by field; it replaces lists whole. A new
entity arrives with all of its fields.

| request | answer |
|---|---|
| `GET /api/meta` | `Meta` |
| `GET /api/stream?SCOPE` | server-sent events: `keyframe` (`Keyframe`), `delta` (`Delta`) |
| `GET /api/at?instant=MS&SCOPE` or `?frame=N&SCOPE` | `Keyframe`: the state then |
| `GET /api/deltas?after=FRAME&limit=N&SCOPE` | `Deltas`, to play from an instant |
| `GET /api/timeline?from=MS&to=MS&limit=N` | `Timeline`, oldest first |
| `GET /api/lag?group=G&from=MS&to=MS` | `LagHistory` |
| `GET /api/why?topic=T&partition=P&broker=B&instant=MS` | `Why`: is B in the ISR, and why |
| `GET /api/records?topic=T&partition=P&offset=N` or `&time=MS`, `&limit=N` | `Records` |
| `GET /api/faults` | `FaultLab` |
| `POST /api/faults` with `FaultRequest` | `Fault`; needs the token |
| `POST /api/faults/ID/heal` | `Fault`; needs the token |
| `POST /api/workload` with `WorkloadRequest` | `Workload`; needs the token |
| `GET /api/trace?from=MS&to=MS` | one HTML file, see `Trace` |

SCOPE selects partitions: `first=0&count=100` (a window in order of name; at most 500) with `q=TEXT`
(part of the topic's name), or `partition=TOPIC:0` (may be repeated). Without a scope the window is
`first=0&count=100`. Servers, groups, faults, pipelines, summary and events are always complete.

The `id` of a server-sent event is `RUN-FRAME`. The browser repeats it as `Last-Event-ID`; the
stream then goes on with the next frame, or begins with a keyframe where that is too far back.

A refused request has a status from 400 on and a `Refusal`. The token is sent as
`Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from strandline_console.pipelines import Pipeline  # noqa: TC001 - `gen_console_types` resolves it

MESSAGES_VERSION: Final = 3
"""The version of these types. A trace of another version is refused."""

Scalar = str | int | float | bool | None

ServerState = Literal["connecting", "watching", "absent", "without_watch"]


@dataclass(slots=True, kw_only=True)
class Server:
    """One broker or the controller, as the console sees it.

    What a server reported (its replicas; the partitions of the controller) is known while `state`
    is `watching`. In every other state it is the last report, and pages hatch it.
    """

    id: str
    """`controller` or `broker-1`."""
    kind: Literal["controller", "broker"]
    node_id: int | None
    """Null of a controller that has not answered yet."""
    address: str | None
    """Host and port for gRPC; null of a broker that is registered without a live address."""
    state: ServerState
    """`absent`: no connection, the console tries again. `without_watch`: an older build."""
    state_since_ms: int
    reason: str | None = None
    """Why it is not watched, in a sentence; null while it is watched."""
    incarnation: str | None = None
    """Changes with each start of the process."""
    build: str | None = None
    last_event_ms: int | None = None
    """The arrival of the last frame from this server."""
    server_time_ms: int | None = None
    """The server's own clock in its last frame."""
    fenced: bool | None = None
    """As the controller reports it. Null of the controller, and while the controller is unknown."""
    in_controlled_shutdown: bool | None = None
    """As the controller reports it; `decommissioning` and `rack` likewise."""
    decommissioning: bool | None = None
    rack: str | None = None
    lifecycle: str | None = None
    """In the broker's own words: starting, recovering, fenced, running or stopping."""
    broker_epoch: int | None = None
    controller_epoch: int | None = None
    """The controller's own epoch, or the one that the broker knows."""
    last_heartbeat_ms: int | None = None
    """The broker's last heartbeat, on the controller's clock. Its age is the controller's
    `server_time_ms` less this."""
    session_ends_ms: int | None = None
    """The controller fences the broker then without another heartbeat; on its clock."""
    metadata_offset: int | None = None
    """The offset of the controller's log that this server has applied."""
    directories: list[Directory] | None = None
    """Its data directories; null while unknown."""
    records_per_s: float | None = None
    """Records produced to this broker, from two of its frames; null while it does not count."""
    bytes_in_per_s: float | None = None
    """Bytes produced to it."""
    bytes_out_per_s: float | None = None
    """Bytes fetched from it by clients."""
    replicated_bytes_per_s: float | None = None
    """Bytes that it copied from leaders."""


@dataclass(slots=True, kw_only=True)
class Directory:
    """A data directory of a broker."""

    path: str
    condition: str
    """`ok`, `full` or `failed`."""
    reason: str | None = None
    """The sentence of the broker; null if nothing is wrong."""


@dataclass(slots=True, kw_only=True)
class Partition:
    """One partition, as the controller has committed it. The key is `TOPIC:NUMBER`."""

    topic: str
    partition: int
    topic_id: str | None = None
    replicas: list[int] | None = None
    adding: list[int] | None = None
    removing: list[int] | None = None
    leader: int | None = None
    """Null while unknown; -1: the partition is offline."""
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    isr: list[int] | None = None
    """Committed in the controller's log."""
    elr: list[int] | None = None
    last_known_elr: list[int] | None = None
    min_isr: int | None = None
    """The effective `min.insync.replicas`."""
    recovering: bool | None = None
    """True while a leader that was elected uncleanly has not reported that it recovered."""


ReplicaRole = Literal["leader", "follower", "none", "offline"]
"""`none`: the replica waits for its first role, or its partition has no leader."""


@dataclass(slots=True, kw_only=True)
class Replica:
    """One replica, as the broker that holds it reports it. The key is `TOPIC:NUMBER@BROKER`."""

    topic: str
    partition: int
    broker: int
    role: ReplicaRole | None = None
    leader_epoch: int | None = None
    """The epoch that this replica acts under."""
    log_start: int | None = None
    durable: int | None = None
    """Every offset below it is on the disk after a power failure."""
    log_end: int | None = None
    high_watermark: int | None = None
    """As this replica knows it."""
    size_bytes: int | None = None
    leader: int | None = None
    """The leader that this replica knows; null if it knows none."""
    partition_epoch: int | None = None
    epoch_start: int | None = None
    """The log end when this leader's epoch began; null at a follower."""
    epochs: list[list[int]] | None = None
    """The epoch table: [leader epoch, first offset], ascending; the newest 100."""
    epochs_older: int | None = None
    """Entries of the table before these."""
    isr_proposed: list[int] | None = None
    """The ISR that this leader has proposed and the controller has not answered; null at a
    follower, and while nothing is proposed."""
    isr_committed: list[int] | None = None
    """The committed ISR that this replica knows; null if unknown. `elr` likewise."""
    elr: list[int] | None = None
    fetchers: list[Fetcher] | None = None
    """The followers, as this leader knows them; null at a follower."""
    waiters: list[Waiter] | None = None
    """Callers in purgatory, the first 32 offsets."""
    waiters_count: int | None = None
    """All callers in purgatory."""
    ghosts: list[Ghost] | None = None
    """Truncated ends of this replica, at most 16, oldest first; kept since the console watches."""
    condition: str | None = None
    """The name of a condition that needs care; null: none, while the server is watched."""
    condition_reason: str | None = None
    """The broker's sentence; null without a condition."""
    healing: bool | None = None
    """True from a truncation before damage until it holds again what is committed."""
    refused_truncation_to: int | None = None
    """Set while the replica refuses a truncation below its watermark; null: it refuses none."""


@dataclass(slots=True, kw_only=True)
class Fetcher:
    """A follower, as the leader knows it."""

    broker: int
    fetch_offset: int | None
    """The next offset that the follower requested. Null before its first fetch in this epoch."""
    last_caught_up_ms: int | None
    """When the follower last held everything, on the leader's clock. Exact for a follower that
    lags, old for one that does not; null: not in this leader epoch."""
    in_maximal_isr: bool
    """True if the leader counts it as in sync."""


@dataclass(slots=True, kw_only=True)
class Waiter:
    """Callers that wait in a leader's purgatory for the same offset."""

    kind: Literal["produce", "flush", "delete_records", "fetch", "group"]
    offset: int
    """`produce`: the watermark has to reach it; `flush`: the durable offset; `delete_records`:
    the log start of every replica; `fetch`: a consumer reads from there; `group`: the watermark has
    to reach it for an answer of the group coordinator."""
    count: int


@dataclass(slots=True, kw_only=True)
class Ghost:
    """A range that a replica truncated."""

    start: int
    """The log end after the truncation."""
    end: int
    """The log end before it."""
    reason: str
    """`diverged`, `high_watermark`, `before_leader_start` or `damage`."""
    leader_epoch: int | None
    """The epoch that the replica followed in."""
    high_watermark: int
    """The replica's watermark before."""
    acknowledged: bool | None
    """True: the replica knew records of the range to be committed, so producers with acks=all may
    have been answered. False: none of them was committed. Null: the replica cannot know."""
    epochs: list[list[int]]
    """Of the removed records: [leader epoch, first offset]."""
    at_ms: int
    server_time_ms: int


@dataclass(slots=True, kw_only=True)
class Group:
    """One group, as its coordinator reports it. The key is its id."""

    id: str
    kind: str | None = None
    """Kafka's word: `Consumer` or `Classic`."""
    state: str | None = None
    """Kafka's word: `Stable`, `Reconciling`, `Empty` ..."""
    epoch: int | None = None
    """The group epoch; of a classic group, its generation."""
    assignment_epoch: int | None = None
    assignor: str | None = None
    coordinator: int | None = None
    """The broker that coordinates it. While that server is not watched, the group is unknown."""
    coordinator_epoch: int | None = None
    members: list[Member] | None = None
    offsets: dict[str, Committed] | None = None
    """By partition, `TOPIC:NUMBER`."""
    lag: int | None = None
    """Sum of the known lags; null if none is known."""


@dataclass(slots=True, kw_only=True)
class Member:
    """A member of a group."""

    id: str
    client_id: str
    client_host: str
    instance_id: str | None
    """Null of a dynamic member."""
    epoch: int
    assigned: list[str]
    """Partitions that it may own now, `TOPIC:NUMBER`."""
    target: list[str]
    """Partitions that it is to own."""


@dataclass(slots=True, kw_only=True)
class Committed:
    """A committed offset and what remains behind it."""

    offset: int
    leader_epoch: int | None = None
    at_ms: int | None = None
    """The coordinator's clock at the commit; null if it does not know."""
    lag: int | None = None
    """High watermark of the leader less `offset`; null while the watermark is unknown."""


@dataclass(slots=True, kw_only=True)
class Summary:
    """The line above the board. It counts all partitions, not those of the scope."""

    partitions: int | None = None
    """Null while the controller is unknown, as are the next three."""
    under_replicated: int | None = None
    below_minimum: int | None = None
    """Partitions whose ISR is smaller than `min.insync.replicas`."""
    offline: int | None = None
    """Partitions without a leader."""
    records_per_s: float | None = None
    """Growth of the leaders' log ends in the last seconds; null while no leader is watched."""
    committed_per_s: float | None = None
    """Growth of the leaders' watermarks."""
    troubled: list[str] = field(default_factory=list)
    """The first 100 partitions of the three counts, `TOPIC:NUMBER`."""


FaultKind = Literal["kill", "stop", "pause", "cut_off", "slow_disk", "full_disk"]


@dataclass(slots=True, kw_only=True)
class Fault:
    """One fault that the lab injected. The key is its id."""

    id: str
    kind: FaultKind
    target: str
    """`controller` or `broker-1`."""
    state: Literal["active", "healing", "healed", "failed"]
    """`failed`: it could not be injected, or not be healed; see `sentence`."""
    begun_ms: int
    heals_ms: int
    """When it heals by itself."""
    healed_ms: int | None = None
    """Null until it has healed."""
    sentence: str = ""
    cost: Cost | None = None
    """The cost of the fault; null until it has healed."""


@dataclass(slots=True, kw_only=True)
class Cost:
    """The cost of a fault, as the console saw it from its start until its end."""

    elections: int | None
    """Null if the controller was not watched, as are the next two."""
    isr_changes: int | None
    offline_ms: int | None
    """Time in which some partition had no leader."""
    truncated_records: int | None
    """Null if some broker has no watch."""
    slowest_acknowledgement_ms: int | None
    """Of the checking workload; null if it did not run."""
    lost: int | None
    doubled: int | None


@dataclass(slots=True, kw_only=True)
class Workload:
    """The checking workload: a producer with acks=all, and a reader that compares."""

    state: Literal["stopped", "running", "failed"]
    topic: str
    sent: int = 0
    acknowledged: int = 0
    read: int = 0
    lost: int = 0
    """Acknowledged records that the reader passed and did not find."""
    doubled: int = 0
    failed: int = 0
    """Records whose send ended with an error: they may be in the log or not."""
    slowest_acknowledgement_ms: int | None = None
    """In the last 10 seconds; null if nothing was acknowledged then."""
    error: str | None = None
    """Why it failed; null otherwise."""


@dataclass(slots=True, kw_only=True)
class State:
    """Everything that is known at one instant, within the scope."""

    summary: Summary = field(default_factory=Summary)
    servers: dict[str, Server] = field(default_factory=dict)
    partitions: dict[str, Partition] = field(default_factory=dict)
    """Empty while the controller was never seen; the replicas may be known all the same."""
    replicas: dict[str, Replica] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    workload: Workload | None = None
    """Null if the fault lab is not available."""


@dataclass(slots=True, kw_only=True)
class Instant:
    """The place of a frame in the recording."""

    frame: int
    at_ms: int
    oldest_ms: int
    """The first instant that is kept."""
    newest_ms: int
    """The last instant that is kept; equal to `at_ms` if this is the newest frame."""


@dataclass(slots=True, kw_only=True)
class Window:
    """The part of the partitions that a state has."""

    first: int
    count: int
    """Partitions of the window, as many as there are."""
    total: int
    """Partitions that match `q`."""


@dataclass(slots=True, kw_only=True)
class Keyframe:
    """The whole state within the scope."""

    run: str
    instant: Instant
    window: Window
    state: State


@dataclass(slots=True, kw_only=True)
class Delta:
    """The changes since the frame before, within the scope. A page that misses frames by number
    has lost nothing: frames without a change in its scope are not sent.

    `changed` and `removed` have the names of the maps of `State`, for instance `servers`.
    `changed["workload"][""]` is the change of the workload.
    """

    frame: int
    at_ms: int
    summary: Summary | None = None
    """Null if nothing of it changed."""
    changed: dict[str, dict[str, dict[str, object]]] = field(default_factory=dict)
    removed: dict[str, list[str]] = field(default_factory=dict)
    events: list[TimelineEvent] = field(default_factory=list)
    """Every event of the cluster, whatever the scope."""


@dataclass(slots=True, kw_only=True)
class Deltas:
    """The frames after one frame."""

    run: str
    deltas: list[Delta]
    more: bool
    """True if further frames are there."""


EventKind = Literal[
    "election",
    "isr",
    "broker",
    "reassignment",
    "topic",
    "truncation",
    "loss",
    "rebalance",
    "controller",
    "disk",
    "fault",
    "server",
]


@dataclass(slots=True, kw_only=True)
class TimelineEvent:
    """One thing that happened."""

    id: int
    """Ascending within a run of the console."""
    frame: int
    at_ms: int
    kind: EventKind
    """`broker`: registered, fenced, unfenced ... `disk`: a directory's condition changed.
    `fault`: begun, healed, failed. `server`: the console began to watch a server, or lost it."""
    sentence: str
    """Plain text, with names from the cluster: pages escape it."""
    server: str | None = None
    """The server that reported it; null of the console's own events."""
    server_time_ms: int | None = None
    """Null of the console's own events."""
    sequence: int | None = None
    """The server's number of its event; null of the console's own."""
    topic: str | None = None
    """Null if it concerns no topic; `partition`, `broker`, `group` and `fault` likewise."""
    partition: int | None = None
    broker: int | None = None
    group: str | None = None
    fault: str | None = None
    details: dict[str, Scalar] = field(default_factory=dict)
    """Further values by name, to be shown as a list."""
