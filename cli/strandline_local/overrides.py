"""`--config KEY=VALUE` of `up`, and `config` of a test's cluster.

Each server that knows the key gets the value. The values are checked before a file is written or a
process started. So a mistake is one line here and not the end of a server's log.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from strandline_local.errors import UsageMistake

if TYPE_CHECKING:
    from strandline_local.cluster_files import ClusterFile

DECIDED_BY_UP: Final = {
    "node.id": "-n",
    "listeners": "--port",
    "log.dirs": "--dir",
    "metrics.listeners": "--metrics-port, one port for each process",
    "controller.quorum.bootstrap.servers": "--port",
    "listener.security.protocol.map": "its listeners, PLAINTEXT for Kafka's protocol and GRPC for"
    " gRPC",
}


def parse_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """`key=value` arguments as a dict. Raises UsageMistake for anything else."""
    parsed: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if equals == "" or key == "":
            raise UsageMistake(f"{pair!r} is not KEY=VALUE, as in log.segment.bytes=1048576")
        if key in parsed:
            raise UsageMistake(f"{key} is given twice: give it once")
        parsed[key] = value
    return parsed


def split_overrides(pairs: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Overrides for the controller and for the brokers."""
    from strandline_broker.config.keys import BROKER_KEYS, CONTROLLER_KEYS

    controller: dict[str, str] = {}
    brokers: dict[str, str] = {}
    for key, value in parse_pairs(pairs).items():
        if key in DECIDED_BY_UP:
            raise UsageMistake(f"{key} is what `up` itself decides: use {DECIDED_BY_UP[key]}")
        if key in CONTROLLER_KEYS:
            controller[key] = value
        if key in BROKER_KEYS or key not in CONTROLLER_KEYS:
            # An unknown key goes to the brokers' check, which refuses it with a hint.
            brokers[key] = value
    return controller, brokers


def check_overrides(
    cluster: "ClusterFile",
    *,
    environ: Mapping[str, str] | None = None,
    said_by: str = "--config",
) -> None:
    """Refuse values that the processes would refuse at their start. Raises UsageMistake."""
    from pathlib import Path

    from strandline_broker.config.loading import (
        ConfigError,
        load_broker_config,
        load_controller_config,
    )
    from strandline_local.cluster_files import broker_keys, controller_keys

    variables = os.environ if environ is None else environ
    nowhere = Path()
    first = next(iter(cluster.broker_ports))
    try:
        keys = broker_keys(nowhere, cluster, first)
        load_broker_config(None, {k: str(v) for k, v in keys.items()}, variables)
        keys = controller_keys(nowhere, cluster)
        load_controller_config(None, {k: str(v) for k, v in keys.items()}, variables)
    except ConfigError as why:
        raise UsageMistake(str(why).replace("in --set", f"in {said_by}")) from None
