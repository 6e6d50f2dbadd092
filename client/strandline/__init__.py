"""Strandline's client library: `Producer`, `Consumer` and `Admin`, asynchronous; the same,
blocking, in `strandline.sync`.

Names are imported when they are first used, so that `import strandline` costs nothing.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

# gRPC's handlers of fork() crash a child now and then while calls are under way, even a child that
# never touches gRPC. gRPC looks when it is imported, which is why this stands here.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

if TYPE_CHECKING:
    from strandline._groups.rebalance_listener import ConsumerRebalanceListener
    from strandline.admin import Admin
    from strandline.consumer import Consumer
    from strandline.errors import DeliveryError, StrandlineError
    from strandline.group_types import ConsumerGroupMetadata, OffsetAndMetadata
    from strandline.producer import Producer
    from strandline.types import (
        AlterConfigOpType,
        ConfigChange,
        ConfigSource,
        ConsumerRecord,
        ElectionType,
        NewPartitions,
        NewTopic,
        OffsetAndTimestamp,
        OffsetRange,
        Record,
        RecordMetadata,
        SendManyResult,
        TopicPartition,
    )

_HOMES = {
    "Admin": "admin",
    "AlterConfigOpType": "types",
    "ConfigChange": "types",
    "ConfigSource": "types",
    "Consumer": "consumer",
    "ConsumerGroupMetadata": "group_types",
    "ConsumerRebalanceListener": "_groups.rebalance_listener",
    "ConsumerRecord": "types",
    "DeliveryError": "errors",
    "ElectionType": "types",
    "NewPartitions": "types",
    "NewTopic": "types",
    "OffsetAndMetadata": "group_types",
    "OffsetAndTimestamp": "types",
    "OffsetRange": "types",
    "Producer": "producer",
    "Record": "types",
    "RecordMetadata": "types",
    "SendManyResult": "types",
    "StrandlineError": "errors",
    "TopicPartition": "types",
}

__all__ = [
    "Admin",
    "AlterConfigOpType",
    "ConfigChange",
    "ConfigSource",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "DeliveryError",
    "ElectionType",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetRange",
    "Producer",
    "Record",
    "RecordMetadata",
    "SendManyResult",
    "StrandlineError",
    "TopicPartition",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
