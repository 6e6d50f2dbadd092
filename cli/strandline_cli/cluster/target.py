"""The choice of the cluster: flags first, then the environment, then ./.strandline, then the
context in use.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from strandline_cli.cluster.contexts import load_contexts
from strandline_cli.errors import UsageMistake
from strandline_cli.options import CONTEXT_VARIABLE, DEFAULT_DIR
from strandline_local.local_cluster import LocalCluster


@dataclass(frozen=True, slots=True)
class Target:
    """Addresses of the cluster, and its local directory if it was found by one."""

    bootstrap: str
    local: LocalCluster | None

    @property
    def addresses(self) -> list[str]:
        return self.bootstrap.split(",")


@dataclass(frozen=True, slots=True)
class Choice:
    """The addresses or the directory that a command uses, and the reason."""

    bootstrap: str | None
    directory: Path | None
    why: str


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


def choose(
    bootstrap: str | None, directory: Path | None, environ: Mapping[str, str] = os.environ
) -> Choice:
    """The choice by flags, environment, ./.strandline and context, in this order."""
    if bootstrap is not None and directory is not None:
        raise UsageMistake("--bootstrap and --dir both name a cluster: give one of them")
    if bootstrap is not None:
        return Choice(bootstrap, None, "--bootstrap")
    if directory is not None:
        return Choice(None, directory, "--dir")
    if name := environ.get(CONTEXT_VARIABLE):
        return _of_context(name, f"context {name}", environ)
    if named := environ.get("STRANDLINE_BOOTSTRAP"):
        return Choice(named, None, "STRANDLINE_BOOTSTRAP")
    if named := environ.get("STRANDLINE_DIR"):
        return Choice(None, Path(named), "STRANDLINE_DIR")
    if not DEFAULT_DIR.exists() and (current := load_contexts(environ).current) is not None:
        return _of_context(current, f"context {current}, which is in use", environ)
    return Choice(None, DEFAULT_DIR, f"./{DEFAULT_DIR}")


def _of_context(name: str, why: str, environ: Mapping[str, str]) -> Choice:
    context = load_contexts(environ).get(name)
    directory = None if context.directory is None else Path(context.directory)
    return Choice(context.bootstrap, directory, why)


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
