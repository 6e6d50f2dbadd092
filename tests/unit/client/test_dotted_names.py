"""A mapping with Kafka's dotted names makes a client; wrong names are refused by what is near."""

from __future__ import annotations

import re
from typing import Any

import pytest

from strandline import Admin, Consumer, Producer, sync
from strandline._net.dotted_names import options_of
from strandline._producer.partitioners import PARTITIONERS, partitioner_of
from strandline.errors import ConfigurationError, UnsupportedFeature
from strandline_proto.partitioner import partition_for

HOST = {"bootstrap.servers": "h:1"}
SYNC = [sync.Producer, sync.Consumer, sync.Admin]


@pytest.mark.parametrize(
    ("client", "config", "options"),
    [
        (Producer, {"linger.ms": "5"}, {"linger_ms": 5.0}),
        (Producer, {"linger.ms": 5}, {"linger_ms": 5}),
        (Producer, {"queue.buffering.max.ms": "0.5"}, {"linger_ms": 0.5}),
        (Producer, {"enable.idempotence": "True"}, {"enable_idempotence": True}),
        (Producer, {"acks": "1"}, {"acks": "1"}),
        (Producer, {"acks": -1}, {"acks": -1}),
        (
            Producer,
            {"max.in.flight": "5", "client.id": "c"},
            {"max_in_flight": 5, "client_id": "c"},
        ),
        (Producer, {"value.serializer": "json"}, {"value_serializer": "json"}),
        (
            Consumer,
            {"group.id": "g", "check.crcs": "false"},
            {"group_id": "g", "check_crcs": False},
        ),
        (Consumer, {"auto.offset.reset": "smallest"}, {"auto_offset_reset": "earliest"}),
        (Consumer, {"AUTO.OFFSET.RESET": "END"}, {"auto_offset_reset": "latest"}),
        (Consumer, {"max.poll.records": "7"}, {"max_poll_records": 7}),
        (Consumer, {"security.protocol": "plaintext"}, {"security_protocol": "plaintext"}),
        (Consumer, {"fetch.wait.max.ms": "7"}, {"fetch_max_wait_ms": 7}),
        (Admin, {"default.api.timeout.ms": "7"}, {"request_timeout_ms": 7.0}),
    ],
)
def test_names_and_texts_become_options(
    client: Any, config: dict[str, Any], options: dict[str, Any]
) -> None:
    assert options_of(client.__name__, client.__init__, HOST | config) == {
        "bootstrap_servers": "h:1",
        **options,
    }
    for each in (client, getattr(sync, client.__name__)):
        assert isinstance(each.from_config(HOST | config), each)


def test_the_topics_of_a_consumer_stand_beside_the_mapping() -> None:
    assert Consumer.from_config(HOST, "a", "b")._topics == ("a", "b")


@pytest.mark.parametrize(
    ("config", "kind", "why"),
    [
        (
            {"linger.mss": 5},
            ConfigurationError,
            r"no option linger\.mss=5; did you mean linger\.ms\?",
        ),
        ({"lingerms": 5}, ConfigurationError, r"did you mean linger_ms\?"),
        ({"queue.bufering.max.ms": 5}, ConfigurationError, r"did you mean linger\.ms\?"),
        (
            {"security.protocol": "SSL"},
            UnsupportedFeature,
            "security_protocol='SSL' is .*plaintext",
        ),
        ({"sasl.password": "hunter2"}, UnsupportedFeature, r"sasl\.password=\.\.\.:"),
        ({"linger.ms": "soon"}, ConfigurationError, "linger.ms='soon' is not of type float"),
        ({"batch.size": "1.5"}, ConfigurationError, "batch.size='1.5' is not of type int"),
        ({"enable.idempotence": "yes"}, ConfigurationError, "'yes' is not of type bool"),
        ({"linger.ms": -1}, ConfigurationError, "linger_ms=-1 is below 0"),
        ({"linger.ms": 1, "linger_ms": 2}, ConfigurationError, "names one option twice"),
        (
            {"linger.ms": 1, "queue.buffering.max.ms": 2},
            ConfigurationError,
            "twice: 'linger.ms' and 'queue.buffering.max.ms'",
        ),
        ({5: 6}, ConfigurationError, "5 is not the name of an option"),
    ],
)
def test_a_wrong_mapping_is_refused(config: Any, kind: type[Exception], why: str) -> None:
    with pytest.raises(kind, match=why):
        Producer.from_config(HOST | config)


def test_a_mapping_needs_an_address_and_must_be_one() -> None:
    with pytest.raises(ConfigurationError, match=r"lacks 'bootstrap\.servers'"):
        Producer.from_config({"linger.ms": 5})
    with pytest.raises(ConfigurationError, match="is not a mapping"):
        Producer.from_config("h:1")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="from_config"):
        Producer(HOST)


@pytest.mark.parametrize("wrong", ["", "a\nb", 7])
@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
def test_a_client_id_is_text(client: Any, wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="client_id"):
        client(bootstrap_servers="h:1", client_id=wrong)


@pytest.mark.parametrize("client", [Producer, Consumer, Admin, *SYNC])
def test_the_security_protocol_is_what_connections_speak(client: Any) -> None:
    for spoken in ("PLAINTEXT", "plaintext"):
        client(bootstrap_servers="h:1", security_protocol=spoken)
    for other in ("SSL", "SASL_PLAINTEXT", "sasl_ssl"):
        with pytest.raises(UnsupportedFeature, match=f"{other}' is not supported: .* TLS proxy"):
            client(bootstrap_servers="h:1", security_protocol=other)
    for wrong in ("PLAIN", "", None, 7):
        with pytest.raises(ConfigurationError, match=f"security_protocol={wrong!r} is not"):
            client(bootstrap_servers="h:1", security_protocol=wrong)
    with pytest.raises(ConfigurationError, match="did you mean security_protocol"):
        client(bootstrap_servers="h:1", security_protocl="PLAINTEXT")


def test_partitioners_have_names() -> None:
    assert partitioner_of("murmur2") is partitioner_of("Murmur2_Random") is partition_for
    # The values of librdkafka's rd_kafka_msg_partitioner_consistent_random (CRC-32 of the key).
    by_crc32 = PARTITIONERS["consistent_random"]
    assert [by_crc32(key, 1000) for key in (b"a", b"key-1", b"123456789")] == [
        0xE8B7BE43 % 1000,
        by_crc32(b"key-1", 1000),
        0xCBF43926 % 1000,
    ]
    own = partitioner_of(lambda key, count: 0)
    assert own(b"k", 5) == 0
    for wrong in ("fnv1a", 5, None):
        with pytest.raises(ConfigurationError, match=r"neither a function .* murmur2, "):
            Producer("h:1", partitioner=wrong)  # type: ignore[arg-type]


def test_the_table_of_names_lists_calls_that_exist() -> None:
    from reference.client_names import CALLS

    ours = " ".join(row[0] for row in CALLS)
    named = re.findall(r"(producer|consumer|admin)\.(\w+)", ours)
    assert len(named) > 20
    clients: dict[str, Any] = {"producer": Producer, "consumer": Consumer, "admin": Admin}
    assert [name for client, name in named if not hasattr(clients[client], name)] == []
