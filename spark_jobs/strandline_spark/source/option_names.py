"""The names of options as Spark passes them: lower-cased, some with Kafka's prefix.

An unlisted name is refused, and the error names the nearest known one. An option that is silently
ignored is worse than an error.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class OptionNames:
    """The options of the source, or those of the sink."""

    owner: str
    known: tuple[str, ...]
    """The names as documented."""
    prefixes: tuple[str, ...]
    cannot_work: Mapping[str, str]
    """Options that Spark's Kafka source or sink knows, lower-cased, with the advice for each."""

    def given(self, options: Mapping[str, str]) -> dict[str, str]:
        """Returns the options by their documented names. Raises OptionError."""
        given: dict[str, str] = {}
        for name, value in options.items():
            known = self._known(name)
            if known in given:
                raise OptionError(
                    f"{known} is given twice, with and without a prefix: give it once"
                )
            given[known] = value
        return given

    def _known(self, name: str) -> str:
        plain = name.lower()
        for prefix in self.prefixes:
            plain = plain.removeprefix(prefix)
        if plain in self.cannot_work:
            raise OptionError(f"option {name!r} cannot work here: {self.cannot_work[plain]}")
        by_lower_name = {known.lower(): known for known in self.known}
        if plain in by_lower_name:
            return by_lower_name[plain]
        close = difflib.get_close_matches(plain, list(by_lower_name), n=1)
        hint = f"; did you mean {by_lower_name[close[0]]}?" if close else "."
        raise OptionError(
            f"option {name!r} is not supported by the strandline {self.owner}{hint}"
            f" Known: {', '.join(self.known)}"
        )
