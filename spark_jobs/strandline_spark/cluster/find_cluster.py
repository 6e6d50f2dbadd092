"""The choice of the cluster: flags first, then the environment, then ./.strandline.

The order is that of the `strandline` command, whose directories hold a `cluster.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

DEFAULT_DIR: Final = ".strandline"


def add_cluster(command: argparse.ArgumentParser) -> None:
    """Adds the flags that name a cluster."""
    command.add_argument(
        "--bootstrap", help="host:port of one or more brokers (default: STRANDLINE_BOOTSTRAP)"
    )
    command.add_argument(
        "--dir", help="directory of a local cluster (default: STRANDLINE_DIR, else ./.strandline)"
    )


def find_bootstrap_if_any(
    bootstrap: str | None, directory: str | None, environ: Mapping[str, str]
) -> str | None:
    """Returns the addresses like `find_bootstrap`; None if nothing names a cluster and
    ./.strandline does not exist.
    """
    named = bootstrap or directory or environ.get("STRANDLINE_BOOTSTRAP")
    if not named and not environ.get("STRANDLINE_DIR") and not Path(DEFAULT_DIR).is_dir():
        return None
    return find_bootstrap(bootstrap, directory, environ)


def find_bootstrap(bootstrap: str | None, directory: str | None, environ: Mapping[str, str]) -> str:
    """Returns the addresses of brokers, `host:port,host:port`. Raises OptionError if nothing names
    them.
    """
    if bootstrap and directory:
        raise OptionError("--bootstrap and --dir both name a cluster: give one of them")
    if not bootstrap and not directory:
        bootstrap = environ.get("STRANDLINE_BOOTSTRAP")
    if bootstrap:
        return bootstrap
    file = Path(directory or environ.get("STRANDLINE_DIR") or DEFAULT_DIR, "cluster.json")
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["bootstrap"])
    except FileNotFoundError:
        raise OptionError(
            f"{file.parent} holds no cluster: say where it is with --bootstrap HOST:PORT,"
            " STRANDLINE_BOOTSTRAP, --dir or STRANDLINE_DIR"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise OptionError(f"{file} does not say where the cluster is ({error!r})") from None
