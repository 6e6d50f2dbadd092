"""The servers' configuration: sources and their order, types, and what each refusal says."""

import dataclasses
from pathlib import Path

import pytest

from strandline_broker.config.addresses import HostPort, Listener, WireProtocol
from strandline_broker.config.keys import (
    BROKER_KEYS,
    CONTROLLER_KEYS,
    BrokerConfig,
    ControllerConfig,
)
from strandline_broker.config.loading import (
    ConfigError,
    load_broker_config,
    load_controller_config,
)
from strandline_broker.config.text import described, printed
from strandline_broker.core.topic_config import TOPIC_KEYS

BROKER = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,INTERNAL://127.0.0.1:9192",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9090",
    "log.dirs": "/data",
}
CONTROLLER = {"node.id": "100", "listeners": "CONTROLLER://127.0.0.1:9090", "log.dirs": "/data"}


def broker(**settings: str) -> BrokerConfig:
    return load_broker_config(None, BROKER | dotted(settings), {})


def controller(**settings: str) -> ControllerConfig:
    return load_controller_config(None, CONTROLLER | dotted(settings), {})


def dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def refusal(**settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        broker(**settings)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_defaults_are_those_that_the_documentation_promises() -> None:
    config = broker()
    assert config.replica_lag_time_max_ms == 30_000
    assert config.replica_fetch_max_bytes == 1 << 20
    assert config.message_max_bytes == (1 << 20) + 12
    assert config.log_segment_bytes == 1 << 30
    assert config.flush_policy == "replicated"
    assert config.replica_truncation == "leader-epoch"
    assert config.development_unsafe is False
    assert controller().broker_session_timeout_ms == 9000
    assert controller().min_insync_replicas == 2


def test_the_inter_broker_listener_is_the_first_one_of_grpc_unless_it_is_named() -> None:
    assert broker().inter_broker_listener == Listener("INTERNAL", "127.0.0.1", 9192)
    two = {"listeners": "A://127.0.0.1:1,B://127.0.0.1:2"}
    assert broker(**two).inter_broker_listener == Listener("A", "127.0.0.1", 1)
    named = broker(**two, inter_broker_listener_name="B")
    assert named.inter_broker_listener == Listener("B", "127.0.0.1", 2)


def test_a_listener_is_advertised_as_itself_unless_another_address_is_given() -> None:
    config = broker(advertised_listeners="PLAINTEXT://localhost:19092")
    assert config.advertised("PLAINTEXT") == Listener(
        "PLAINTEXT", "localhost", 19092, WireProtocol.KAFKA
    )
    assert config.advertised("INTERNAL") == Listener("INTERNAL", "127.0.0.1", 9192)


def test_an_address_of_ip_version_six_stands_in_brackets() -> None:
    config = broker(listeners="PLAINTEXT://[::1]:9092")
    assert config.listeners == (Listener("PLAINTEXT", "::1", 9092),)
    assert config.listeners[0].target == "[::1]:9092"


def test_set_is_stronger_than_the_environment_which_is_stronger_than_the_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(
        'node.id = 7\nlisteners = ["PLAINTEXT://127.0.0.1:1"]\n'
        'log.dirs = "/data"\ncontroller.quorum.bootstrap.servers = "127.0.0.1:9090"\n'
        "[replica]\nlag.time.max.ms = 777\nfetch.min.bytes = 2\nfetch.backoff.ms = 3\n"
    )
    environ = {
        "STRANDLINE_REPLICA_FETCH_MIN_BYTES": "20",
        "STRANDLINE_REPLICA_FETCH_BACKOFF_MS": "30",
        "STRANDLINE_BOOTSTRAP": "not a key",
        "STRANDLINE_DIR": "not a key",
        "PATH": "/bin",
    }
    config = load_broker_config(str(file), {"replica.fetch.backoff.ms": "300"}, environ)
    assert (config.node_id, config.listeners[0].port) == (7, 1)
    assert config.replica_lag_time_max_ms == 777
    assert config.replica_fetch_min_bytes == 20
    assert config.replica_fetch_backoff_ms == 300
    assert "replica.lag.time.max.ms" in config.explicit
    assert "replica.fetch.max.bytes" not in config.explicit


def test_an_environment_shared_by_both_servers_may_hold_keys_of_the_other() -> None:
    environ = {"STRANDLINE_NUM_PARTITIONS": "6", "STRANDLINE_FLUSH_POLICY": "always"}
    assert load_broker_config(None, BROKER, environ).flush_policy == "always"
    assert load_controller_config(None, CONTROLLER, environ).num_partitions == 6


def test_an_unknown_environment_variable_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="STRANDLINE_FLUSH_POLICI; did you mean STRANDLINE_FL"):
        load_broker_config(None, BROKER, {"STRANDLINE_FLUSH_POLICI": "always"})


def test_the_printed_configuration_reads_back_as_the_same(tmp_path: Path) -> None:
    config = broker(replica_truncation="high-watermark", development_unsafe="true")
    file = tmp_path / "printed.toml"
    file.write_text(printed(config))
    again = load_broker_config(str(file), {}, {})
    assert dataclasses.replace(again, explicit=config.explicit) == config


def test_every_key_has_documentation_and_a_default_that_parses() -> None:
    for key in (*BROKER_KEYS.values(), *CONTROLLER_KEYS.values()):
        assert key.doc.endswith("."), key.name
        if key.default:
            key.parse(key.default)
    assert [name for name, _, _ in described(broker())] == list(BROKER_KEYS)


@pytest.mark.parametrize("key", sorted(BROKER))
def test_a_missing_key_is_named_with_what_it_is_for(key: str) -> None:
    settings = {name: value for name, value in BROKER.items() if name != key}
    with pytest.raises(ConfigError) as caught:
        load_broker_config(None, settings, {})
    assert str(caught.value) == f"{key} is not set; a broker needs it: {BROKER_KEYS[key].doc}"


def test_an_empty_value_of_a_required_key_is_a_missing_one() -> None:
    assert refusal(log_dirs="").startswith("log.dirs is not set")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("node.id", "one", "invalid value 'one' for node.id (in --set): expected a whole number"),
        ("node.id", "-1", "from 0 to 2147483647"),
        ("log.segment.bytes", "1 GiB", "without a unit: write 1073741824"),
        ("replica.lag.time.max.ms", "10s", "without a unit: write 10000"),
        ("replica.lag.time.max.ms", "0", "from 1"),
        ("flush.policy", "never", "expected one of: replicated, always"),
        ("development.unsafe", "yes", "expected true or false"),
        ("listeners", "9092", "expected NAME://HOST:PORT, for instance PLAINTEXT://127.0.0.1:9092"),
        ("listeners", "PLAINTEXT://127.0.0.1", "expected NAME://HOST:PORT"),
        ("listeners", "PLAINTEXT://127.0.0.1:70000", "70000 is not a port"),
        (
            "advertised.listeners",
            "PLAINTEXT://broker..1:9092",
            "for advertised.listeners (in --set): host 'broker..1' has an empty part",
        ),
        ("advertised.listeners", f"PLAINTEXT://{'x' * 64}:1", "a part of 64 characters"),
        ("listeners", "PLAINTEXT://büro:1", "not ASCII: write it as xn--"),
        ("listeners", "PLAINTEXT://[1:2]:1", "is no IPv6 address"),
        ("controller.quorum.bootstrap.servers", ".a:1", "has an empty part"),
        ("listeners", "SSL://127.0.0.1:1", "encryption and authentication are not supported yet"),
        ("listeners", "sasl_ssl://h:1", "another name, PLAINTEXT for Kafka's protocol or GRPC for"),
        ("listeners", "A://h:1,A://h:2", "listeners names A twice"),
        ("listeners", ",", "expected NAME://HOST:PORT"),
        ("listeners", "A://0.0.0.0:1", "no client can reach; set advertised.listeners"),
        ("advertised.listeners", "OTHER://h:1", "names OTHER, but listeners has only PLAINTEXT"),
        ("inter.broker.listener.name", "X", "is X, but listeners has only PLAINTEXT, INTERNAL"),
        ("controller.quorum.bootstrap.servers", "localhost", "expected HOST:PORT"),
        ("controller.quorum.bootstrap.servers", "a:1,b:1", "several controllers are not supported"),
        ("log.dirs", "/a,/a/", "a directory is named twice"),
        (
            "log.retention.ms",
            "0",
            "expected -1 (no limit) or a whole number of milliseconds from 1",
        ),
        ("replica.lag.time.max.ms", "499", "replica.fetch.wait.max.ms=500 is above replica.lag"),
        (
            "log.cleaner.max.compaction.lag.ms",
            "9",
            "log.cleaner.min.compaction.lag.ms=10 is above log.cleaner.max.compaction.lag.ms=9",
        ),
        ("group.max.session.timeout.ms", "5999", "group.min.session.timeout.ms=6000 is above"),
        ("group.max.size", "0", "expected a whole number from 1"),
        (
            "group.initial.rebalance.delay.ms",
            "-1",
            "expected a whole number of milliseconds from 0",
        ),
        ("group.coordinator.rebalance.protocols", "consumer", "the only accepted value is classic"),
        ("log.cleaner.dedupe.buffer.size", "10", "expected a whole number of bytes from 1024"),
        ("log.cleaner.io.buffer.load.factor", "1", "expected a number above 0, at most 0.95"),
        ("log.cleaner.io.max.bytes.per.second", "0", "expected a number above 0"),
        ("log.cleaner.io.max.bytes.per.second", "fast", "expected a number above 0"),
        ("log.cleaner.enable", "yes", "expected true or false"),
        ("log.cleaner.threads", "2", "the only accepted value is 1"),
        ("log.format", "xml", "expected one of: console, json"),
        ("replica.truncation", "high-watermark", "it needs development.unsafe=true"),
    ],
)
def test_a_wrong_value_is_refused_naming_key_and_accepted_form(
    key: str, value: str, says: str
) -> None:
    message = refusal(**{"log.cleaner.min.compaction.lag.ms": "10", key: value})
    assert key in message
    assert says in message


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("log.cleaner.backof.ms", "1", "did you mean log.cleaner.backoff.ms?"),
        ("log.segment.byte", "1", "unknown configuration key 'log.segment.byte'; did you mean"),
        ("replica.fetch.max.wait.ms", "1", "did you mean replica.fetch.wait.max.ms?"),
        ("zzz", "1", "unknown configuration key 'zzz' (in --set)"),
        ("segment.ms", "1", "segment.ms is a key of topics; of brokers it is log.roll.ms"),
        ("broker.id", "1", "broker.id is not a key here; use node.id"),
        ("zookeeper.connect", "h:1", "use controller.quorum.bootstrap.servers"),
        ("log.retention.hours", "1", "log.retention.hours is not a key here; use log.retention.ms"),
        ("log.cleanup.policy", "keep", "expected delete, compact or compact,delete"),
        ("num.network.threads", "1", "num.network.threads is not supported yet"),
        ("ssl.keystore.location", "x", "not supported yet"),
        ("auto.create.topics.enable", "yes", "expected true or false"),
        ("eligible.leader.replicas.enable", "false", "the only accepted value is true"),
        ("unclean.leader.election.enable", "true", "is a key of the controller, not of a broker"),
        ("compression.type", "zstd", "the only accepted value is producer"),
        ("num.partitions", "3", "is a key of the controller, not of a broker; remove it"),
    ],
)
def test_a_key_that_a_broker_does_not_have_is_refused_with_the_reason(
    key: str, value: str, says: str
) -> None:
    assert says in refusal(**{key: value})


def test_a_key_that_states_what_is_so_anyway_is_accepted() -> None:
    broker(delete_topic_enable="true", eligible_leader_replicas_enable="true")
    controller(eligible_leader_replicas_enable="true")


def test_a_key_of_the_broker_is_refused_by_the_controller() -> None:
    with pytest.raises(ConfigError, match="is a key of a broker, not of the controller"):
        controller(flush_policy="always")


def test_a_file_that_cannot_be_read_or_parsed_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the configuration file .*No such file"):
        load_broker_config(str(tmp_path / "none.toml"), {}, {})
    file = tmp_path / "bad.toml"
    file.write_text("node.id = \n")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load_broker_config(str(file), {}, {})


def test_a_port_zero_listener_stands_for_any_free_port_but_a_peer_needs_a_real_one() -> None:
    assert broker(listeners="PLAINTEXT://127.0.0.1:0").listeners[0].port == 0
    assert "expected HOST:PORT" in refusal(controller_quorum_bootstrap_servers="127.0.0.1:0")
    assert str(HostPort("::1", 5)) == "[::1]:5"


def test_every_default_of_a_topic_key_may_be_altered_at_run_time() -> None:
    keys = BROKER_KEYS | CONTROLLER_KEYS
    assert all(keys[key.default_from].dynamic for key in TOPIC_KEYS.values())
    assert not keys["node.id"].dynamic
    assert not keys["log.dirs"].dynamic


def test_what_was_altered_at_run_time_takes_the_place_of_what_was_set() -> None:
    config = broker(log_segment_bytes="1000", log_roll_ms="7")
    altered = config.altered({"log.segment.bytes": "2000"})
    assert (altered.log_segment_bytes, altered.log_roll_ms) == (2000, 7)
    assert altered.explicit == config.explicit
    assert altered.topic_defaults.segment_bytes == 2000


def test_an_alteration_that_this_build_cannot_use_leaves_its_key_alone() -> None:
    config = broker(log_segment_bytes="1000")
    entries = {"log.segment.bytes": "huge", "node.id": "9", "not.a.key": "1"}
    assert config.altered(entries) == config


def test_a_default_is_shown_as_it_is_declared() -> None:
    for config in (broker(), controller()):
        for name, value, key in described(config):
            if key.default and name not in config.explicit:
                assert value == key.default, name
