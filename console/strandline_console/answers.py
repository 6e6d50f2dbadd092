"""The answers that a page requests once; `messages.py` says how, and what null means."""

from dataclasses import dataclass
from typing import Literal

from strandline_console.messages import Delta, FaultKind, Keyframe, TimelineEvent


@dataclass(slots=True, kw_only=True)
class Refusal:
    """The answer to a request that is refused."""

    error: str
    """One sentence: what is wrong, and what to do."""


@dataclass(slots=True, kw_only=True)
class Meta:
    """The answer that a page needs once, before it opens the stream."""

    messages_version: int
    build: str
    """`strandline --version` of the console."""
    run: str
    """Name of this run of the console; another run has other frames."""
    bootstrap: str
    read_only: bool
    """True if no action is served: the console does not listen on loopback."""
    read_only_reason: str | None
    """A sentence; null if actions are served."""
    has_tables: bool
    """True if the console was started with the folder of a pipeline."""
    kept_ms: int
    """The age up to which frames are kept: 900,000."""


@dataclass(slots=True, kw_only=True)
class Timeline:
    """Events between two instants."""

    run: str
    oldest_ms: int
    newest_ms: int
    events: list[TimelineEvent]
    more: bool
    """True if `limit` cut the list: ask again from the last event's instant."""


@dataclass(slots=True, kw_only=True)
class LagHistory:
    """The lag of a group, a point a second. Seconds in which it was unknown have null."""

    group: str
    first_ms: int
    step_ms: int
    lags: list[int | None]


@dataclass(slots=True, kw_only=True)
class Why:
    """The answer to "Why is broker 3 not in the ISR"."""

    in_isr: bool | None
    sentence: str
    """Says so if the reason is unknown."""


@dataclass(slots=True, kw_only=True)
class Payload:
    """A key, a value or a header's value, as far as it is shown."""

    size: int
    """Bytes of the whole."""
    text: str | None
    """Up to 64 KiB as UTF-8; null if the bytes are not UTF-8."""
    json: bool
    """True if `text` is a whole JSON document."""
    hex: str
    """The first 4 KiB, two digits a byte."""
    truncated: bool
    """True if `text` (or `hex`, where `text` is null) is not the whole."""


@dataclass(slots=True, kw_only=True)
class RecordHeader:
    """A header of a record."""

    name: str
    value: Payload | None
    """Null: the header has no value. This null is a fact, not an unknown."""


@dataclass(slots=True, kw_only=True)
class BatchHeader:
    """The header of a record batch."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    """-1: a producer without a number."""
    producer_epoch: int
    base_sequence: int
    codec: str
    timestamp_type: Literal["create", "append"]
    control: bool
    transactional: bool
    size: int
    """Bytes of the batch in the log."""
    records: int


@dataclass(slots=True, kw_only=True)
class RecordRow:
    """One record."""

    offset: int
    timestamp_ms: int | None
    """Null: the record has no timestamp."""
    batch: int
    """Index into `batches`."""
    key: Payload | None
    """Null: the record has no key; likewise `value`. Both are facts."""
    value: Payload | None
    headers: list[RecordHeader]


@dataclass(slots=True, kw_only=True)
class Records:
    """Records of one partition in order of offset. Readers see what is committed."""

    topic: str
    partition: int
    log_start: int | None
    """Null if no leader answered."""
    high_watermark: int | None
    first_offset: int
    """The offset that was requested, or found for the time."""
    next_offset: int
    """Where to go on."""
    batches: list[BatchHeader]
    records: list[RecordRow]
    damage: str | None = None
    """Why the records of a batch are missing; null if none are."""


@dataclass(slots=True, kw_only=True)
class FaultChoice:
    """One fault that a target can, or cannot, have."""

    kind: FaultKind
    available: bool
    reason: str | None = None
    """Why it is not available; null if it is."""


@dataclass(slots=True, kw_only=True)
class FaultTarget:
    """A process that faults are injected into."""

    id: str
    alive: bool
    choices: list[FaultChoice]


@dataclass(slots=True, kw_only=True)
class FaultLab:
    """The abilities of the lab. Faults that were injected and the workload are in `State`."""

    available: bool
    reason: str | None
    """Why the lab is not available (not our cluster, not on loopback); null if it is."""
    targets: list[FaultTarget]
    duration_s_max: int
    workload_topic: str


@dataclass(slots=True, kw_only=True)
class FaultRequest:
    """A fault to inject."""

    kind: FaultKind
    target: str
    duration_s: float
    """Seconds until it heals by itself, from 1 to `duration_s_max`."""


@dataclass(slots=True, kw_only=True)
class WorkloadRequest:
    """Starts or stops the checking workload."""

    running: bool
    records_per_s: int = 200
    """From 1 to 5000."""


@dataclass(slots=True, kw_only=True)
class Trace:
    """A selection of the recording.

    The saved HTML file is `static/index.html` with its scripts and styles inline, and this JSON in
    `<script type="application/json" id="strandline-trace">`. A page that finds that element replays
    it and opens no connection. It refuses another `version` than the one that it was built for, and
    names both.
    """

    version: int
    """`MESSAGES_VERSION`."""
    build: str
    made_ms: int
    from_ms: int
    to_ms: int
    keyframe: Keyframe
    """The state at `from_ms`, all partitions."""
    deltas: list[Delta]
    events: list[TimelineEvent]
    """Those of the deltas, and none else."""
