"""The cluster that a command addresses."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from strandline_cli.errors import UsageMistake
from strandline_local.contexts import DEFAULT_DIR, choose
from strandline_local.local_cluster import LocalCluster


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
    """The cluster that a command addresses. Raises ClusterError if none is given."""
    choice = choose(bootstrap, directory, environ)
    if choice.bootstrap is not None:
        return Target(bootstrap=check_addresses(choice.bootstrap), local=None)
    assert choice.directory is not None
    local = LocalCluster.open(choice.directory)
    return Target(bootstrap=local.bootstrap, local=local)


def cluster_directory(
    directory: Path | None, environ: Mapping[str, str] = os.environ, *, may_be_new: bool = False
) -> Path:
    """The cluster's directory: the flag's, a context's, STRANDLINE_DIR, or ./.strandline.

    A cluster that may be new is made where it is named, not in the directory of the context in use.
    """
    around = {name: value for name, value in environ.items() if name != "STRANDLINE_BOOTSTRAP"}
    choice = choose(None, directory, around)
    if choice.is_in_use and (may_be_new or choice.directory is None):
        return DEFAULT_DIR
    if choice.directory is None:
        raise UsageMistake(
            f"{choice.why} names addresses, and this command works in the directory of a local"
            " cluster: give --dir DIR"
        )
    return choice.directory


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
