"""Refusal of options that a client does not have, with the nearest name and the remedy."""

from __future__ import annotations

from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from strandline._net.kafka_names import RENAMED, UNSUPPORTED, is_secret, remedy_of
from strandline.errors import ConfigurationError, UnsupportedFeature

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NEAR: Final = 0.7
"""Least similarity of a name that an error suggests."""
VERY_NEAR: Final = 0.85
"""Least similarity of an unsupported name that an error suggests."""
PAGE: Final = "docs/reference/client-api.md"
SHOWN_MAX: Final = 60
"""Most characters of a refused value that an error shows."""

Made = TypeVar("Made", bound="Callable[..., None]")


def named_options(made_by: Made) -> Made:
    """Decorates a client's constructor: it refuses options that the constructor does not name.

    Without it, Python raises a TypeError that names no remedy.
    """
    known = names_of(made_by)

    @wraps(made_by)
    def checked(self: object, *args: Any, **options: Any) -> None:
        unknown = {name: value for name, value in options.items() if name not in known}
        refuse_unknown(type(self).__name__, known, unknown)
        made_by(self, *args, **options)

    return cast("Made", checked)


def names_of(made_by: Callable[..., object]) -> frozenset[str]:
    """Returns the options of a client by name, from its constructor."""
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    given = signature(made_by).parameters.items()
    return frozenset(name for name, each in given if each.kind in kinds) - {"self"}


def refuse_unknown(
    client: str,
    known: frozenset[str],
    unknown: Mapping[str, object],
    *,
    is_dotted: bool = False,
) -> None:
    """Refuses options that the client does not have; suggests names as the caller writes them.

    Raises UnsupportedFeature if other libraries have them all, else ConfigurationError.
    """
    if not unknown:
        return
    texts = [
        refusal(client, known, name, value, is_dotted=is_dotted) for name, value in unknown.items()
    ]
    misspelt = [name for name in unknown if remedy_of(keyword_of(name)) is None]
    kind = ConfigurationError if misspelt else UnsupportedFeature
    raise kind("; ".join(texts))


def keyword_of(name: str) -> str:
    """Returns the keyword that a dotted name stands for: `linger.ms` is `linger_ms`."""
    return name.strip().lower().replace(".", "_").replace("-", "_")


def refusal(
    client: str, known: frozenset[str], name: str, value: object, *, is_dotted: bool = False
) -> str:
    """Returns the error's text about one option that the client does not have."""
    keyword = keyword_of(name)
    shown = f"{name}=..." if is_secret(keyword) else f"{name}={shortened(value)}"
    if (remedy := remedy_of(keyword)) is not None:
        return f"{client} does not support {shown}: {remedy}"
    if keyword in known or RENAMED.get(keyword) in known:
        return f"{client} has no option {shown}; its name here is {RENAMED.get(keyword, keyword)}"
    near = nearest(keyword, known)
    if near is None:
        return f"{client} has no option {shown}; {PAGE} lists its options"
    if (remedy := remedy_of(near)) is not None:
        return f"{client} has no option {shown}; it does not support {near} either: {remedy}"
    suggested = near.replace("_", ".") if is_dotted and "." in name else near
    return f"{client} has no option {shown}; did you mean {suggested}?"


def nearest(keyword: str, known: frozenset[str]) -> str | None:
    """Returns the option whose name is most like `keyword`; None if none is.

    A name of another library leads to the option here that it stands for.
    """
    flat = keyword.replace("_", "")
    here = {name.replace("_", ""): ours for name, ours in RENAMED.items() if ours in known}
    here |= {name.replace("_", ""): name for name in sorted(known)}
    if found := get_close_matches(flat, here, n=1, cutoff=NEAR):
        return here[found[0]]
    longer = sorted(name for name in known if len(flat) > 2 and flat in name.replace("_", ""))
    elsewhere = {name.replace("_", ""): name for name in UNSUPPORTED if not name.endswith("_")}
    if found := get_close_matches(flat, elsewhere, n=1, cutoff=VERY_NEAR):
        return elsewhere[found[0]]
    return longer[0] if longer else None


def shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 3]}..."
