"""Values that a regular expression of RE2 matches from their first character to their last, with a
named group for each column. RE2 allows each name once. So if a column occurs in several
alternatives of the pattern, its other groups are named `column__2`, `column__3` and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.parsing.decoded import Decoded
from strandline_spark.parsing.faults import Fault, Reason, fault, shown
from strandline_spark.parsing.texts import Texts, or_null

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
        self._texts = {name: Texts(name, kind) for name, kind in settings.columns.items()}
        self._nulls = settings.null_values

    def decode(self, values: Any) -> Decoded:
        found = pc.extract_regex(values, self._pattern)
        faults: dict[int, Fault] = {}
        if found.null_count:
            for row in np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False)).tolist():
                detail = f"{shown(values[row].as_py())} is not what the pattern describes"
                faults[row] = fault(Reason.NO_MATCH, detail)
        columns = []
        groups = [field.name for field in found.type]
        for name, kind in self._columns.items():
            texts = pc.struct_field(found, name)
            for other in groups:
                base, mark, number = other.rpartition(_ALTERNATIVE)
                if base == name and mark and number.isdigit():
                    absent = pc.equal(texts, "")
                    texts = pc.if_else(absent, pc.struct_field(found, other), texts)
            columns.append(self._texts[name].read(or_null(texts, kind, self._nulls), faults))
        return Decoded(columns, faults)
