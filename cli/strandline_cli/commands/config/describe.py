"""`strandline config describe`."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from strandline_cli.cluster.target import find_target
from strandline_cli.commands.config.resource import (
    DefaultOption,
    KindArgument,
    NameArgument,
    named,
    resource_of,
)
from strandline_cli.options import (
    BootstrapOption,
    DirOption,
    Format,
    FormatOption,
    TimeoutOption,
)
from strandline_cli.shown.output import emit_json, emit_table, note

if TYPE_CHECKING:
    from strandline.types import ConfigValue

_ORIGINS: Final = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "GROUP_CONFIG": "group",
    "DYNAMIC_BROKER_CONFIG": "altered for the broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "altered for all brokers",
    "STATIC_BROKER_CONFIG": "server's configuration",
    "DEFAULT_CONFIG": "default",
}


def describe(
    kind: KindArgument,
    name: NameArgument = None,
    default: DefaultOption = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show keys with their default value too.")
    ] = False,
    bootstrap: BootstrapOption = None,
    directory: DirOption = None,
    timeout: TimeoutOption = 15.0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show keys, their values, and the source of each value.

    Example: strandline config describe topic orders
    """
    from strandline import Admin, ConfigSource
    from strandline_cli.client import run_client

    resource = resource_of(kind, name, default)
    target = find_target(bootstrap=bootstrap, directory=directory)

    async def work() -> "list[ConfigValue]":
        async with Admin(target.bootstrap, request_timeout_ms=timeout * 1000) as admin:
            ((_, values),) = (await admin.describe_configs([resource])).items()
        return sorted(values.values(), key=lambda value: value.name)

    shown = [
        value
        for value in run_client(work())
        if everything or value.source is not ConfigSource.DEFAULT_CONFIG
    ]
    if output is Format.JSON:
        emit_json([_document(value) for value in shown])
    elif shown:
        rows = [(v.name, v.value, _ORIGINS.get(v.source.name, v.source.name)) for v in shown]
        emit_table(("key", "value", "origin"), rows, title=named(resource))
    else:
        hint = "" if default else "; --all shows the defaults"
        note(f"nothing is set for {named(resource)}{hint}")
    return 0


def _document(value: "ConfigValue") -> dict[str, object]:
    return {
        "key": value.name,
        "value": value.value,
        "source": value.source.name,
        "read_only": value.read_only,
        "synonyms": [
            {"key": s.name, "value": s.value, "source": s.source.name} for s in value.synonyms
        ],
    }
