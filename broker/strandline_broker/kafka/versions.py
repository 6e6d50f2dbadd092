"""The requests that a Kafka listener serves, and the advertised versions of each.

Source of keys, names and the first flexible versions: Kafka's protocol guide.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NEVER: Final = 1 << 15
"""First flexible version of a request that has none."""


class Api(NamedTuple):
    """One kind of request."""

    key: int
    name: str
    first: int
    """The lowest version that is served and advertised."""
    last: int
    flexible: int
    """The lowest version with compact lengths and tagged fields (KIP-482)."""

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible


PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
SYNC_GROUP: Final = 14
API_VERSIONS: Final = 18

SERVED: Final = (
    Api(PRODUCE, "Produce", 0, 13, 9),
    Api(FETCH, "Fetch", 4, 18, 12),
    Api(2, "ListOffsets", 1, 10, 6),
    Api(METADATA, "Metadata", 0, 13, 9),
    Api(8, "OffsetCommit", 2, 10, 8),
    Api(9, "OffsetFetch", 1, 10, 6),
    Api(10, "FindCoordinator", 0, 6, 3),
    Api(11, "JoinGroup", 0, 9, 6),
    Api(12, "Heartbeat", 0, 4, 4),
    Api(13, "LeaveGroup", 0, 5, 4),
    Api(SYNC_GROUP, "SyncGroup", 0, 5, 4),
    Api(15, "DescribeGroups", 0, 6, 5),
    Api(16, "ListGroups", 0, 5, 3),
    Api(17, "SaslHandshake", 0, 1, NEVER),
    Api(API_VERSIONS, "ApiVersions", 0, 5, 3),
    Api(19, "CreateTopics", 2, 7, 5),
    Api(20, "DeleteTopics", 1, 6, 4),
    Api(21, "DeleteRecords", 0, 2, 2),
    Api(22, "InitProducerId", 0, 5, 2),
    Api(23, "OffsetForLeaderEpoch", 2, 4, 4),
    Api(24, "AddPartitionsToTxn", 0, 3, 3),
    Api(25, "AddOffsetsToTxn", 0, 4, 3),
    Api(26, "EndTxn", 0, 5, 3),
    Api(27, "WriteTxnMarkers", 1, 2, 1),
    Api(28, "TxnOffsetCommit", 0, 5, 3),
    Api(29, "DescribeAcls", 1, 3, 2),
    Api(30, "CreateAcls", 1, 3, 2),
    Api(31, "DeleteAcls", 1, 3, 2),
    Api(32, "DescribeConfigs", 1, 4, 4),
    Api(33, "AlterConfigs", 0, 2, 2),
    Api(35, "DescribeLogDirs", 1, 4, 2),
    Api(37, "CreatePartitions", 0, 3, 2),
    Api(42, "DeleteGroups", 0, 2, 2),
    Api(43, "ElectLeaders", 0, 2, 2),
    Api(44, "IncrementalAlterConfigs", 0, 1, 1),
    Api(45, "AlterPartitionReassignments", 0, 1, 0),
    Api(46, "ListPartitionReassignments", 0, 0, 0),
    Api(47, "OffsetDelete", 0, 0, NEVER),
    Api(60, "DescribeCluster", 0, 2, 0),
    Api(61, "DescribeProducers", 0, 0, 0),
    Api(65, "DescribeTransactions", 0, 0, 0),
    Api(66, "ListTransactions", 0, 2, 0),
    Api(68, "ConsumerGroupHeartbeat", 0, 1, 0),
    Api(69, "ConsumerGroupDescribe", 0, 1, 0),
    Api(74, "ListConfigResources", 0, 1, 0),
    Api(75, "DescribeTopicPartitions", 0, 0, 0),
)

BY_KEY: Final = {api.key: api for api in SERVED}
BY_NAME: Final = {api.name: api for api in SERVED}
