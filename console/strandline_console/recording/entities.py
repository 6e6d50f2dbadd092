"""Entities as plain JSON objects: their fields by default, their keys, patches onto them.

The types are in `messages.py`. Entities change up to ten thousand times a second, so they are
dicts and not instances.
"""

from dataclasses import MISSING, fields
from typing import Any, Final

from strandline_console.messages import Fault, Group, Partition, Replica, Server, Workload
from strandline_console.pipelines import Pipeline

Entity = dict[str, Any]
Maps = dict[str, dict[str, Entity]]
"""The maps of a state: name, key, entity."""

_TYPES: Final = {
    "servers": Server,
    "partitions": Partition,
    "replicas": Replica,
    "groups": Group,
    "faults": Fault,
    "pipelines": Pipeline,
    "workload": Workload,
}
MAPS: Final = tuple(_TYPES)
WORKLOAD: Final = ""
"""The key of the one entity of the map `workload`."""


def _defaults(kind: type) -> Entity:
    found: Entity = {}
    for field in fields(kind):
        assert field.default_factory is MISSING, field.name  # two entities would share it
        found[field.name] = None if field.default is MISSING else field.default
    return found


_DEFAULTS: Final = {name: _defaults(kind) for name, kind in _TYPES.items()}


def new_maps() -> Maps:
    """The maps of a state in which nothing is known."""
    return {name: {} for name in MAPS}


def new_entity(map_name: str, known: Entity) -> Entity:
    """A new entity with all of its fields."""
    return {**_DEFAULTS[map_name], **known}


def partition_key(topic: str, partition: int) -> str:
    """A partition's key, and its name in every sentence: `orders:0`."""
    return f"{topic}:{partition}"


def replica_key(topic: str, partition: int, broker: int) -> str:
    return f"{partition_key(topic, partition)}@{broker}"


def partition_of_replica(key: str) -> str:
    """The partition's key within a replica's key. A topic's name holds no `@`."""
    return key.rpartition("@")[0]


def topic_and_number(key: str) -> tuple[str, int]:
    """The two parts of a partition's key. A topic's name holds no colon."""
    topic, _, number = key.rpartition(":")
    return topic, int(number)


def order_on_board(key: str) -> tuple[bool, str, int]:
    """The place of a partition on the board: by topic, then by number; internal topics last."""
    topic, number = topic_and_number(key)
    return topic.startswith("__"), topic, number


def apply(maps: Maps, changed: Maps, removed: dict[str, list[str]]) -> None:
    """Apply the changes of one frame. Removals come first: an entity may leave and come back."""
    for name, keys in removed.items():
        of_map = maps[name]
        for key in keys:
            of_map.pop(key, None)
    for name, patches in changed.items():
        of_map = maps[name]
        for key, patch in patches.items():
            known = of_map.get(key)
            if known is None:
                of_map[key] = new_entity(name, patch)
            else:
                known.update(patch)
