"""The records of the controller's log: the controller's decisions.

One record is one JSON object whose `type` names it, so that a dump of the log is readable. Records
are only extended: a new field has a default. A field that this build does not know is an error: a
controller that skips half of a decision would decide on a wrong state. A change that no field shows
raises the level of the log, which begins each controller epoch.

A topic id is 16 bytes, in JSON their base64. A record never contains a broker epoch or an offset
that it creates: both are the record's own place in the log (I-30, I-32).
"""

from typing import Final

import msgspec

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_proto.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    ProducerId,
    TopicId,
)

LOG_LEVEL: Final[int] = 0
"""Level of the records' meaning. It rises with a change that an earlier controller must not replay,
and `metadata_snapshot.VERSION` rises with it. A downgrade to an earlier build is then impossible.
"""
RECOVERED: Final = 0
RECOVERING: Final = 1


class LaterRecord(ValueError):
    """A later build has written a record. It cannot be replayed here, and is not damaged."""


class Record(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag=lambda name: name.removesuffix("Record"),
):
    """Base of every record; its tag is the class name without `Record`."""


class ControllerEpochRecord(Record, frozen=True, kw_only=True):
    """A start of the controller; every later record is decided in this epoch (I-31)."""

    epoch: ControllerEpoch
    level: int = 0
    """LOG_LEVEL of the build that wrote the record."""
    build: str = ""
    """Name of that build; empty at level 0, as builds from before levels have no such field."""


class TopicRecord(Record, frozen=True, kw_only=True):
    name: str
    topic_id: TopicId


class RemoveTopicRecord(Record, frozen=True, kw_only=True):
    topic_id: TopicId


class PartitionRecord(Record, frozen=True, kw_only=True):
    """A new partition. `directories` is parallel to `replicas`: the disk on which each replica was
    last in sync.
    """

    topic_id: TopicId
    partition: int
    replicas: tuple[BrokerId, ...]
    directories: tuple[str, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    leader_recovery_state: int = RECOVERED
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    original: tuple[BrokerId, ...] = ()
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()


class PartitionChangeRecord(Record, frozen=True, kw_only=True):
    """A change of a partition; None leaves a field unchanged.

    Replay raises the partition epoch by one. It raises the leader epoch by one if `leader` is
    given, even with the same id.
    """

    topic_id: TopicId
    partition: int
    isr: tuple[BrokerId, ...] | None = None
    leader: BrokerId | None = None
    replicas: tuple[BrokerId, ...] | None = None
    directories: tuple[str, ...] | None = None
    adding: tuple[BrokerId, ...] | None = None
    removing: tuple[BrokerId, ...] | None = None
    original: tuple[BrokerId, ...] | None = None
    """The replicas before the reassignment under way, in their order; empty without one."""
    leader_recovery_state: int | None = None
    elr: tuple[BrokerId, ...] | None = None
    last_known_elr: tuple[BrokerId, ...] | None = None
    log_end: int | None = None
    """Log end of an uncleanly elected leader, as far as it was reported: from there on its log may
    lack committed records. It is no part of the partition's state.
    """


class RegisterBrokerRecord(Record, frozen=True, kw_only=True):
    """A new incarnation of a broker; its epoch is this record's offset. It starts fenced."""

    broker_id: BrokerId
    incarnation_id: str
    directory_id: str
    flush_policy: str
    pid: int
    version: str
    """Version of the broker's build, with the commit."""
    listeners: tuple[Endpoint, ...]
    inter_broker_listener: str
    rack: str = ""
    features: tuple[str, ...] = ()
    log_dirs: tuple[str, ...] = ()
    replicas_max: int = 0


class BrokerRegistrationChangeRecord(Record, frozen=True, kw_only=True):
    """A change of one incarnation's marks: fenced, in controlled shutdown, or to be decommissioned,
    so that it takes no new replicas. None leaves a mark unchanged.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    decommissioning: bool | None = None


class OfflineReplica(
    msgspec.Struct, frozen=True, order=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A replica that does not count like its broker's others, and the reason."""

    topic_id: TopicId
    partition: int
    condition: ReplicaCondition = ReplicaCondition.OUT_OF_SERVICE
    damaged: bool = False
    """True only in logs from before there were more conditions than these two; never in memory."""

    def __post_init__(self) -> None:
        if self.damaged:
            msgspec.structs.force_setattr(self, "condition", ReplicaCondition.DAMAGED)
            msgspec.structs.force_setattr(self, "damaged", False)


class OfflineReplicasRecord(Record, frozen=True, kw_only=True):
    """The replicas that one incarnation cannot serve from now on; it replaces the previous list."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    replicas: tuple[OfflineReplica, ...]


class UnregisterBrokerRecord(Record, frozen=True, kw_only=True):
    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class ConfigRecord(Record, frozen=True, kw_only=True):
    """A configuration entry of a topic or, without a topic id, a default from the controller's own
    configuration. Without a value the topic's own entry is removed.
    """

    topic_id: TopicId | None = None
    key: str
    value: str | None = None


class BrokerConfigRecord(Record, frozen=True, kw_only=True):
    """A broker's key altered at run time; without a broker id, for all brokers. Without a value the
    alteration is removed.
    """

    broker_id: BrokerId | None = None
    key: str
    value: str | None = None


class GroupConfigRecord(Record, frozen=True, kw_only=True):
    """A key of a consumer group. Without a value the alteration is removed."""

    group_id: str
    key: str
    value: str | None = None


class ProducerIdsRecord(Record, frozen=True, kw_only=True):
    """Reservation of producer ids: every id below `next_producer_id` is assigned (I-59)."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    next_producer_id: ProducerId


class LossRecord(Record, frozen=True, kw_only=True):
    """A replica has given up, or lost, the records from `start` to below `end`; it knew those below
    `committed` to be committed. With `end` equal to `start` no lost record is known: the leader's
    log ended there.
    """

    broker_id: BrokerId
    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    start: int
    end: int
    committed: int


AnyRecord = (
    LossRecord
    | ControllerEpochRecord
    | TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | RegisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | OfflineReplicasRecord
    | UnregisterBrokerRecord
    | ConfigRecord
    | BrokerConfigRecord
    | GroupConfigRecord
    | ProducerIdsRecord
)

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(AnyRecord)


def encode(record: AnyRecord) -> bytes:
    return _ENCODER.encode(record)


def decode(value: bytes) -> AnyRecord:
    """The record that `encode` wrote. Raises LaterRecord if this build does not know all of it, and
    ValueError if it is no record.
    """
    try:
        record: AnyRecord = _DECODER.decode(value)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise unknown(value, f"not a controller record of this version: {error}") from None
    if isinstance(record, ControllerEpochRecord) and record.level > LOG_LEVEL:
        raise LaterRecord(
            f"build {record.build or 'unknown'} begins epoch {record.epoch} of the log at level"
            f" {record.level}, and this build knows levels up to {LOG_LEVEL}"
        )
    return record


def epoch_record(epoch: ControllerEpoch, *, build: str, level: int = LOG_LEVEL) -> AnyRecord:
    """The first record that a start of this build writes."""
    return ControllerEpochRecord(epoch=epoch, level=level, build=build if level > 0 else "")


def unknown(value: bytes, why: str) -> ValueError:
    """The error for a record that this build cannot read. It counts as a later build's record if it
    is whole and names its type.
    """
    try:
        found = msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError):
        found = None
    is_whole = isinstance(found, dict) and isinstance(found.get("type"), str)
    return (LaterRecord if is_whole else ValueError)(f"{why}: {value[:200]!r}")
