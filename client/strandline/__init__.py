"""Strandline's client library: asynchronous `Producer`, `Consumer` and `Admin`.

`strandline.sync` has the same classes in blocking form. A name is imported at its first use, so
that `import strandline` is fast.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

# gRPC's handlers of fork() can crash a child while calls are under way, even a child that never
# uses gRPC. gRPC reads this variable when it is imported, so it is set here.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

if TYPE_CHECKING:
    from strandline._groups.rebalance_listener import ConsumerRebalanceListener
    from strandline.admin import Admin
    from strandline.consumer import Consumer
    from strandline.errors import DeliveryError, StrandlineError
    from strandline.exactly_once import ConsumeTransformProduce, TransactionalBatch
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

    __version__: str
    """Version of the installed library, such as 0.1.0."""

_HOMES = {
    "Admin": "admin",
    "AlterConfigOpType": "types",
    "ConfigChange": "types",
    "ConfigSource": "types",
    "ConsumeTransformProduce": "exactly_once",
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
    "TransactionalBatch": "exactly_once",
}

__all__ = [
    "Admin",
    "AlterConfigOpType",
    "ConfigChange",
    "ConfigSource",
    "ConsumeTransformProduce",
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
    "TransactionalBatch",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from strandline_runtime.build_id import build_id, version_of

        globals()[name] = version_of(build_id())
        return globals()[name]
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
