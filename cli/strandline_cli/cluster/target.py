"""The choice of the cluster: flags first, then the environment, then ./.strandline."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from strandline_cli.cluster.local_cluster import LocalCluster
from strandline_cli.errors import UsageMistake
from strandline_cli.options import DEFAULT_DIR


@dataclass(frozen=True, slots=True)
class Target:
    """Addresses of the cluster, and its local directory if it was found by one."""

    bootstrap: str
    local: LocalCluster | None

    @property
    def addresses(self) -> list[str]:
        return self.bootstrap.split(",")


def find_target(
    *,
    bootstrap: str | None,
    directory: Path | None,
    environ: Mapping[str, str] = os.environ,
) -> Target:
    """The cluster that a command addresses. Raises CliError if none is given."""
    if bootstrap is not None and directory is not None:
        raise UsageMistake("--bootstrap and --dir both name a cluster: give one of them")
    if bootstrap is None and directory is None:
        bootstrap = environ.get("STRANDLINE_BOOTSTRAP") or None
    if bootstrap is not None:
        return Target(bootstrap=check_addresses(bootstrap), local=None)
    local = LocalCluster.open(cluster_directory(directory, environ))
    return Target(bootstrap=local.bootstrap, local=local)


def cluster_directory(directory: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The cluster's directory: the flag's, STRANDLINE_DIR, or ./.strandline."""
    if directory is not None:
        return directory
    named = environ.get("STRANDLINE_DIR")
    return DEFAULT_DIR if named is None or named == "" else Path(named)


def check_addresses(text: str) -> str:
    """`host:port,host:port` without blanks. Raises UsageMistake for anything else."""
    addresses = [part.strip() for part in text.split(",") if part.strip()]
    if not addresses:
        raise UsageMistake(f"{text!r} names no address: use host:port,host:port")
    for address in addresses:
        host, colon, port = address.rpartition(":")
        if colon == "" or host == "" or not port.isdecimal() or not 0 < int(port) <= 65_535:
            raise UsageMistake(
                f"{address!r} is not an address: use host:port, as in 127.0.0.1:9092"
            )
    return ",".join(addresses)
