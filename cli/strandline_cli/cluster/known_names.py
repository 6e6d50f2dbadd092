"""Names that a shell completes: the topics of the cluster that the command line addresses.

A completion that fails is silent: a shell has no place for an error.
"""

from pathlib import Path
from typing import Any, Final

from strandline_cli.cluster.target import find_target
from strandline_cli.errors import ClusterError
from strandline_local import probe

_ANSWER_S: Final = 1.0


def topic_names(params: dict[str, Any], incomplete: str) -> list[str]:
    """The topics whose names begin so; none if no broker answers within a second."""
    try:
        for address in _addresses(params):
            try:
                metadata = probe.ask_metadata(address, _ANSWER_S, topics=True)
            except ClusterError:
                continue
            names = (t.name for t in metadata.topics if not t.name.startswith("__"))
            return sorted(name for name in names if name.startswith(incomplete))
    except (ClusterError, OSError, ValueError):
        pass
    return []


def _addresses(params: dict[str, Any]) -> list[str]:
    directory = params.get("directory")
    target = find_target(
        bootstrap=params.get("bootstrap"),
        directory=None if directory is None else Path(directory),
    )
    return target.addresses
