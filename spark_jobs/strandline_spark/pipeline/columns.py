"""The columns of a pipeline: those of its file, and those that fields have added to silver."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from strandline_spark.errors import TableError
from strandline_spark.parsing.inference import INFERRED
from strandline_spark.parsing.parts.type_names import column_type
from strandline_spark.parsing.settings import fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_spark.pipeline.config import Pipeline
    from strandline_spark.silver.tables import SilverTable


def with_columns_of(pipeline: Pipeline, silver: SilverTable) -> Pipeline:
    """Returns the pipeline with the added columns of silver. Raises TableError if the table has
    columns that would silently be null from now on.
    """
    silver.check_kind(pipeline.parse, pipeline.file)
    return beside_columns(pipeline, silver.fit_columns(pipeline.parse.columns))


def beside_columns(pipeline: Pipeline, beside: Mapping[str, str]) -> Pipeline:
    """Returns the pipeline like `with_columns_of`, for a table with the columns `beside`; changes
    none.
    """
    # A text takes values of every kind. Another column becomes wider, if columns are added.
    wide = ("string", *(INFERRED if pipeline.adds_columns else ()))
    columns = {
        name: replace(column_type(kind), any_kind=kind in wide) for name, kind in beside.items()
    }
    if beside and pipeline.parse.format != "json":
        names = ", ".join(beside)
        raise TableError(
            f"{pipeline.silver} has the columns {names}, which [silver.columns] of {pipeline.place}"
            " does not name: they would be null from now on; name them"
        )
    for name, field in fields_of(pipeline.parse.columns).items():
        if field in beside:
            raise TableError(
                f"{pipeline.silver} has the column {field}, and [silver.columns] {name} of"
                f" {pipeline.place} reads its field: it would be null from now on; take {name} out,"
                " or give the pipeline other tables"
            )
    parse = replace(pipeline.parse, columns={**pipeline.parse.columns, **columns})
    return replace(pipeline, parse=parse)
