"""The options of a table in Spark's catalog: `CREATE TABLE … USING strandline OPTIONS (…)`.

Spark asks for the columns once, when the table is created, and then passes all properties of the
table. When the table is read, Spark passes the options of that one read. For a Python source it
passes nothing of the table but its columns. So the metadata of the first column, which the catalog
keeps, holds the options.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

NAME: Final = "strandline"
_KEPT_AS: Final = "strandline.options"
_PROVIDER: Final = "provider"
_OPTION: Final = "option."
"""Prefix of each of a table's OPTIONS. A name without it is a property of Spark or of
TBLPROPERTIES, and no option of the source.
"""
_HIVES: Final = frozenset({"serialization.format"})
"""Properties that a Hive catalog adds to a table's options."""
_PLACES: Final = ("path", "paths", "location")


def is_of_table(options: Mapping[str, str]) -> bool:
    """True if Spark passes the properties of a table that it creates."""
    return options.get(_PROVIDER, "").lower() == NAME


def users_options(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options that the user gave. Raises OptionError for a path, which topics do not
    have.
    """
    for name in _PLACES:
        if name in options:
            raise OptionError(
                f"{name} {options[name]!r}: records lie in topics and not below a path; name them"
                " with the option subscribe, and leave the path out (of load(), of OPTIONS, and"
                " LOCATION too)"
            )
    if not is_of_table(options):
        return dict(options)
    own = {
        name.removeprefix(_OPTION): value
        for name, value in options.items()
        if name.startswith(_OPTION)
    }
    return {name: value for name, value in own.items() if name not in _HIVES}


def with_options(columns: StructType, options: Mapping[str, str]) -> StructType:
    """Returns the columns of a table with these options."""
    from pyspark.sql.types import StructField, StructType

    first, *rest = columns.fields
    kept = {_KEPT_AS: json.dumps(dict(options), sort_keys=True)}
    return StructType([StructField(first.name, first.dataType, first.nullable, kept), *rest])


def options_of(columns: StructType) -> dict[str, str]:
    """Returns the options stored in a table's columns; none if it is no table, or was not created
    with options.
    """
    for one in columns.fields:
        if _KEPT_AS in one.metadata:
            found: dict[str, str] = json.loads(one.metadata[_KEPT_AS])
            return found
    return {}


def merged(columns: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """Returns the table's options, overridden by those of this read, by lower-cased names.

    Raises OptionError if there are none at all. Spark passes none for a table with columns that the
    user declared.
    """
    given = {name.lower(): value for name, value in options_of(columns).items()}
    given |= {name.lower(): value for name, value in users_options(options).items()}
    if not any(name.endswith("bootstrap.servers") for name in given):
        raise OptionError(
            "option bootstrap.servers is required: host:port of one or more brokers. Of a table"
            " Spark hands over the OPTIONS only if it was created without a list of columns:"
            " CREATE TABLE name USING strandline OPTIONS (…)"
        )
    return given
