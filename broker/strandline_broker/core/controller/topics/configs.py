"""Configuration altered at run time: of a topic, of one broker, of all brokers (KIP-339).

One resource is one atomic decision: all its entries are accepted, or none. If the minimum of
in-sync replicas of a partition changes with it, the same batch raises its partition epoch. The
leader then uses the new minimum from exactly the state from which the controller uses it (I-91,
P-77).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strandline_broker.core.config_values import shown, suggestion, within_length
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import (
    AnyRecord,
    BrokerConfigRecord,
    ConfigRecord,
    GroupConfigRecord,
    PartitionChangeRecord,
)
from strandline_broker.core.controller.log.state import (
    MIN_INSYNC_REPLICAS,
    UNCLEAN_ELECTION,
    ControllerState,
    Topic,
)
from strandline_broker.core.controller.partitions.isr import minimum_change
from strandline_broker.core.groups.group_config import check_group_configs, check_group_key
from strandline_broker.core.groups.group_ids import check_new_group_id
from strandline_broker.core.internal_topics import INTERNAL_TOPICS
from strandline_broker.core.topic_config import (
    TOPIC_KEYS,
    check_compaction_lags,
    check_topic_configs,
    check_topic_deletion,
    check_topic_key,
)
from strandline_proto.errors import (
    BrokerIdNotRegistered,
    InvalidConfig,
    InvalidRequest,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from strandline_proto.ids import BrokerId

TOPIC: Final = 2
BROKER: Final = 4
GROUP: Final = 32
"""Kafka's resource types."""
SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
"""Kafka's operations."""

CONFIGURED_GROUPS_MAX: Final = 10_000
_LISTS: Final = {"cleanup.policy": "delete", "log.cleanup.policy": "delete"}
"""Keys that are lists, with their defaults."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """A request for one key; a DELETE ignores `value`."""

    key: str
    operation: int
    value: str


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """The servers' keys, as far as an alteration needs them."""

    dynamic: Mapping[str, Callable[[str], Any]]
    """Parsers of the keys that can be altered at run time."""
    read_only: Mapping[str, str]
    """The other keys, with the server that has each, in words."""
    refusal: Callable[[str, str], str | None]
    """The reason why a Kafka key that is missing here is refused; None for a key that Kafka does
    not have.
    """

    is_not_yet: Callable[[str], bool] = lambda name: False
    """True for a key of Kafka's that is not supported yet."""

    def check(self, entries: Mapping[str, str], *, of_one: bool) -> None:
        """Raise InvalidConfig at the first entry that cannot be altered, for one broker or
        for all.
        """
        for name, value in entries.items():
            self.check_key(name, value)
            if of_one and name in (MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION):
                raise InvalidConfig(
                    f"{name} cannot be altered for one broker: the controller decides by it; alter "
                    "it for all brokers, or for a topic"
                )
            try:
                self.dynamic[name](within_length(value))
            except ValueError as error:
                raise InvalidConfig(f"invalid value {shown(value)} for {name}: {error}") from None
        check_compaction_lags(entries, prefix="log.cleaner.")

    def check_key(self, name: str, value: str = "") -> None:
        """Raise InvalidConfig for a key that cannot be altered."""
        if name in self.dynamic:
            return
        owner = self.read_only.get(name)
        if owner is not None:
            raise InvalidConfig(f"{name} needs a restart: set it in {owner}'s configuration")
        if name in TOPIC_KEYS:
            key = TOPIC_KEYS[name]
            raise InvalidConfig(f"{name} is a key of topics; of brokers it is {key.default_from}")
        hint = suggestion(name, (*self.dynamic, *self.read_only))
        why = self.refusal(name, value) or f"unknown broker configuration key {shown(name)}{hint}"
        raise InvalidConfig(why)

    def check_deletion(self, name: str) -> None:
        """Raise InvalidConfig for a key that cannot be deleted. One that is not supported yet has
        no value, so that its deletion changes nothing.
        """
        if not self.is_not_yet(name):
            self.check_key(name)


def decide_alter_configs(
    state: ControllerState,
    *,
    kind: int,
    name: str,
    alterations: Sequence[Alteration],
    keys: ServerKeys,
    validate_only: bool,
) -> Decision[None]:
    """Alter one resource: a topic by name, a broker by id, all brokers (name ""), or a consumer
    group by its id, even if it does not exist.

    Raises the error of an invalid request.
    """
    if kind == TOPIC:
        records = _alter_topic(state, name, alterations)
    elif kind == BROKER:
        records = _alter_brokers(state, name, alterations, keys)
    elif kind == GROUP:
        records = _alter_group(state, name, alterations)
    else:
        raise InvalidRequest(
            f"resource type {kind} is not known; use {TOPIC} (topic), {BROKER} (broker) or {GROUP} "
            "(group)"
        )
    return Decision(() if validate_only else records, answer=None)


def _alter_topic(
    state: ControllerState, name: str, alterations: Sequence[Alteration]
) -> list[AnyRecord]:
    topic_id = state.topic_ids.get(name)
    if topic_id is None:
        raise UnknownTopicOrPartition(f"no topic is called {shown(name)}")
    topic = state.topics[topic_id]
    defaults = {"cleanup.policy": state.dynamic_defaults.get("log.cleanup.policy")}
    after = _altered(topic.configs, alterations, defaults, check_topic_key, check_topic_deletion)
    check_topic_configs(after)
    if name in INTERNAL_TOPICS and after.get("cleanup.policy") != "compact":
        raise InvalidConfig(
            f"topic {name} is internal and always compacted: retention would forget its records"
        )
    records: list[AnyRecord] = [
        ConfigRecord(topic_id=topic_id, key=key, value=after.get(key))
        for key in _changed(topic.configs, after)
    ]
    default = state.min_insync_default
    minimum = after.get(MIN_INSYNC_REPLICAS, default)
    return [*records, *_new_minimum(state, [topic], minimum)]


def _alter_brokers(
    state: ControllerState, name: str, alterations: Sequence[Alteration], keys: ServerKeys
) -> list[AnyRecord]:
    cluster = state.dynamic_defaults
    if name == "":
        after = _altered(cluster, alterations, {}, keys.check_key, keys.check_deletion)
        keys.check(after, of_one=False)
        for own in state.broker_configs.values():
            check_compaction_lags({**after, **own}, prefix="log.cleaner.")
        records: list[AnyRecord] = [
            BrokerConfigRecord(key=key, value=after.get(key)) for key in _changed(cluster, after)
        ]
        static = state.defaults.get(MIN_INSYNC_REPLICAS, "1")
        plain = [t for t in state.topics.values() if MIN_INSYNC_REPLICAS not in t.configs]
        minimum = after.get(MIN_INSYNC_REPLICAS, static)
        return [*records, *_new_minimum(state, plain, minimum)]
    broker_id = _registered(state, name)
    own = state.broker_configs.get(broker_id, {})
    after = _altered(own, alterations, cluster, keys.check_key, keys.check_deletion)
    keys.check(after, of_one=True)
    check_compaction_lags({**cluster, **after}, prefix="log.cleaner.")
    return [
        BrokerConfigRecord(broker_id=broker_id, key=key, value=after.get(key))
        for key in _changed(own, after)
    ]


def _alter_group(
    state: ControllerState, name: str, alterations: Sequence[Alteration]
) -> list[AnyRecord]:
    """Alter a group. Brokers check that values are within their bounds before they ask."""
    check_new_group_id(name)
    own = state.group_configs.get(name, {})
    if not own and len(state.group_configs) >= CONFIGURED_GROUPS_MAX:
        raise PolicyViolation(
            f"{CONFIGURED_GROUPS_MAX} groups have a configuration of their own, as many as may: "
            "each broker keeps all of them; delete the keys of groups that are gone"
        )
    after = _altered(own, alterations, {}, check_group_key, check_group_key)
    check_group_configs(after)
    return [
        GroupConfigRecord(group_id=name, key=key, value=after.get(key))
        for key in _changed(own, after)
    ]


def _registered(state: ControllerState, name: str) -> BrokerId:
    if not name.isdecimal() or len(name) > 10 or BrokerId(int(name)) not in state.brokers:
        known = ", ".join(str(b) for b in sorted(state.brokers)) or "none"
        raise BrokerIdNotRegistered(f"no broker has the id {shown(name)}; registered are {known}")
    return BrokerId(int(name))


def _altered(
    before: Mapping[str, str],
    alterations: Sequence[Alteration],
    defaults: Mapping[str, str | None],
    check_key: Callable[[str], None],
    check_deletion: Callable[[str], None],
) -> dict[str, str]:
    """The entries of a resource after `alterations`, their values unchecked. `defaults` holds the
    initial values of lists that the resource does not set.
    """
    after = dict(before)
    named = set()
    for wish in alterations:
        if wish.key in named:
            raise InvalidRequest(f"{shown(wish.key)} is given twice: give it once")
        named.add(wish.key)
        if wish.operation == SET:
            after[wish.key] = wish.value.strip()
        elif wish.operation == DELETE:
            if after.pop(wish.key, None) is None:
                check_deletion(wish.key)  # otherwise a misspelt key would seem to succeed
        elif wish.operation in (APPEND, SUBTRACT):
            check_key(wish.key)
            default = defaults.get(wish.key) or _LISTS.get(wish.key)
            after[wish.key] = _edited(before.get(wish.key, default), wish)
        else:
            raise InvalidRequest(
                f"{wish.key}: operation {wish.operation} is not known; use {SET} (set), {DELETE} "
                f"(delete), {APPEND} (append) or {SUBTRACT} (subtract)"
            )
    return after


def _edited(before: str | None, wish: Alteration) -> str:
    if before is None or wish.key not in _LISTS:
        raise InvalidConfig(f"{wish.key} is not a list: it can only be set or deleted")
    items = [item.strip() for item in before.split(",")]
    given = [item.strip() for item in wish.value.split(",")]
    if wish.operation == APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[str]:
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]


def _new_minimum(
    state: ControllerState, topics: Iterable[Topic], minimum: str
) -> list[PartitionChangeRecord]:
    """A change of each partition whose minimum of in-sync replicas changes."""
    return [
        minimum_change(p)
        for topic in topics
        for p in topic.partitions.values()
        if state.effective_min_isr(topic, p) != p.least_in_sync(int(minimum))
    ]
