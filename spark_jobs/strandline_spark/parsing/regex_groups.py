"""Values that a regular expression of RE2 matches from their first character to their last, with a
named group for each column. RE2 allows each name once. So if a column occurs in several
alternatives of the pattern, its other groups are named `column__2`, `column__3` and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.parsing.cleaning import clean_fields
from strandline_spark.parsing.decoded import Decoded
from strandline_spark.parsing.faults import Fault, Reason, fault, shown
from strandline_spark.parsing.parts.json_texts import reader_of

if TYPE_CHECKING:
    from strandline_spark.parsing.settings import ParseSettings


_ALTERNATIVE: Final = "__"


def whole(pattern: str) -> str:
    """Returns the pattern for a whole value."""
    return rf"\A(?:{pattern})\z"


class RegexDecoder:
    """The decoder for the settings of one table."""

    def __init__(self, settings: ParseSettings) -> None:
        assert settings.pattern is not None
        self._pattern = whole(settings.pattern)
        self._columns = settings.columns
        self._texts = {name: reader_of(name, kind) for name, kind in settings.columns.items()}
        self._nulls = settings.null_values

    def decode(self, values: Any) -> Decoded:
        found = pc.extract_regex(values, self._pattern)
        faults: dict[int, Fault] = {}
        if found.null_count:
            for row in np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False)).tolist():
                detail = f"{shown(values[row].as_py())} is not what the pattern describes"
                faults[row] = fault(Reason.NO_MATCH, detail)
        columns = []
        groups = _Groups(values, self._pattern, found)
        for name, kind in self._columns.items():
            texts = clean_fields(groups.texts(name), kind, self._nulls)
            columns.append(self._texts[name].read(texts, faults))
        return Decoded(columns, faults)


class _Groups:
    """The texts of the groups, null for a group that took no part in the match.

    Arrow gives an empty text for such a group. Only the places of the groups tell it from a group
    that matched nothing, and they are looked at if there is an empty text.
    """

    def __init__(self, values: Any, pattern: str, found: Any) -> None:
        self._values, self._pattern, self._found = values, pattern, found
        self._names = [field.name for field in found.type]
        self._places: Any = None

    def texts(self, column: str) -> Any:
        """Returns the texts of a column, from the alternative that took part."""
        texts = self._group(column)
        for other in self._names:
            base, mark, number = other.rpartition(_ALTERNATIVE)
            if base == column and mark and number.isdigit():
                texts = pc.coalesce(texts, self._group(other))
        return texts

    def _group(self, name: str) -> Any:
        texts = pc.struct_field(self._found, name)
        if not pc.any(pc.equal(texts, ""), min_count=0).as_py():
            return texts
        if self._places is None:
            self._places = pc.extract_regex_span(self._values, self._pattern)
        absent = pc.is_null(pc.struct_field(self._places, name))
        return pc.if_else(absent, None, texts)
