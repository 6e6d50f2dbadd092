"""docs/reference/client-names.md: the names of other client libraries, and ours."""

from typing import Final

from md_table import table
from reference.words import GENERATED
from strandline._net.kafka_names import PLAINTEXT, RENAMED, UNSUPPORTED

HEAD = f"""\
# Names in other client libraries

{GENERATED}
A program that used aiokafka or confluent-kafka finds here what its names are called in
`strandline`. `from_config` of each client takes the dotted names of a Kafka configuration, such as
`linger.ms`. An empty cell: the library has no such name.
"""

CALLS: Final = [
    ("`interceptors=[...]`", "", ""),
    # strandline, aiokafka, confluent-kafka
    (
        "`Producer`, `Consumer`, `Admin`",
        "`AIOKafkaProducer`, `AIOKafkaConsumer`, `AIOKafkaAdminClient`",
        "`Producer`, `Consumer`, `AdminClient`",
    ),
    ("`strandline.sync.Producer`", "", "`Producer`"),
    ("`Producer.from_config({...})`", "", "`Producer({...})`"),
    (
        "`producer.send(topic, value, key)`",
        "`send(topic, value, key)`",
        "`produce(topic, value, key)`",
    ),
    (
        "`producer.send(..., on_delivery=f)`",
        "`(await send(...)).add_done_callback(f)`",
        "`produce(..., on_delivery=f)`",
    ),
    ("`producer.send_and_wait(...)`", "`send_and_wait(...)`", "`produce(...)`, then `flush()`"),
    ("`producer.send_many(topic, records)`", "`create_batch()`, `send_batch(...)`", ""),
    ("`producer.flush(timeout_ms)`", "`flush()`", "`flush(timeout)`"),
    ("`producer.stop(timeout_ms)`", "`stop()`", "`flush(timeout)`"),
    ("`producer.partitions_for(topic)`", "`partitions_for(topic)`", "`list_topics(topic)`"),
    ("`producer.start()`, with a `transactional_id`", "`start()`", "`init_transactions()`"),
    ("`producer.transaction()`", "`transaction()`", ""),
    ("`producer.begin_transaction()`", "the same", "the same"),
    (
        "`producer.commit_transaction()`, `abort_transaction()`",
        "the same",
        "the same, with a `timeout`",
    ),
    (
        "`producer.send_offsets_to_transaction(offsets, consumer.group_metadata())`",
        "`send_offsets_to_transaction(offsets, group_id)`",
        "`send_offsets_to_transaction(offsets, consumer_group_metadata())`",
    ),
    ("`ConsumeTransformProduce(consumer, producer)`", "", ""),
    ("`producer.metrics()`, `consumer.metrics()`", "", "`stats_cb`"),
    ("`value_serializer=Json(Order)`", "`value_serializer=f`", "`SerializingProducer`"),
    ("`value_deserializer=Json(Order)`", "`value_deserializer=f`", "`DeserializingConsumer`"),
    (
        '`partitioner=f`, `partitioner="consistent_random"`',
        "`partitioner=f`",
        '`partitioner="consistent_random"` (its default)',
    ),
    (
        "`consumer.subscribe(topics, listener=l)`",
        "`subscribe(topics, listener=l)`",
        "`subscribe(topics, on_assign=f, on_revoke=g)`",
    ),
    ("`consumer.getone()`, `async for`", "`getone()`, `async for`", "`poll(timeout)`"),
    (
        "`consumer.getmany(timeout_ms=..., max_records=...)`",
        "`getmany(timeout_ms=..., max_records=...)`",
        "`consume(num_messages, timeout)`",
    ),
    (
        "`consumer.commit(offsets)`",
        "`commit(offsets)`",
        "`commit(offsets=..., asynchronous=False)`",
    ),
    ("`consumer.commit_async(offsets)`", "", "`commit(offsets=...)`"),
    ("`consumer.committed(partition)`", "`committed(partition)`", "`committed(partitions)`"),
    ("`consumer.position(partition)`", "`position(partition)`", "`position(partitions)`"),
    ("`consumer.seek(partition, offset)`", "`seek(partition, offset)`", "`seek(partition)`"),
    (
        "`consumer.seek_to_time(time, ...)`",
        "`offsets_for_times(...)`, then `seek(...)`",
        "`offsets_for_times(...)`, then `seek(...)`",
    ),
    (
        "`consumer.lag(...)`",
        "`highwater(...)` less `position(...)`",
        "`get_watermark_offsets(...)` less `position(...)`",
    ),
    (
        "`consumer.highwater(partition)`",
        "`highwater(partition)`",
        "`get_watermark_offsets(partition, cached=True)`",
    ),
    ("`consumer.last_stable_offset(partition)`", "`last_stable_offset(partition)`", ""),
    ("`consumer.topics()`", "`topics()`", "`list_topics()`"),
    (
        "`consumer.partitions_for(topic)`, `partitions_for_topic`",
        "`partitions_for_topic(topic)`",
        "`list_topics(topic)`",
    ),
    ("`consumer.assign`, `assignment`, `pause`, `resume`, `unsubscribe`", "the same", "the same"),
    ("`consumer.group_metadata()`", "", "`consumer_group_metadata()`"),
    ("`consumer.stop(timeout_ms)`", "`stop()`", "`close()`"),
    (
        "`admin.create_topics`, `delete_topics`, `create_partitions`, `describe_configs`",
        "the same",
        "the same, one future for each resource",
    ),
    ("`admin.within(timeout_ms).list_topics()`", "`list_topics()`", "`list_topics(timeout=...)`"),
]


def client_names() -> str:
    options = [
        (f"`{ours}`", f"`{theirs}`, `{theirs.replace('_', '.')}`")
        for theirs, ours in sorted(RENAMED.items(), key=lambda pair: (pair[1], pair[0]))
    ]
    refused = [
        (f"`{name}...`" if name.endswith("_") else f"`{name}`", _opening(remedy))
        for name, remedy in sorted(UNSUPPORTED.items())
    ]
    refused.append(("`security_protocol`, unless it is `PLAINTEXT`", _opening(PLAINTEXT)))
    refused.sort()
    return "\n".join(
        [
            HEAD,
            "## Classes and calls\n",
            table(("strandline", "aiokafka", "confluent-kafka"), CALLS),
            "## Options with another name\n",
            "Every other option has Kafka's name: `linger_ms` is `linger.ms`.\n",
            table(("strandline", "other libraries"), options),
            "## Options that are refused\n",
            table(("other libraries", "remedy"), refused),
        ]
    )


def _opening(remedy: str) -> str:
    """The remedy with a capital letter, unless it begins with the name of an option."""
    named = "_" in remedy.partition(" ")[0]
    return remedy if named else f"{remedy[0].upper()}{remedy[1:]}"
