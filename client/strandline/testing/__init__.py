"""A real cluster in a test: `LocalCluster`, and the pytest plugin with its fixtures.

Needs the extra `testing`: pip install 'strandline[testing]'. A name is imported at its first use:
pytest imports this package in every run.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from strandline_runtime.extras import what_is_missing

if TYPE_CHECKING:
    from strandline.testing.aio import AsyncCluster
    from strandline.testing.chaos import AsyncChaos, Chaos
    from strandline.testing.clients import ConsumerFactory, ProducerFactory
    from strandline.testing.cluster import Cluster, ExternalCluster, RunningCluster
    from strandline.testing.ledger import RecordsLost
    from strandline.testing.local_cluster import LocalCluster
    from strandline_local.errors import ClusterError

_HOMES = {
    "AsyncChaos": "strandline.testing.chaos",
    "AsyncCluster": "strandline.testing.aio",
    "Chaos": "strandline.testing.chaos",
    "Cluster": "strandline.testing.cluster",
    "ClusterError": "strandline_local.errors",
    "ConsumerFactory": "strandline.testing.clients",
    "ExternalCluster": "strandline.testing.cluster",
    "LocalCluster": "strandline.testing.local_cluster",
    "ProducerFactory": "strandline.testing.clients",
    "RecordsLost": "strandline.testing.ledger",
    "RunningCluster": "strandline.testing.cluster",
}

__all__ = [
    "AsyncChaos",
    "AsyncCluster",
    "Chaos",
    "Cluster",
    "ClusterError",
    "ConsumerFactory",
    "ExternalCluster",
    "LocalCluster",
    "ProducerFactory",
    "RecordsLost",
    "RunningCluster",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if missing := what_is_missing("testing"):
        raise ImportError(f"strandline.testing.{name} needs more packages: {missing}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
