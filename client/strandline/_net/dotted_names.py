"""Options from a mapping with Kafka's dotted names, as configuration files have them."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Final

from strandline._net.arguments import mapping
from strandline._net.kafka_names import RENAMED
from strandline._net.option_names import keyword_of, names_of, refuse_unknown, shortened
from strandline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FLAGS: Final = {"true": True, "false": False}
_RESETS: Final = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
}
"""librdkafka's other words for `auto.offset.reset`."""


def options_of(
    client: str, made_by: Callable[..., object], config: Mapping[str, object]
) -> dict[str, Any]:
    """Returns keyword arguments for a client's constructor.

    A name may be dotted, and one of another library with the same meaning. Text becomes the type of
    its option. Raises ConfigurationError, and UnsupportedFeature as the constructor does.
    """
    known = names_of(made_by)
    types = {n: str(p.annotation) for n, p in signature(made_by).parameters.items()}
    found: dict[str, Any] = {}
    named: dict[str, str] = {}
    unknown: dict[str, object] = {}
    for name, value in mapping("config", config).items():
        if not isinstance(name, str):
            raise ConfigurationError(f"config: {name!r} is not the name of an option")
        keyword = keyword_of(name)
        keyword = RENAMED.get(keyword, keyword)
        if keyword not in known:
            unknown[name] = value
        elif keyword in found:
            raise ConfigurationError(
                f"config names one option twice: {named[keyword]!r} and {name!r}"
            )
        else:
            named[keyword] = name
            found[keyword] = _converted(name, keyword, types[keyword], value)
    refuse_unknown(client, known, unknown, is_dotted=True)
    if "bootstrap_servers" not in found:
        raise ConfigurationError("config lacks 'bootstrap.servers': give host:port of a broker")
    return found


def _converted(name: str, keyword: str, kind: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    if keyword == "auto_offset_reset":
        return _RESETS.get(value.lower(), value.lower())
    kinds = {each.strip() for each in kind.split("|")}
    try:
        if "str" in kinds:
            return value
        if "bool" in kinds:
            return _FLAGS[value.strip().lower()]
        if "int" in kinds:
            return int(value)
        if "float" in kinds:
            return float(value)
    except (KeyError, ValueError):
        raise ConfigurationError(f"{name}={shortened(value)} is not of type {kind}") from None
    return value
