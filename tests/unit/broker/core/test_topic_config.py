"""Topic keys: accepted, resolved over the broker's defaults, or refused with the reason."""

import pytest

from strandline_broker.core.topic_config import (
    MESSAGE_BYTES_LIMIT,
    TOPIC_KEYS,
    TopicConfig,
    check_topic_configs,
)
from strandline_proto.errors import InvalidConfig


def refusal(**entries: str) -> str:
    with pytest.raises(InvalidConfig) as caught:
        check_topic_configs({name.replace("_", "."): value for name, value in entries.items()})
    return str(caught.value)


def test_a_topic_entry_overrides_the_broker_default_and_the_others_stay() -> None:
    defaults = TopicConfig(segment_bytes=1000, index_interval_bytes=50)
    config = defaults.with_entries({"segment.bytes": "2000", "max.message.bytes": "77"})
    assert config == TopicConfig(segment_bytes=2000, index_interval_bytes=50, max_message_bytes=77)


def test_an_entry_that_only_states_what_is_so_changes_nothing() -> None:
    entries = {"compression.type": "producer", "message.timestamp.type": "CreateTime"}
    check_topic_configs(entries)
    assert TopicConfig().with_entries(entries) == TopicConfig()


def test_every_accepted_key_is_a_field_of_the_resolved_configuration() -> None:
    for name in TOPIC_KEYS:
        assert hasattr(TopicConfig(), name.replace(".", "_")), name


def test_a_known_key_whose_feature_is_missing_is_refused_as_not_supported_yet() -> None:
    for name in ("local.retention.ms", "local.retention.bytes", "remote.log.copy"):
        assert refusal(**{name: "1"}) == f"{name} is not supported yet"


def test_another_value_of_a_one_value_key_names_the_accepted_one() -> None:
    message = refusal(compression_type="gzip")
    assert message == (
        "compression.type=gzip is not supported yet; the only accepted value is producer"
    )
    assert "the only accepted value is false" in refusal(preallocate="true")


def test_an_unknown_key_is_refused_with_the_key_that_it_looks_like() -> None:
    assert refusal(segment_byte="1") == (
        "unknown topic configuration key 'segment.byte'; did you mean segment.bytes?"
    )
    assert refusal(zzz="1") == "unknown topic configuration key 'zzz'"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("segment.bytes", "10MB", "without a unit: write 10485760"),
        ("segment.bytes", "1.5", "expected a whole number of bytes from 14"),
        ("segment.bytes", "13", "from 14 to 2147483647"),
        ("segment.bytes", "2147483648", "from 14 to 2147483647"),
        ("min.insync.replicas", "0", "a whole number from 1"),
        ("max.message.bytes", str(MESSAGE_BYTES_LIMIT + 1), f"to {MESSAGE_BYTES_LIMIT}"),
        ("index.interval.bytes", "-1", "from 0"),
        ("segment.index.bytes", "", "expected a whole number"),
    ],
)
def test_a_wrong_value_is_refused_naming_key_value_and_accepted_form(
    key: str, value: str, says: str
) -> None:
    message = refusal(**{key: value})
    assert message.startswith(f"invalid value {value!r} for {key}: ")
    assert says in message


def test_the_bounds_themselves_are_accepted() -> None:
    check_topic_configs({"segment.bytes": "14", "max.message.bytes": str(MESSAGE_BYTES_LIMIT)})
