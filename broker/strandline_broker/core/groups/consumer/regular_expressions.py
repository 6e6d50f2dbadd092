"""RE2 for the regular expressions of subscriptions: it matches in time linear in the topic's name.

No expression, however nested, can therefore block the broker. Features that RE2 lacks for this
reason (look-around, back references) are refused when the member joins (KIP-848).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from strandline_proto.errors import InvalidRegularExpression

if TYPE_CHECKING:
    from collections.abc import Iterable

LENGTH_MAX: Final = 4096
MEMORY_MAX: Final = 1 << 20
"""Limit on the bytes of one compiled expression; a larger one is refused."""
KEPT: Final = 64


class Re2Matcher:
    """A `Matcher` that uses RE2."""

    def check(self, regex: str) -> None:
        _compiled(regex)

    def matching(self, regex: str, names: Iterable[str]) -> tuple[str, ...]:
        matches = _compiled(regex).fullmatch
        return tuple(name for name in names if matches(name) is not None)


@lru_cache(maxsize=KEPT)
def _compiled(regex: str) -> Any:
    if len(regex) > LENGTH_MAX:
        raise InvalidRegularExpression(
            f"the regular expression has {len(regex)} characters; {LENGTH_MAX} are the most"
        )
    import re2  # loads a megabyte: only for groups that use it

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_MAX
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidRegularExpression(
            f"the regular expression {regex!r} does not compile: {text}"
            " (RE2's syntax: no look-around, no back references)"
        ) from None
