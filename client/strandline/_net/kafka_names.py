"""The option names of Kafka, aiokafka and librdkafka, beside the names of this library.

A name is written as a keyword here: `linger.ms` and `linger_ms` are one name. A name that all
libraries share with this one is not listed.
"""

from __future__ import annotations

from typing import Final

RENAMED: Final[dict[str, str]] = {
    "compression_codec": "compression_type",
    "default_api_timeout_ms": "request_timeout_ms",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "max_batch_size": "batch_size",
    "max_in_flight_requests_per_connection": "max_in_flight",
    "message_max_bytes": "max_request_size",
    "message_timeout_ms": "delivery_timeout_ms",
    "metadata_broker_list": "bootstrap_servers",
    "partitioner_class": "partitioner",
    "queue_buffering_max_ms": "linger_ms",
    "rebalance_timeout_ms": "max_poll_interval_ms",
    "request_required_acks": "acks",
    "socket_connection_setup_timeout_ms": "connect_timeout_ms",
    "socket_timeout_ms": "request_timeout_ms",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
}
"""Another library's name, and the option here with the same meaning and unit."""

PLAINTEXT: Final = (
    "connections are plaintext; leave it out, and keep the cluster in a private network or behind a"
    " TLS proxy"
)
_RETRIES = "sends are retried until delivery_timeout_ms"
_PAUSES = "the client chooses its pauses between tries, of 20 ms to 1 s"
_LOOP = "leave it out: a client belongs to the event loop in which it is started"
_CALLBACKS = "call metrics(), or read the log of the logger 'strandline'"
_CLASSIC = "belongs to the classic group protocol; "

UNSUPPORTED: Final[dict[str, str]] = {
    # Security.
    "enable_ssl_certificate_verification": PLAINTEXT,
    "oauth_cb": PLAINTEXT,
    "sasl_": PLAINTEXT,
    "ssl_": PLAINTEXT,
    # The classic group protocol.
    "group_protocol": "leave it out: members use the protocol of KIP-848 ('consumer')",
    "heartbeat_interval_ms": (
        f"{_CLASSIC}set consumer.heartbeat.interval.ms of the group "
        "(strandline config alter group GROUP ...)"
    ),
    "partition_assignment_strategy": (
        f"{_CLASSIC}brokers assign partitions: choose one of their group.consumer.assignors with "
        "group_remote_assignor"
    ),
    "session_timeout_ms": (
        f"{_CLASSIC}set consumer.session.timeout.ms of the group "
        "(strandline config alter group GROUP ...)"
    ),
    # Options that another option or a call replaces.
    "allow_auto_create_topics": "create the topic with Admin.create_topics",
    "batch_num_messages": "batch_size bounds a batch, in bytes",
    "consumer_timeout_ms": "use getmany(timeout_ms=...)",
    "dr_cb": "give send(..., on_delivery=...)",
    "dr_msg_cb": "give send(..., on_delivery=...)",
    "enable_auto_offset_store": (
        "a poll marks the records before it as processed; use enable_auto_commit=False and commit()"
    ),
    "error_cb": _CALLBACKS,
    "exclude_internal_topics": "subscribe to an internal topic by its name",
    "logger": "configure the logger 'strandline' of the module logging",
    "max_block_ms": "send waits for room until delivery_timeout_ms",
    "message_send_max_retries": _RETRIES,
    "on_commit": "await commit(), or read the future of commit_async()",
    "on_delivery": "give send(..., on_delivery=...)",
    "queue_buffering_max_kbytes": "set buffer_memory, in bytes",
    "queue_buffering_max_messages": "buffer_memory bounds the records under way, in bytes",
    "queued_max_messages_kbytes": "set prefetch_max_bytes, in bytes",
    "queued_min_messages": "prefetch_max_bytes bounds the records read ahead, in bytes",
    "retries": _RETRIES,
    "statistics_interval_ms": "call metrics()",
    "stats_cb": "call metrics()",
    # Matters that the client decides.
    "api_version": "leave it out: the client speaks the protocol of its brokers",
    "client_dns_lookup": "leave it out: the client tries every address of a name",
    "client_rack": "leave it out: records are read from the partition's leader",
    "connections_max_idle_ms": "connections stay open until stop()",
    "debug": "set the level of the logger 'strandline' to DEBUG",
    "loop": _LOOP,
    "reconnect_backoff_max_ms": _PAUSES,
    "reconnect_backoff_ms": _PAUSES,
    "retry_backoff_max_ms": _PAUSES,
    "retry_backoff_ms": _PAUSES,
}
"""Options that other libraries have and this one does not, each with the remedy.

A name that ends with `_` stands for every name that it begins.
"""


def remedy_of(name: str) -> str | None:
    """Returns the remedy for an unsupported option; None if the name is not known."""
    found = UNSUPPORTED.get(name)
    if found is None:
        prefixes = [each for each in UNSUPPORTED if each.endswith("_")]
        found = next((UNSUPPORTED[each] for each in prefixes if name.startswith(each)), None)
    return found


def is_secret(name: str) -> bool:
    """True if an error may not show the option's value."""
    return any(part in name for part in ("password", "secret", "token", "oauth", "jaas", "ssl_key"))
