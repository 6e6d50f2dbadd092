"""What a person should know of each client, and what a client sees of each missing feature."""

from typing import Final

COMMON: Final = "`bootstrap.servers` names one or more brokers. No other setting is needed."

NOTES: Final[dict[str, tuple[str, ...]]] = {
    "confluent-kafka": (
        COMMON,
        "It is librdkafka: what holds here holds for its other bindings.",
        "Idempotent and plain producers work, with all five codecs.",
        "Classic groups work with `range`, `roundrobin` and `cooperative-sticky`.",
        "KIP-848 groups work with `group.protocol=consumer`.",
        "Static members work with `group.instance.id`.",
        "The admin client remembers leaders: `delete_records` may fail after a leader died.",
        "`list_topics` refreshes what it remembers. Apache Kafka shows the same.",
        "A high rate of consuming needs `fetch.queue.backoff.ms=1`: librdkafka pauses otherwise.",
        "`transactional.id` ends with UNSUPPORTED_VERSION.",
    ),
    "aiokafka": (
        "`bootstrap_servers` names one or more brokers. No other setting is needed.",
        "Its newest requests are old: Metadata 5, Produce 8, Fetch 11. All are served.",
        "Idempotent and plain producers work.",
        "Snappy, lz4 and zstd need the package `cramjam`.",
        "Classic groups work, static members too.",
        "It has no KIP-848 groups.",
        "Its default assignor is `roundrobin`.",
        "Java's and librdkafka's default is `range`: a mixed group names one that all have.",
        "The admin client creates, describes and deletes topics, and deletes records.",
        "`transactional_id` ends with an error at the start of the producer.",
    ),
    "kafka-python": (
        "`bootstrap_servers` names one or more brokers. No other setting is needed.",
        "It asks for the brokers' versions first, and infers Kafka 4.1.",
        "Producers are idempotent by default.",
        "Snappy, lz4 and zstd need `python-snappy`, `lz4` and `zstandard`.",
        "Classic groups work, static and cooperative members too.",
        "It has no KIP-848 groups.",
        "Deleting records is tried again by the client when a leader moved.",
        "48 of its 56 integration tests pass; the others are explained above.",
        "The version in use is also the brokers' codec.",
        "`transactional_id` ends with UNSUPPORTED_VERSION.",
    ),
    "kcat": (
        "`-b` names one or more brokers.",
        "It has librdkafka inside, in Debian an old one (2.0.2).",
        "`-P` produces, with `-X enable.idempotence=true` idempotently.",
        "`-C` reads partitions, and `-G` is a member of a classic group.",
        "It has no KIP-848 groups.",
        "`-Q` finds offsets by time.",
        "`-L` lists brokers, topics, leaders and in-sync replicas.",
        "It creates no topic by itself; `auto.create.topics.enable` makes one at the first record.",
        "It stamps records with the time of the call.",
        "It skips an empty file; a line with a key and no value writes an empty or null value.",
    ),
    "java-3.9.2": (
        COMMON,
        "Kafka 3.9 is the last release of the clients with Java 8 and 11.",
        "Spark's Kafka connector contains it.",
        "Producers are idempotent by default, with all five codecs.",
        "Classic groups work with all of its assignors.",
        "KIP-848 groups work with `group.protocol=consumer`.",
        "A rolling restart of static members moves no partition.",
        "A cooperative join revokes only the partitions that move.",
        "The admin client works for topics, configuration, groups, offsets, records and moves.",
        "`transactional.id` ends with an UnsupportedVersionException in `initTransactions`.",
    ),
    "java-4.4.0": (
        COMMON,
        "Producers are idempotent by default, with all five codecs.",
        "Classic groups and KIP-848 groups work, static members too.",
        "A rolling restart of static members moves no partition.",
        "A cooperative join revokes only the partitions that move.",
        "The metadata names the answering broker as controller, for the admin client.",
        "The admin client works for topics, configuration, groups, offsets, records and moves.",
        "Telemetry (KIP-714) is not advertised. The client turns it off by itself.",
        "Streams applications work with at-least-once processing.",
        "Connect workers work, with their three internal topics.",
        "`KafkaShareConsumer` and `transactional.id` end with an UnsupportedVersionException.",
    ),
    "sarama": (
        "`sarama.NewConfig()` and the addresses are enough; `Version` may be its newest.",
        "Idempotent producers need `Net.MaxOpenRequests = 1`, as sarama asks.",
        "All five codecs work.",
        "Classic groups work.",
        "It has no KIP-848 groups.",
        "A commit tells no failure: compare with the committed offsets if it matters.",
        "After the death of a coordinator it reads again what was not committed.",
        "Leaving a group fails if the coordinator died; the session then ends by time.",
        "`DeleteRecords` hands no low watermark over.",
        "Transactions end with UNSUPPORTED_VERSION.",
    ),
    "kafkajs": (
        "`brokers` names one or more brokers.",
        "The client is no longer developed. Its requests are old and are served.",
        "Idempotent producers work.",
        "It brings gzip only. Snappy, lz4 and zstd need other packages.",
        "Classic groups work.",
        "It has no KIP-848 groups.",
        "It cannot assign partitions by hand: every reader is a member of a group.",
        "`deleteTopicRecords` needs the topic's metadata from an earlier call.",
        "After the death of its coordinator a consumer looks for the new one when five tries have"
        " failed, and joins again when its former session has ended: 45 s as it comes. With"
        " `retry: { maxRetryTime: 2000 }`, `maxWaitTimeInMs: 500` and `sessionTimeout: 10000` it"
        " goes on after 20 s.",
        "A commit tells no failure while the consumer starts again: without the event"
        " `consumer.commit_offsets` it was not sent.",
        "Transactions end with UNSUPPORTED_VERSION.",
    ),
    "platformatic": (
        "`bootstrapBrokers` names one or more brokers. The package is `@platformatic/kafka`.",
        "It needs Node 22.22 or newer, which has zstd.",
        "All five codecs work without other packages.",
        "Idempotent producers work.",
        "After the death of its coordinator it may ask the dead one until that is back.",
        "It names the producer id 0 for each producer. Brokers give each a new id, as Kafka does.",
        "Classic groups and KIP-848 groups work.",
        "Its `retries` should cover the time of a failover, two seconds.",
        "The admin client creates, lists and deletes topics, and deletes records.",
        "Closing a stream while it reads may print further fetches.",
        "Transactions end with UNSUPPORTED_VERSION.",
    ),
}

MISSING: Final[tuple[tuple[str, str, str], ...]] = (
    ("feature", "request of the client", "what the client sees"),
    (
        "transactions",
        "FindCoordinator or InitProducerId with a transactional id",
        "error 35 (UNSUPPORTED_VERSION), and a line in the broker's log; librdkafka tries until"
        " the time given to `init_transactions` is over",
    ),
    (
        "idempotent producers that the leader has forgotten",
        "Produce after `producer.id.expiration.ms` (a day) without records for the partition, or"
        " after its topic was deleted and created with the same name",
        "error 19 (NOT_ENOUGH_REPLICAS) once, and the repeated batch is appended; every client"
        " repeats it by itself, unless its retries are turned off. Kafka appends it at once",
    ),
    ("follower reads", "Fetch with a rack", "every Fetch is answered by the leader"),
    ("TLS", "a TLS hello", "the connection ends, with a line in the broker's log"),
    ("SASL", "SaslHandshake", "error 34 (ILLEGAL_SASL_STATE)"),
    (
        "ACLs",
        "DescribeAcls, CreateAcls, DeleteAcls",
        "error 54 (SECURITY_DISABLED), as from a Kafka without authorizer",
    ),
    ("quotas", "DescribeClientQuotas", "the request is not advertised; the client says so"),
    ("telemetry", "GetTelemetrySubscriptions", "not advertised; the client goes on without"),
    ("share groups", "ShareGroupHeartbeat", "not advertised; the client ends with its error"),
    ("streams groups", "StreamsGroupHeartbeat", "not advertised; use the classic protocol"),
    ("quorum of controllers", "DescribeQuorum", "not advertised; the client says so"),
    (
        "moves between data directories",
        "AlterReplicaLogDirs",
        "not advertised; the client says so",
    ),
    ("fetch sessions", "Fetch with a session", "session id 0: each Fetch names its partitions"),
    (
        "change of a group's protocol with members",
        "JoinGroup, ConsumerGroupHeartbeat",
        "an error that names both protocols; an empty group changes by itself",
    ),
    (
        "internal topics in regular expressions",
        "ConsumerGroupHeartbeat with a regular expression",
        "only other topics match",
    ),
)
