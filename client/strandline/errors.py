"""What can go wrong in the client library, as types.

Every error is a `StrandlineError`. It says whether the same call may succeed later (`retriable`)
and whether the records of the call may be in the log all the same (`may_have_been_written`); False
there is a promise (I-21). An error that a broker answered is a `BrokerError` and also an instance
of the class of `strandline_proto.errors` with the same name, so that its numeric `code` is
Kafka's. A time-out carries the last thing that stood in the way as `cause`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from strandline_proto import errors as wire

if TYPE_CHECKING:
    from strandline.types import SendManyResult, TopicPartition


class StrandlineError(Exception):
    """Base of everything the client library raises on purpose."""

    retriable: ClassVar[bool] = False
    may_have_been_written: bool = False


class ConfigurationError(StrandlineError, ValueError):
    """An option or an argument that is not accepted, or a combination of them."""


class UnsupportedFeature(StrandlineError):
    """Something that this version does not do; the message says what to use instead."""


class ClientClosed(StrandlineError):
    """The producer, consumer or admin is not started or has been closed."""


class ClientMisused(StrandlineError, RuntimeError):
    """A client was called where it cannot work: in another event loop than its own, in a forked
    child, or by its own delivery callback.
    """


class OperationTimedOut(StrandlineError, TimeoutError):
    """A call ran into its deadline; `cause` is what stood in the way, if that is known."""

    retriable = True

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class NoBrokerReachable(OperationTimedOut):
    """None of the known brokers answered in time."""


class BrokerUnreachable(StrandlineError):
    """One broker could not be reached, or the connection to it broke."""

    retriable = True


class DeliveryError(StrandlineError):
    """Records were not acknowledged. `cause` says why; `may_have_been_written` whether they may
    be in the log.
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
    """The delivery deadline passed before the acknowledgement came."""

    retriable = True


class OutcomeUnknown(DeliveryError):
    """The answer was lost and no retry could find out: the records may be in the log."""


class BufferFull(DeliveryError, TimeoutError):
    """The producer's buffer stayed full until the deadline; the records were never sent."""

    retriable = True


class SendManyFailed(DeliveryError):
    """Some records of `send_many` were not acknowledged; `result` says which and how many."""

    def __init__(self, message: str, result: SendManyResult, cause: BaseException | None) -> None:
        super().__init__(message, cause=cause, may_have_been_written=result.unknown > 0)
        self.result = result


class FlushFailed(DeliveryError):
    """Records handed over by `send` were not acknowledged, and nobody has waited for them: `failed`
    are certainly not in the log, `unknown` may be; `errors` has one for each batch.
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
    """The log no longer holds what stood before the consumer's position: it was truncated
    (KIP-320).

    `divergent_offset` is the first offset that may differ from what was read; None if no offset in
    common is known.
    """

    def __init__(self, message: str, partition: TopicPartition, divergent: int | None) -> None:
        super().__init__(message)
        self.partition = partition
        self.divergent_offset = divergent


class TopicRecreated(StrandlineError):
    """The topic was deleted and created anew: positions in the old one mean nothing in the new
    one (P-83).
    """


class CorruptRecords(StrandlineError):
    """Fetched bytes do not match their checksum, do not parse, or unpack to more than
    `max_decompressed_bytes`.
    """


class BrokerError(StrandlineError, wire.WireError):
    """A broker answered with an error code."""


class OffsetOutOfRange(BrokerError, wire.OffsetOutOfRange):
    """See strandline_proto.errors.OffsetOutOfRange."""

    retriable = wire.OffsetOutOfRange.retriable


class CorruptMessage(BrokerError, wire.CorruptMessage):
    """See strandline_proto.errors.CorruptMessage."""

    retriable = wire.CorruptMessage.retriable


class LeaderNotAvailable(BrokerError, wire.LeaderNotAvailable):
    """See strandline_proto.errors.LeaderNotAvailable."""

    retriable = wire.LeaderNotAvailable.retriable


class NotLeaderOrFollower(BrokerError, wire.NotLeaderOrFollower):
    """See strandline_proto.errors.NotLeaderOrFollower."""

    retriable = wire.NotLeaderOrFollower.retriable


class RequestTimedOut(BrokerError, wire.RequestTimedOut):
    """See strandline_proto.errors.RequestTimedOut."""

    retriable = wire.RequestTimedOut.retriable


class BrokerNotAvailable(BrokerError, wire.BrokerNotAvailable):
    """See strandline_proto.errors.BrokerNotAvailable."""

    retriable = wire.BrokerNotAvailable.retriable


class RecordTooLarge(BrokerError, wire.RecordTooLarge):
    """See strandline_proto.errors.RecordTooLarge."""

    retriable = wire.RecordTooLarge.retriable


class NetworkException(BrokerError, wire.NetworkException):
    """See strandline_proto.errors.NetworkException."""

    retriable = wire.NetworkException.retriable


class InvalidTopic(BrokerError, wire.InvalidTopic):
    """See strandline_proto.errors.InvalidTopic."""

    retriable = wire.InvalidTopic.retriable


class NotEnoughReplicas(BrokerError, wire.NotEnoughReplicas):
    """See strandline_proto.errors.NotEnoughReplicas."""

    retriable = wire.NotEnoughReplicas.retriable


class NotEnoughReplicasAfterAppend(BrokerError, wire.NotEnoughReplicasAfterAppend):
    """See strandline_proto.errors.NotEnoughReplicasAfterAppend."""

    retriable = wire.NotEnoughReplicasAfterAppend.retriable


class InvalidRequiredAcks(BrokerError, wire.InvalidRequiredAcks):
    """See strandline_proto.errors.InvalidRequiredAcks."""

    retriable = wire.InvalidRequiredAcks.retriable


class InvalidTimestamp(BrokerError, wire.InvalidTimestamp):
    """See strandline_proto.errors.InvalidTimestamp."""

    retriable = wire.InvalidTimestamp.retriable


class UnsupportedVersion(BrokerError, wire.UnsupportedVersion):
    """See strandline_proto.errors.UnsupportedVersion."""

    retriable = wire.UnsupportedVersion.retriable


class TopicAlreadyExists(BrokerError, wire.TopicAlreadyExists):
    """See strandline_proto.errors.TopicAlreadyExists."""

    retriable = wire.TopicAlreadyExists.retriable


class InvalidPartitions(BrokerError, wire.InvalidPartitions):
    """See strandline_proto.errors.InvalidPartitions."""

    retriable = wire.InvalidPartitions.retriable


class InvalidReplicationFactor(BrokerError, wire.InvalidReplicationFactor):
    """See strandline_proto.errors.InvalidReplicationFactor."""

    retriable = wire.InvalidReplicationFactor.retriable


class InvalidReplicaAssignment(BrokerError, wire.InvalidReplicaAssignment):
    """See strandline_proto.errors.InvalidReplicaAssignment."""

    retriable = wire.InvalidReplicaAssignment.retriable


class InvalidConfig(BrokerError, wire.InvalidConfig):
    """See strandline_proto.errors.InvalidConfig."""

    retriable = wire.InvalidConfig.retriable


class NotController(BrokerError, wire.NotController):
    """See strandline_proto.errors.NotController."""

    retriable = wire.NotController.retriable


class InvalidRequest(BrokerError, wire.InvalidRequest):
    """See strandline_proto.errors.InvalidRequest."""

    retriable = wire.InvalidRequest.retriable


class PolicyViolation(BrokerError, wire.PolicyViolation):
    """See strandline_proto.errors.PolicyViolation."""

    retriable = wire.PolicyViolation.retriable


class OutOfOrderSequenceNumber(BrokerError, wire.OutOfOrderSequenceNumber):
    """See strandline_proto.errors.OutOfOrderSequenceNumber."""

    retriable = wire.OutOfOrderSequenceNumber.retriable


class InvalidProducerEpoch(BrokerError, wire.InvalidProducerEpoch):
    """See strandline_proto.errors.InvalidProducerEpoch."""

    retriable = wire.InvalidProducerEpoch.retriable


class KafkaStorageError(BrokerError, wire.KafkaStorageError):
    """See strandline_proto.errors.KafkaStorageError."""

    retriable = wire.KafkaStorageError.retriable


class UnknownProducerId(BrokerError, wire.UnknownProducerId):
    """See strandline_proto.errors.UnknownProducerId."""

    retriable = wire.UnknownProducerId.retriable


class FencedLeaderEpoch(BrokerError, wire.FencedLeaderEpoch):
    """See strandline_proto.errors.FencedLeaderEpoch."""

    retriable = wire.FencedLeaderEpoch.retriable


class UnknownLeaderEpoch(BrokerError, wire.UnknownLeaderEpoch):
    """See strandline_proto.errors.UnknownLeaderEpoch."""

    retriable = wire.UnknownLeaderEpoch.retriable


class OffsetNotAvailable(BrokerError, wire.OffsetNotAvailable):
    """See strandline_proto.errors.OffsetNotAvailable."""

    retriable = wire.OffsetNotAvailable.retriable


class PreferredLeaderNotAvailable(BrokerError, wire.PreferredLeaderNotAvailable):
    """See strandline_proto.errors.PreferredLeaderNotAvailable."""

    retriable = wire.PreferredLeaderNotAvailable.retriable


class EligibleLeadersNotAvailable(BrokerError, wire.EligibleLeadersNotAvailable):
    """See strandline_proto.errors.EligibleLeadersNotAvailable."""

    retriable = wire.EligibleLeadersNotAvailable.retriable


class ElectionNotNeeded(BrokerError, wire.ElectionNotNeeded):
    """See strandline_proto.errors.ElectionNotNeeded."""

    retriable = wire.ElectionNotNeeded.retriable


class NoReassignmentInProgress(BrokerError, wire.NoReassignmentInProgress):
    """See strandline_proto.errors.NoReassignmentInProgress."""

    retriable = wire.NoReassignmentInProgress.retriable


class InvalidRecord(BrokerError, wire.InvalidRecord):
    """See strandline_proto.errors.InvalidRecord."""

    retriable = wire.InvalidRecord.retriable


class ThrottlingQuotaExceeded(BrokerError, wire.ThrottlingQuotaExceeded):
    """See strandline_proto.errors.ThrottlingQuotaExceeded."""

    retriable = wire.ThrottlingQuotaExceeded.retriable


class UnknownTopicOrPartition(BrokerError, wire.UnknownTopicOrPartition):
    """See strandline_proto.errors.UnknownTopicOrPartition."""

    retriable = wire.UnknownTopicOrPartition.retriable


class UnknownTopicId(BrokerError, wire.UnknownTopicId):
    """See strandline_proto.errors.UnknownTopicId."""

    retriable = wire.UnknownTopicId.retriable


class InconsistentTopicId(BrokerError, wire.InconsistentTopicId):
    """See strandline_proto.errors.InconsistentTopicId."""

    retriable = wire.InconsistentTopicId.retriable


class InconsistentClusterId(BrokerError, wire.InconsistentClusterId):
    """See strandline_proto.errors.InconsistentClusterId."""

    retriable = wire.InconsistentClusterId.retriable


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
    """`NotEnoughReplicas: orders/0 has ISR {1}, needs 2`: the kind of an error and its message,
    in one line.
    """
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
