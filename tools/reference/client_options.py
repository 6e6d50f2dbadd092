"""What each option of the clients means, for docs/reference/client-api.md.

Names, types and defaults come from the constructors. An option without a meaning here, or a meaning
without an option, ends `make docs`.
"""

from inspect import signature
from typing import Final

from md_table import table
from strandline._net.option_names import names_of
from strandline._producer.partitioners import PARTITIONERS

COMMON: Final = {
    "bootstrap_servers": "Addresses of one or more brokers, as `host:port`; these name the others.",
    "request_timeout_ms": "Time limit of a call that has no limit of its own.",
    "connect_timeout_ms": "Time in which `start` tries the addresses again, until one answers.",
    "security_protocol": "Protocol of the connections; `PLAINTEXT` is the only one.",
    "client_id": "Name of the client in its own log lines and in those of brokers.",
    "runtime": "Clock, network and files of tests; None is the real machine.",
}

SHARED: Final = {
    "metadata_max_age_ms": "Age at which metadata is renewed; new partitions are known by then.",
    "max_decompressed_bytes": "Limit of the unpacked size of one compressed batch, at most 1 GiB.",
}

PRODUCER: Final = {
    "acks": "Replicas that must have a record before its acknowledgement: `all` in sync, the leader"
    " (1), or none (0).",
    "enable_idempotence": "Whether retries leave no duplicates and keep the order; None means yes"
    " with `acks='all'`.",
    "compression_type": "Codec of the batches: `gzip`, `snappy`, `lz4` or `zstd`; None leaves them"
    " as they are.",
    "linger_ms": "Time for which a batch waits for more records while another of its partition is"
    " under way.",
    "batch_size": "Limit of one batch, in bytes.",
    "max_in_flight": "Limit of unacknowledged batches of one partition; 5 at most if idempotent.",
    "delivery_timeout_ms": "Time after which a record fails without an acknowledgement, retries"
    " included.",
    "max_request_size": "Limit of one record, in bytes.",
    "buffer_memory": "Limit of all records under way, in bytes; a full buffer makes `send` wait.",
    "transactional_id": "Name under which all records are sent in transactions; another producer"
    " with it fences this one.",
    "transaction_timeout_ms": "Time after which the coordinator aborts an open transaction.",
    "partitioner": "Function of key and number of partitions, or a name: "
    f"{', '.join(f'`{name}`' for name in PARTITIONERS)}.",
    "interceptors": "See `ProducerInterceptor`; each gets the records from the one before it.",
    "key_serializer": "Format or function that makes bytes of keys; None takes bytes.",
    "value_serializer": "The same for values.",
}

CONSUMER: Final = {
    "auto_offset_reset": "Position where none is committed or valid: `earliest`, `latest`, or"
    " `error` for an exception.",
    "isolation_level": "`read_committed` hides records of open and aborted transactions;"
    " `read_uncommitted` shows all.",
    "require_stable": "Whether committed offsets wait for transactions that may change them.",
    "group_id": "Group that shares the partitions of `topics`; None reads all of them.",
    "group_instance_id": "Name of a static member: it keeps its partitions in a short absence.",
    "group_remote_assignor": "Assignor of the brokers: `uniform` or `range`; None leaves the choice"
    " to them.",
    "max_poll_interval_ms": "Longest time between two polls; after it the member leaves the group.",
    "enable_auto_commit": "Whether the client commits the records delivered before the last poll.",
    "auto_commit_interval_ms": "Time between two of these commits.",
    "fetch_max_wait_ms": "Time for which a leader waits for `fetch_min_bytes` before it answers.",
    "fetch_min_bytes": "Bytes that a leader waits for before it answers.",
    "fetch_max_bytes": "Limit of one answer, in bytes; 63 MiB at most.",
    "max_partition_fetch_bytes": "Limit of one partition's share of an answer, in bytes; 63 MiB at"
    " most.",
    "prefetch_max_bytes": "Limit of the records that are read ahead of the caller, in bytes.",
    "max_poll_records": "Limit of the records of one `getmany`; None: all that are there.",
    "check_crcs": "Whether each batch is checked against its checksum.",
    "interceptors": "See `ConsumerInterceptor`; each gets the records from the one before it.",
    "key_deserializer": "Format or function that makes keys of bytes; None gives bytes.",
    "value_deserializer": "The same for values.",
    "on_deserialization_error": "What follows if a record does not deserialize: `raise`, `skip` or"
    " `DeadLetters(topic)`.",
    "deserialization_timeout_ms": "Time after which one record counts as one that does not"
    " deserialize.",
}

MEANINGS: Final = {
    "Admin": COMMON,
    "Consumer": COMMON | SHARED | CONSUMER,
    "Producer": COMMON | SHARED | PRODUCER,
}


def options_table(client: str, kind: type) -> str:
    """The options of a client in the order of its constructor, with their meanings."""
    known = names_of(vars(kind)["__init__"])
    meanings = MEANINGS[client]
    if odd := known ^ meanings.keys():
        raise SystemExit(f"tools/reference/client_options.py and {client} differ in {sorted(odd)}")
    ordered = [name for name in signature(vars(kind)["__init__"]).parameters if name in known]
    return table(("option", "meaning"), [(f"`{name}`", meanings[name]) for name in ordered])
