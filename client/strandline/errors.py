"""The errors of the client library.

Every error is a `StrandlineError`. `retriable` is True if the same call may succeed later.
`may_have_been_written` is True if the records of the call may be in the log all the same; False is
a promise (I-21).

An error code that a broker returns becomes a `BrokerError`. Its class derives from the class of
`strandline_proto.errors` with the same name, which defines the numeric `code` (Kafka's), the
meaning and `retriable`. A time-out carries the last known obstacle as `cause`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from strandline_proto import errors as wire

if TYPE_CHECKING:
    from strandline.types import SendManyResult, TopicPartition


class StrandlineError(Exception):
    """Base of all errors that the client library raises on purpose."""

    retriable: ClassVar[bool] = False
    may_have_been_written: bool = False


class ConfigurationError(StrandlineError, ValueError):
    """An option, an argument or a combination of them is invalid."""


class UnsupportedFeature(StrandlineError):
    """This version does not support the feature; the message says what to use instead."""


class ClientClosed(StrandlineError):
    """The producer, consumer or admin is not started or has been closed."""


class ClientMisused(StrandlineError, RuntimeError):
    """A client was called where it cannot work: in another event loop than its own, in a forked
    child, or by its own delivery callback.
    """


class OperationTimedOut(StrandlineError, TimeoutError):
    """A call reached its deadline; `cause` is the obstacle, if it is known."""

    retriable = True

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class NoBrokerReachable(OperationTimedOut):
    """None of the known brokers answered in time."""


class BrokerUnreachable(StrandlineError):
    """One broker could not be reached, or the connection to it broke."""

    retriable = True


class CallNotServed(BrokerUnreachable, UnsupportedFeature):
    """The process at the address is no Strandline broker, or an older one without this call."""

    retriable = False


class DeliveryError(StrandlineError):
    """Records were not acknowledged.

    `cause` is the reason; `may_have_been_written` is True if the records may be in the log.
    """

    def __init__(
        self,
        message: str,
        *,
        cause: BaseException | None = None,
        may_have_been_written: bool = False,
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.may_have_been_written = may_have_been_written


class DeliveryTimedOut(DeliveryError, TimeoutError):
    """The delivery deadline passed before the acknowledgement arrived."""

    retriable = True


class OutcomeUnknown(DeliveryError):
    """The answer was lost and no retry recovered it: the records may be in the log."""


class BufferFull(DeliveryError, TimeoutError):
    """The producer's buffer stayed full until the deadline; the records were never sent."""

    retriable = True


class SendManyFailed(DeliveryError):
    """Some records of `send_many` were not acknowledged; `result` says which and how many."""

    def __init__(self, message: str, result: SendManyResult, cause: BaseException | None) -> None:
        super().__init__(message, cause=cause, may_have_been_written=result.unknown > 0)
        self.result = result


class FlushFailed(DeliveryError):
    """Records sent by `send` failed, and the program has not looked at their futures.

    `failed` records are certainly not in the log, `unknown` records may be. `errors` has one error
    for each batch.
    """

    def __init__(self, failed: int, unknown: int, errors: tuple[Exception, ...]) -> None:
        super().__init__(
            f"{failed + unknown} records were not acknowledged, {failed} of them were not written, "
            f"{unknown} may have been: {describe(errors[0])}",
            cause=errors[0],
            may_have_been_written=unknown > 0,
        )
        self.failed, self.unknown, self.errors = failed, unknown, errors


class LogTruncated(StrandlineError):
    """The log was truncated below the consumer's position (KIP-320).

    `divergent_offset` is the first offset whose record may differ from the record that was read;
    None if no common offset is known.
    """

    def __init__(self, message: str, partition: TopicPartition, divergent: int | None) -> None:
        super().__init__(message)
        self.partition = partition
        self.divergent_offset = divergent


class TopicRecreated(StrandlineError):
    """The topic was deleted and created again: positions in the old topic are not valid in the
    new one (P-83).
    """


class CorruptRecords(StrandlineError):
    """Fetched bytes do not match their checksum, do not parse, or unpack to more than
    `max_decompressed_bytes`.
    """


class SerializationError(StrandlineError, ValueError):
    """A key or value does not serialize; the record was not sent.

    `topic`, `partition` (None: not chosen yet) and `field` ("key" or "value") say where.
    """

    def __init__(self, message: str, topic: str, partition: int | None, field: str) -> None:
        super().__init__(message)
        self.topic, self.partition, self.field = topic, partition, field


class DeserializationError(StrandlineError, ValueError):
    """A fetched key or value does not deserialize; `seek` past its offset skips the record.

    `partition`, `offset`, `field` ("key" or "value") and `data` (its bytes) say which.
    """

    def __init__(
        self, message: str, partition: TopicPartition, offset: int, field: str, data: bytes
    ) -> None:
        super().__init__(message)
        self.partition, self.offset, self.field, self.data = partition, offset, field, data


class CommitFailed(StrandlineError):
    """Offsets were not committed, and will not be: the partition was reassigned after the
    commit was requested, or is about to be.

    The partition's next owner reads on from the last committed offset. With
    `may_have_been_written`, an earlier try got no answer, and its offset may be the committed one.
    """


class NoOffsetForPartition(StrandlineError):
    """The group has no committed offset for the partition, and `auto_offset_reset` is error."""


class WrongTransactionState(StrandlineError, RuntimeError):
    """The state of the producer's transaction does not allow the call.

    The message names the state and the calls that are allowed.
    """


class AbortableTransactionError(StrandlineError):
    """The transaction can only be aborted; `cause` is the reason.

    The producer can begin another transaction after `abort_transaction()`.
    """

    def __init__(self, message: str, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class FatalTransactionError(StrandlineError):
    """The transactional producer cannot go on and must be closed; `cause` is the reason."""

    def __init__(self, message: str, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class CommitOutcomeUnknown(OperationTimedOut):
    """The answer to a commit was lost: the transaction may be committed.

    A repeated `commit_transaction()` brings the outcome; an abort is refused until then.
    """

    may_have_been_written = True


class TransactionAborted(DeliveryError):
    """The transaction of the records was aborted: no reader of committed transactions gets them."""


class BrokerError(StrandlineError, wire.WireError):
    """A broker returned an error code."""


# From here: made from strandline_proto.errors by `make proto`; change it there.


class UnknownServerError(wire.UnknownServerError, BrokerError):
    """The server failed unexpectedly; its log has the details."""


class OffsetOutOfRange(wire.OffsetOutOfRange, BrokerError):
    """The offset is not in the log."""


class CorruptMessage(wire.CorruptMessage, BrokerError):
    """A record batch's bytes do not match its checksum, its size or its format."""


class UnknownTopicOrPartition(wire.UnknownTopicOrPartition, BrokerError):
    """This broker knows no such topic or partition."""


class LeaderNotAvailable(wire.LeaderNotAvailable, BrokerError):
    """The partition has no leader at the moment."""


class NotLeaderOrFollower(wire.NotLeaderOrFollower, BrokerError):
    """This broker does not lead the partition (or holds no replica of it)."""


class RequestTimedOut(wire.RequestTimedOut, BrokerError):
    """The request's own time limit ran out; after an append the outcome is unknown."""


class BrokerNotAvailable(wire.BrokerNotAvailable, BrokerError):
    """The broker is not in service."""


class RecordTooLarge(wire.RecordTooLarge, BrokerError):
    """A batch is larger than max.message.bytes allows."""


class OffsetMetadataTooLarge(wire.OffsetMetadataTooLarge, BrokerError):
    """The text kept with a committed offset is above offset.metadata.max.bytes."""


class NetworkException(wire.NetworkException, BrokerError):
    """The connection broke before an answer came."""


class CoordinatorLoadInProgress(wire.CoordinatorLoadInProgress, BrokerError):
    """The coordinator is new and still loads its log."""


class CoordinatorNotAvailable(wire.CoordinatorNotAvailable, BrokerError):
    """No broker coordinates the group at the moment."""


class NotCoordinator(wire.NotCoordinator, BrokerError):
    """This broker does not, or no longer, coordinate the group; a write's outcome is unknown."""


class InvalidTopic(wire.InvalidTopic, BrokerError):
    """The topic's name is not legal."""


class NotEnoughReplicas(wire.NotEnoughReplicas, BrokerError):
    """Fewer replicas in sync than min.insync.replicas; nothing was written."""


class NotEnoughReplicasAfterAppend(wire.NotEnoughReplicasAfterAppend, BrokerError):
    """The ISR fell below min.insync.replicas after the append; the outcome is unknown."""


class InvalidRequiredAcks(wire.InvalidRequiredAcks, BrokerError):
    """acks is not 0, 1 or -1 (all)."""


class IllegalGeneration(wire.IllegalGeneration, BrokerError):
    """The generation is not the group's."""


class InconsistentGroupProtocol(wire.InconsistentGroupProtocol, BrokerError):
    """The group uses another protocol than the member."""


class InvalidGroupId(wire.InvalidGroupId, BrokerError):
    """The group's id is not legal."""


class UnknownMemberId(wire.UnknownMemberId, BrokerError):
    """The group has no such member, or no longer."""


class InvalidSessionTimeout(wire.InvalidSessionTimeout, BrokerError):
    """The session timeout is outside the broker's bounds."""


class RebalanceInProgress(wire.RebalanceInProgress, BrokerError):
    """The group is being rebalanced; the member must join again."""


class InvalidCommitOffsetSize(wire.InvalidCommitOffsetSize, BrokerError):
    """The offsets to commit do not fit into one batch."""


class InvalidTimestamp(wire.InvalidTimestamp, BrokerError):
    """A record's timestamp is out of the accepted range."""


class UnsupportedVersion(wire.UnsupportedVersion, BrokerError):
    """A feature or format that this build does not support."""


class TopicAlreadyExists(wire.TopicAlreadyExists, BrokerError):
    """A topic of that name exists."""


class InvalidPartitions(wire.InvalidPartitions, BrokerError):
    """The number of partitions is below one."""


class InvalidReplicationFactor(wire.InvalidReplicationFactor, BrokerError):
    """The replication factor is below one or above the number of live brokers."""


class InvalidReplicaAssignment(wire.InvalidReplicaAssignment, BrokerError):
    """An assignment names unknown or repeated brokers, or skips a partition."""


class InvalidConfig(wire.InvalidConfig, BrokerError):
    """A configuration key or value that is not accepted."""


class NotController(wire.NotController, BrokerError):
    """The answering process is not the active controller, or knows less than the caller."""


class InvalidRequest(wire.InvalidRequest, BrokerError):
    """The request contradicts itself or the protocol."""


class PolicyViolation(wire.PolicyViolation, BrokerError):
    """The topic's configuration does not allow the request."""


class OutOfOrderSequenceNumber(wire.OutOfOrderSequenceNumber, BrokerError):
    """A producer's batch does not follow the last one."""


class InvalidProducerEpoch(wire.InvalidProducerEpoch, BrokerError):
    """A newer producer with the same id has been seen."""


class InvalidTxnState(wire.InvalidTxnState, BrokerError):
    """The call does not fit the state of the transaction."""


class InvalidProducerIdMapping(wire.InvalidProducerIdMapping, BrokerError):
    """The coordinator does not know the transactional id, or has another producer id for it."""


class InvalidTransactionTimeout(wire.InvalidTransactionTimeout, BrokerError):
    """The transaction timeout is out of bounds."""


class ConcurrentTransactions(wire.ConcurrentTransactions, BrokerError):
    """The previous transaction of the producer has not ended yet."""


class TransactionCoordinatorFenced(wire.TransactionCoordinatorFenced, BrokerError):
    """A newer coordinator has written to the partition."""


class OperationNotAttempted(wire.OperationNotAttempted, BrokerError):
    """The request failed for another partition, so this one was not attempted."""


class KafkaStorageError(wire.KafkaStorageError, BrokerError):
    """The broker's disk failed or refused; the replica is out of service there."""


class UnknownProducerId(wire.UnknownProducerId, BrokerError):
    """The broker holds no state of this producer."""


class NonEmptyGroup(wire.NonEmptyGroup, BrokerError):
    """The group has members."""


class GroupIdNotFound(wire.GroupIdNotFound, BrokerError):
    """The group does not exist."""


class FencedLeaderEpoch(wire.FencedLeaderEpoch, BrokerError):
    """The caller uses a leader epoch that has ended."""


class UnknownLeaderEpoch(wire.UnknownLeaderEpoch, BrokerError):
    """The caller knows of a newer leader epoch than this broker."""


class OffsetNotAvailable(wire.OffsetNotAvailable, BrokerError):
    """The leader is new and does not know yet how far its log is committed (KIP-207)."""


class MemberIdRequired(wire.MemberIdRequired, BrokerError):
    """The member must join again with the id in the answer."""


class PreferredLeaderNotAvailable(wire.PreferredLeaderNotAvailable, BrokerError):
    """The first replica of the partition cannot lead now: it is not in sync, or not alive."""


class GroupMaxSizeReached(wire.GroupMaxSizeReached, BrokerError):
    """The group has as many members as it may have."""


class FencedInstanceId(wire.FencedInstanceId, BrokerError):
    """Another member has the group instance id now."""


class EligibleLeadersNotAvailable(wire.EligibleLeadersNotAvailable, BrokerError):
    """No requested replica can lead the partition now."""


class ElectionNotNeeded(wire.ElectionNotNeeded, BrokerError):
    """The partition already has the leader that the election would choose."""


class NoReassignmentInProgress(wire.NoReassignmentInProgress, BrokerError):
    """The partition has no reassignment to cancel."""


class GroupSubscribedToTopic(wire.GroupSubscribedToTopic, BrokerError):
    """The group subscribes to the topic."""


class InvalidRecord(wire.InvalidRecord, BrokerError):
    """A record does not parse, contradicts its batch, or breaks a rule of its topic."""


class UnstableOffsetCommit(wire.UnstableOffsetCommit, BrokerError):
    """A transaction may yet change the committed offset."""


class ThrottlingQuotaExceeded(wire.ThrottlingQuotaExceeded, BrokerError):
    """Too many requests wait already; try again later."""


class ProducerFenced(wire.ProducerFenced, BrokerError):
    """A newer producer has the same transactional id."""


class UnknownTopicId(wire.UnknownTopicId, BrokerError):
    """This broker knows no topic of that id."""


class InconsistentTopicId(wire.InconsistentTopicId, BrokerError):
    """The name belongs to another topic id: the topic was created again."""


class InconsistentClusterId(wire.InconsistentClusterId, BrokerError):
    """The caller belongs to another cluster."""


class TransactionalIdNotFound(wire.TransactionalIdNotFound, BrokerError):
    """The coordinator does not know the transactional id."""


class FencedMemberEpoch(wire.FencedMemberEpoch, BrokerError):
    """The member's epoch is not its own, or no longer: it joins again."""


class UnreleasedInstanceId(wire.UnreleasedInstanceId, BrokerError):
    """Another member has the group instance id, and has not given it up."""


class UnsupportedAssignor(wire.UnsupportedAssignor, BrokerError):
    """The broker has no such assignor."""


class StaleMemberEpoch(wire.StaleMemberEpoch, BrokerError):
    """The member's epoch has been superseded; it learns the new one with its next heartbeat."""


class TransactionAbortable(wire.TransactionAbortable, BrokerError):
    """The transaction can only be aborted."""


class InvalidRegularExpression(wire.InvalidRegularExpression, BrokerError):
    """The regular expression is not one that the broker can match."""


# To here.


class TransactionFenced(FatalTransactionError, ProducerFenced):
    """Another producer has the transactional id now, or the transaction took too long."""


UnknownTopic = UnknownTopicOrPartition

_BY_CODE: Final[dict[int, type[BrokerError]]] = {
    kind.code: kind for kind in sorted(BrokerError.__subclasses__(), key=lambda kind: kind.code)
}


def from_code(code: int, message: str = "") -> BrokerError:
    """The error that a broker's numeric code stands for."""
    kind = _BY_CODE.get(code)
    known = wire.from_code(code, message)
    if kind is not None:
        return kind(str(known))
    name = type(known).__name__
    unlisted: type[BrokerError] = type(
        name, (BrokerError,), {"code": code, "retriable": known.retriable}
    )
    return unlisted(str(known))


def describe(error: BaseException) -> str:
    """`NotEnoughReplicas: orders:0 has ISR {1}, needs 2`: the kind of an error and its message,
    in one line.
    """
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
