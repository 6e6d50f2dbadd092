"""The error table: Kafka's codes, one class each, and what a client may do about each."""

import pytest

from strandline_proto import errors
from strandline_proto.errors import ERRORS, UnknownServerError, WireError, from_code

# Kafka's protocol guide, "Error codes": code, and whether a client may repeat the request as it is.
KAFKAS_TABLE = {
    "UnknownServerError": (-1, False),
    "OffsetOutOfRange": (1, False),
    "CorruptMessage": (2, True),
    "UnknownTopicOrPartition": (3, True),
    "LeaderNotAvailable": (5, True),
    "NotLeaderOrFollower": (6, True),
    "RequestTimedOut": (7, True),
    "BrokerNotAvailable": (8, False),
    "RecordTooLarge": (10, False),
    "StaleControllerEpoch": (11, False),
    "OffsetMetadataTooLarge": (12, False),
    "NetworkException": (13, True),
    "CoordinatorLoadInProgress": (14, True),
    "CoordinatorNotAvailable": (15, True),
    "NotCoordinator": (16, True),
    "InvalidTopic": (17, False),
    "NotEnoughReplicas": (19, True),
    "NotEnoughReplicasAfterAppend": (20, True),
    "InvalidRequiredAcks": (21, False),
    "IllegalGeneration": (22, False),
    "InconsistentGroupProtocol": (23, False),
    "InvalidGroupId": (24, False),
    "UnknownMemberId": (25, False),
    "InvalidSessionTimeout": (26, False),
    "RebalanceInProgress": (27, False),
    "InvalidCommitOffsetSize": (28, False),
    "InvalidTimestamp": (32, False),
    "UnsupportedVersion": (35, False),
    "TopicAlreadyExists": (36, False),
    "InvalidPartitions": (37, False),
    "InvalidReplicationFactor": (38, False),
    "InvalidReplicaAssignment": (39, False),
    "InvalidConfig": (40, False),
    "NotController": (41, True),
    "InvalidRequest": (42, False),
    "PolicyViolation": (44, False),
    "OutOfOrderSequenceNumber": (45, False),
    "InvalidProducerEpoch": (47, False),
    "InvalidTxnState": (48, False),
    "InvalidProducerIdMapping": (49, False),
    "InvalidTransactionTimeout": (50, False),
    "ConcurrentTransactions": (51, True),
    "TransactionCoordinatorFenced": (52, False),
    "OperationNotAttempted": (55, False),
    "KafkaStorageError": (56, True),
    "UnknownProducerId": (59, False),
    "NonEmptyGroup": (68, False),
    "GroupIdNotFound": (69, False),
    "FetchSessionIdNotFound": (70, True),
    "InvalidFetchSessionEpoch": (71, True),
    "FencedLeaderEpoch": (74, True),
    "UnknownLeaderEpoch": (75, True),
    "StaleBrokerEpoch": (77, False),
    "OffsetNotAvailable": (78, True),
    "MemberIdRequired": (79, False),
    "PreferredLeaderNotAvailable": (80, True),
    "GroupMaxSizeReached": (81, False),
    "FencedInstanceId": (82, False),
    "EligibleLeadersNotAvailable": (83, True),
    "ElectionNotNeeded": (84, True),
    "NoReassignmentInProgress": (85, False),
    "GroupSubscribedToTopic": (86, False),
    "InvalidRecord": (87, False),
    "UnstableOffsetCommit": (88, True),
    "ThrottlingQuotaExceeded": (89, True),
    "ProducerFenced": (90, False),
    "InvalidUpdateVersion": (95, False),
    "UnknownTopicId": (100, True),
    "DuplicateBrokerRegistration": (101, False),
    "BrokerIdNotRegistered": (102, False),
    "InconsistentTopicId": (103, True),
    "InconsistentClusterId": (104, False),
    "TransactionalIdNotFound": (105, False),
    "IneligibleReplica": (107, False),
    "NewLeaderElected": (108, False),
    "FencedMemberEpoch": (110, False),
    "UnreleasedInstanceId": (111, False),
    "UnsupportedAssignor": (112, False),
    "StaleMemberEpoch": (113, False),
    "TransactionAbortable": (120, False),
    "InvalidRegularExpression": (128, False),
}


@pytest.mark.parametrize("name", sorted(KAFKAS_TABLE))
def test_each_error_has_kafkas_code_and_retriability(name: str) -> None:
    kind: type[WireError] = getattr(errors, name)
    assert (kind.code, kind.retriable) == KAFKAS_TABLE[name]


def ours() -> list[type[WireError]]:
    """The contract's own classes; the client library derives others from them."""
    return [kind for kind in WireError.__subclasses__() if kind.__module__ == errors.__name__]


def test_no_two_errors_share_a_code_and_none_is_success() -> None:
    codes = [kind.code for kind in ours()]
    assert len(codes) == len(set(codes)) == len(ERRORS)
    assert errors.NONE not in codes


def test_every_error_of_the_table_is_checked_against_kafkas() -> None:
    assert {kind.__name__ for kind in ERRORS.values()} == set(KAFKAS_TABLE)


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_a_code_comes_back_as_its_class_with_a_message_to_read(code: int) -> None:
    bare = from_code(code)
    assert type(bare) is ERRORS[code]
    assert str(bare).endswith("."), "without a message the class says what it means"
    assert str(from_code(code, "orders/0: not here")) == "orders/0: not here"


@pytest.mark.parametrize("code", [0, 9999, -2])
def test_a_code_that_nobody_knows_is_an_unknown_server_error_that_names_it(code: int) -> None:
    error = from_code(code)
    assert type(error) is UnknownServerError
    assert str(code) in str(error)
    assert not error.retriable
