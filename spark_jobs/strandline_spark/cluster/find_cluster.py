"""The choice of the cluster, as the `strandline` command chooses it. A local cluster's directory
holds a `cluster.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strandline_local.contexts import CONTEXT_VARIABLE, DEFAULT_DIR, Choice, choose
from strandline_local.errors import ClusterError
from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

NOTHING_NAMED: Final = f"./{DEFAULT_DIR}"


def add_cluster(command: argparse.ArgumentParser) -> None:
    """Adds the flags that name a cluster."""
    command.add_argument(
        "--bootstrap", help="host:port of one or more brokers (default: STRANDLINE_BOOTSTRAP)"
    )
    command.add_argument(
        "--dir", help="directory of a local cluster (default: STRANDLINE_DIR, else ./.strandline)"
    )
    command.add_argument(
        "--context",
        metavar="NAME",
        help="a cluster by its name, see strandline context add (default: STRANDLINE_CONTEXT)",
    )


def chosen_cluster(arguments: argparse.Namespace, environ: Mapping[str, str]) -> str:
    """Returns the addresses of brokers that the flags of `add_cluster` name. Raises OptionError."""
    return find_bootstrap(arguments.bootstrap, arguments.dir, _around(arguments, environ))


def chosen_cluster_if_any(arguments: argparse.Namespace, environ: Mapping[str, str]) -> str | None:
    """Returns the addresses as `chosen_cluster` does; None if nothing names a cluster and
    ./.strandline does not exist.
    """
    bootstrap, directory = arguments.bootstrap, arguments.dir
    around = _around(arguments, environ)
    choice = _choice(bootstrap, directory, around)
    if choice.why == NOTHING_NAMED and not DEFAULT_DIR.is_dir():
        return None
    return find_bootstrap(bootstrap, directory, around)


def _around(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment with --context in it."""
    if arguments.context is None:
        return environ
    if arguments.bootstrap or arguments.dir:
        raise OptionError(
            "--context names a cluster: leave out --bootstrap and --dir, or --context"
        )
    return {**environ, CONTEXT_VARIABLE: arguments.context}


def find_bootstrap(bootstrap: str | None, directory: str | None, environ: Mapping[str, str]) -> str:
    """Returns the addresses of brokers, `host:port,host:port`. Raises OptionError if nothing names
    them.
    """
    choice = _choice(bootstrap, directory, environ)
    if choice.bootstrap is not None:
        return choice.bootstrap
    assert choice.directory is not None
    file = choice.directory / "cluster.json"
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["bootstrap"])
    except FileNotFoundError:
        raise OptionError(
            f"{file.parent} holds no cluster: say where it is with --bootstrap HOST:PORT,"
            " STRANDLINE_BOOTSTRAP, --dir, STRANDLINE_DIR or --context"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise OptionError(f"{file} does not say where the cluster is ({error!r})") from None


def _choice(bootstrap: str | None, directory: str | None, environ: Mapping[str, str]) -> Choice:
    try:
        return choose(bootstrap or None, Path(directory) if directory else None, environ)
    except ClusterError as error:
        raise OptionError(str(error)) from None
