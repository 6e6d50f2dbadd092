"""The parameters of a page's requests, each checked: a wrong one is refused with its name."""

from typing import Final, Protocol

from strandline_console.recording.scope import COUNT, COUNT_MAX, Scope

NUMBER_MAX: Final = 2**53
TEXT_MAX: Final = 249
NAMED_MAX: Final = 64


class Refused(Exception):
    """A request that is refused, with its status and the sentence for its sender."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


class Query(Protocol):
    """The parameters of a request's address."""

    def get(self, key: str, /) -> str | None: ...
    def getlist(self, key: str, /) -> list[str]: ...


def number(
    query: Query, name: str, default: int | None = None, *, least: int = 0, most: int = NUMBER_MAX
) -> int:
    """A whole number. Without a default it must be given."""
    text = query.get(name)
    if text is None:
        if default is None:
            raise Refused(400, f"{name} is missing: give a whole number")
        return default
    digits = text.removeprefix("-")
    if not digits.isdecimal() or not digits.isascii() or len(digits) > 16:
        raise Refused(400, f"{name} is no whole number: {text[:40]!r}")
    value = int(text)
    if not least <= value <= most:
        raise Refused(400, f"{name} is {value}: give a number from {least} to {most}")
    return value


def text(query: Query, name: str) -> str:
    """A text that must be given."""
    value = query.get(name)
    if not value:
        raise Refused(400, f"{name} is missing")
    if len(value) > 1024:
        raise Refused(400, f"{name} has {len(value)} characters: 1024 are possible")
    return value


def scope_of(query: Query) -> Scope:
    """The partitions that a page asks for."""
    named = tuple(query.getlist("partition"))
    if len(named) > NAMED_MAX:
        raise Refused(400, f"partition is given {len(named)} times: {NAMED_MAX} are possible")
    return Scope(
        first=number(query, "first", 0),
        count=number(query, "count", COUNT, least=1, most=COUNT_MAX),
        text=(query.get("q") or "")[:TEXT_MAX],
        named=named,
    )


def instant_of(query: Query) -> dict[str, int] | None:
    """`instant` or `frame`, as the recorder takes them; None if neither is given."""
    if query.get("instant") is not None and query.get("frame") is not None:
        raise Refused(400, "instant and frame both name an instant: give one of them")
    if query.get("instant") is not None:
        return {"instant_ms": number(query, "instant")}
    if query.get("frame") is not None:
        return {"frame": number(query, "frame")}
    return None
