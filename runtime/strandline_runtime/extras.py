"""The optional dependencies of each program, checked first, so that an error names a
missing one.
"""

from collections.abc import Collection
from importlib.util import find_spec
from typing import Final

_BROKER: Final = (
    "uvloop",
    "msgspec",
    "structlog",
    "prometheus_client",
    "typer",
    "rich",
    "grpc_health",
    "grpc_reflection",
    "re2",
    "kafka",
)
MODULES: Final = {
    "broker": _BROKER,
    "console": ("starlette", "uvicorn"),
    "testing": (*_BROKER, "pytest"),
    "spark": (
        "pyspark",
        "pyarrow",
        "deltalake",
        "numpy",
        "msgspec",
        "fastavro",
        "prometheus_client",
    ),
    "objects": ("obstore",),
}
"""Import packages of each extra that users install."""


def what_is_missing(*extras: str, of: Collection[str] | None = None) -> str | None:
    """One line that says which packages to install; None if all are present. `of` limits the check
    to these modules of the extras.
    """
    lacking = {
        extra: [
            module
            for module in MODULES[extra]
            if (of is None or module in of) and find_spec(module) is None
        ]
        for extra in extras
    }
    modules = [module for found in lacking.values() for module in found]
    if not modules:
        return None
    named = ",".join(extra for extra, found in lacking.items() if found)
    return (
        f"{', '.join(modules)} {'is' if len(modules) == 1 else 'are'} not installed:"
        f" pip install 'strandline[{named}]'"
    )
