"""Errors that cross the wire, under Kafka's numeric codes. Each says whether to retry.

Source of codes and retriability: Kafka's protocol guide, "Error codes". The message says what
happened, where, why and what to do; programs read the class, never the text.
"""

from typing import ClassVar, Final

NONE: Final = 0


class WireError(Exception):
    """Base of all errors that a peer may get. `retriable`: the same request may succeed later."""

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    between_servers: ClassVar[bool] = False
    """True if only brokers and the controller send it to each other; a client has no class
    for it.
    """
    record_index: int | None = None  # place in its batch of the record at fault


class UnknownServerError(WireError):
    """The server failed unexpectedly; its log has the details."""

    code = -1


class OffsetOutOfRange(WireError):
    """The offset is not in the log."""

    code = 1


class CorruptMessage(WireError):
    """A record batch's bytes do not match its checksum, its size or its format."""

    code = 2
    retriable = True


class UnknownTopicOrPartition(WireError):
    """This broker knows no such topic or partition."""

    code = 3
    retriable = True


class LeaderNotAvailable(WireError):
    """The partition has no leader at the moment."""

    code = 5
    retriable = True


class NotLeaderOrFollower(WireError):
    """This broker does not lead the partition (or holds no replica of it)."""

    code = 6
    retriable = True


class RequestTimedOut(WireError):
    """The request's own time limit ran out; after an append the outcome is unknown."""

    code = 7
    retriable = True


class BrokerNotAvailable(WireError):
    """The broker is not in service."""

    code = 8


class RecordTooLarge(WireError):
    """A batch is larger than max.message.bytes allows."""

    code = 10


class NetworkException(WireError):
    """The connection broke before an answer came."""

    code = 13
    retriable = True


class InvalidTopic(WireError):
    """The topic's name is not legal."""

    code = 17


class NotEnoughReplicas(WireError):
    """Fewer replicas in sync than min.insync.replicas; nothing was written."""

    code = 19
    retriable = True


class NotEnoughReplicasAfterAppend(WireError):
    """The ISR fell below min.insync.replicas after the append; the outcome is unknown."""

    code = 20
    retriable = True


class InvalidRequiredAcks(WireError):
    """acks is not 0, 1 or -1 (all)."""

    code = 21


class InvalidTimestamp(WireError):
    """A record's timestamp is out of the accepted range."""

    code = 32


class UnsupportedVersion(WireError):
    """A feature or format that this build does not support."""

    code = 35


class TopicAlreadyExists(WireError):
    """A topic of that name exists."""

    code = 36


class InvalidPartitions(WireError):
    """The number of partitions is below one."""

    code = 37


class InvalidReplicationFactor(WireError):
    """The replication factor is below one or above the number of live brokers."""

    code = 38


class InvalidReplicaAssignment(WireError):
    """An assignment names unknown or repeated brokers, or skips a partition."""

    code = 39


class InvalidConfig(WireError):
    """A configuration key or value that is not accepted."""

    code = 40


class NotController(WireError):
    """The answering process is not the active controller, or knows less than the caller."""

    code = 41
    retriable = True


class InvalidRequest(WireError):
    """The request contradicts itself or the protocol."""

    code = 42


class PolicyViolation(WireError):
    """The topic's configuration does not allow the request."""

    code = 44


class OutOfOrderSequenceNumber(WireError):
    """A producer's batch does not follow the last one."""

    code = 45


class InvalidProducerEpoch(WireError):
    """A newer producer with the same id has been seen."""

    code = 47


class InvalidTxnState(WireError):
    """The call does not fit the state of the transaction."""

    code = 48


class InvalidProducerIdMapping(WireError):
    """The coordinator does not know the transactional id, or has another producer id for it."""

    code = 49


class InvalidTransactionTimeout(WireError):
    """The transaction timeout is out of bounds."""

    code = 50


class ConcurrentTransactions(WireError):
    """The previous transaction of the producer has not ended yet."""

    code = 51
    retriable = True


class TransactionCoordinatorFenced(WireError):
    """A newer coordinator has written to the partition."""

    code = 52


class OperationNotAttempted(WireError):
    """The request failed for another partition, so this one was not attempted."""

    code = 55


class KafkaStorageError(WireError):
    """The broker's disk failed or refused; the replica is out of service there."""

    code = 56
    retriable = True


class UnknownProducerId(WireError):
    """The broker holds no state of this producer."""

    code = 59


class FetchSessionIdNotFound(WireError):
    """The fetch session is not this stream's."""

    code = 70
    retriable = True
    between_servers = True


class InvalidFetchSessionEpoch(WireError):
    """A request of the fetch session was lost or repeated."""

    code = 71
    retriable = True
    between_servers = True


class FencedLeaderEpoch(WireError):
    """The caller uses a leader epoch that has ended."""

    code = 74
    retriable = True


class UnknownLeaderEpoch(WireError):
    """The caller knows of a newer leader epoch than this broker."""

    code = 75
    retriable = True


class StaleBrokerEpoch(WireError):
    """The request is from, or for, an incarnation of a broker that has ended."""

    code = 77
    between_servers = True


class OffsetNotAvailable(WireError):
    """The leader is new and does not know yet how far its log is committed (KIP-207)."""

    code = 78
    retriable = True


class PreferredLeaderNotAvailable(WireError):
    """The first replica of the partition cannot lead now: it is not in sync, or not alive."""

    code = 80
    retriable = True


class EligibleLeadersNotAvailable(WireError):
    """No requested replica can lead the partition now."""

    code = 83
    retriable = True


class ElectionNotNeeded(WireError):
    """The partition already has the leader that the election would choose."""

    code = 84
    retriable = True


class StaleControllerEpoch(WireError):
    """A newer controller has taken over."""

    code = 11
    between_servers = True


class NoReassignmentInProgress(WireError):
    """The partition has no reassignment to cancel."""

    code = 85


class InvalidRecord(WireError):
    """A record does not parse, contradicts its batch, or breaks a rule of its topic."""

    code = 87


class ThrottlingQuotaExceeded(WireError):
    """Too many requests wait already; try again later."""

    code = 89
    retriable = True


class ProducerFenced(WireError):
    """A newer producer has the same transactional id."""

    code = 90


class InvalidUpdateVersion(WireError):
    """The partition epoch of an ISR change is not the current one."""

    code = 95
    between_servers = True


class DuplicateBrokerRegistration(WireError):
    """Another live process is registered under this broker id."""

    code = 101
    between_servers = True


class BrokerIdNotRegistered(WireError):
    """No broker of this id is registered."""

    code = 102
    between_servers = True


class UnknownTopicId(WireError):
    """This broker knows no topic of that id."""

    code = 100
    retriable = True


class InconsistentTopicId(WireError):
    """The name belongs to another topic id: the topic was created again."""

    code = 103
    retriable = True


class InconsistentClusterId(WireError):
    """The caller belongs to another cluster."""

    code = 104


class TransactionalIdNotFound(WireError):
    """The coordinator does not know the transactional id."""

    code = 105


class IneligibleReplica(WireError):
    """A proposed ISR names a replica that may not be in it."""

    code = 107
    between_servers = True


class NewLeaderElected(WireError):
    """The ISR change was committed and made another replica the leader."""

    code = 108
    between_servers = True


class OffsetMetadataTooLarge(WireError):
    """The text kept with a committed offset is above offset.metadata.max.bytes."""

    code = 12


class CoordinatorLoadInProgress(WireError):
    """The coordinator is new and still loads its log."""

    code = 14
    retriable = True


class CoordinatorNotAvailable(WireError):
    """No broker coordinates the group at the moment."""

    code = 15
    retriable = True


class NotCoordinator(WireError):
    """This broker does not, or no longer, coordinate the group; a write's outcome is unknown."""

    code = 16
    retriable = True


class IllegalGeneration(WireError):
    """The generation is not the group's."""

    code = 22


class InconsistentGroupProtocol(WireError):
    """The group uses another protocol than the member."""

    code = 23


class InvalidGroupId(WireError):
    """The group's id is not legal."""

    code = 24


class UnknownMemberId(WireError):
    """The group has no such member, or no longer."""

    code = 25


class InvalidSessionTimeout(WireError):
    """The session timeout is outside the broker's bounds."""

    code = 26


class RebalanceInProgress(WireError):
    """The group is being rebalanced; the member must join again."""

    code = 27


class InvalidCommitOffsetSize(WireError):
    """The offsets to commit do not fit into one batch."""

    code = 28


class NonEmptyGroup(WireError):
    """The group has members."""

    code = 68


class GroupIdNotFound(WireError):
    """The group does not exist."""

    code = 69


class MemberIdRequired(WireError):
    """The member must join again with the id in the answer."""

    code = 79


class GroupMaxSizeReached(WireError):
    """The group has as many members as it may have."""

    code = 81


class FencedInstanceId(WireError):
    """Another member has the group instance id now."""

    code = 82


class GroupSubscribedToTopic(WireError):
    """The group subscribes to the topic."""

    code = 86


class UnstableOffsetCommit(WireError):
    """A transaction may yet change the committed offset."""

    code = 88
    retriable = True


class FencedMemberEpoch(WireError):
    """The member's epoch is not its own, or no longer: it joins again."""

    code = 110


class UnreleasedInstanceId(WireError):
    """Another member has the group instance id, and has not given it up."""

    code = 111


class UnsupportedAssignor(WireError):
    """The broker has no such assignor."""

    code = 112


class StaleMemberEpoch(WireError):
    """The member's epoch has been superseded; it learns the new one with its next heartbeat."""

    code = 113


class TransactionAbortable(WireError):
    """The transaction can only be aborted."""

    code = 120


class InvalidRegularExpression(WireError):
    """The regular expression is not one that the broker can match."""

    code = 128


ERRORS: Final[dict[int, type[WireError]]] = {
    e.code: e for e in sorted(WireError.__subclasses__(), key=lambda e: e.code)
}


def from_code(code: int, message: str = "") -> WireError:
    """The error that `code` stands for; an unknown code: `UnknownServerError` with its number."""
    kind = ERRORS.get(code)
    if kind is None:
        return UnknownServerError(message or f"error code {code}")
    return kind(message or (kind.__doc__ or "").strip())
