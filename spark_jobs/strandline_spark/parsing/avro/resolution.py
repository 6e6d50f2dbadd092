"""Avro's schema resolution: the writer's schema to the reader's.

fastavro resolves each datum by plain schemas, without logical types. The check here says before the
first datum whether a writer's schema can be read, and where not. It also compares logical types,
which resolution leaves to the reader: milliseconds must not become microseconds. A column takes the
writer's logical type, if both schemas give its field one. Below the fields of the record two
different logical types are refused.
"""

from __future__ import annotations

from typing import Any, Final

from strandline_spark.parsing.avro.columns import LOGICAL, found_type, type_of

_PROMOTED: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""Types of a reader that take values of a writer's type, beside the type itself."""
_NAMED: Final = ("record", "error", "enum", "fixed")
_RECORDS: Final = ("record", "error")
_Named = dict[str, Any]


class Resolution:
    """The resolution of one writer's schema to the reader's, both with their logical types."""

    def __init__(
        self, writer: Any, writers_named: _Named, reader: Any, readers_named: _Named
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._writers_named = writers_named
        self._readers_named = readers_named
        self._seen: set[tuple[str, str]] = set()
        self._made = 0

    def problem(self) -> str | None:
        """Returns why no datum of the writer can be read; None if some can."""
        return self._problem(self._writer, self._reader, ())

    def reader(self) -> dict[str, Any]:
        """Returns the reader's record, with the writer's logical types for its fields."""
        written = {field["name"]: field for field in self._writer["fields"]}
        fields = []
        for field in self._reader["fields"]:
            aliases = [] if field["name"] in written else field.get("aliases", [])
            names = [name for name in (field["name"], *aliases) if name in written]
            of = field["type"]
            if names:
                of = self._with_writers_logical(written[names[0]]["type"], of)
            # fastavro takes no field that is found by its name and by an alias.
            fields.append({**field, "type": of, "aliases": names[:1]})
        return {**self._reader, "fields": fields}

    def _with_writers_logical(self, writer: Any, reader: Any) -> Any:
        pair = self._two_logical(writer, reader)
        if pair is None:
            return reader
        as_written, of = pair
        if _base(as_written) == _base(of):
            names = ("logicalType", "scale", "precision")
            as_written = of | {name: as_written[name] for name in names if name in as_written}
            branches = reader if isinstance(reader, list) else [reader]
            if of.get("name") in branches:  # a reference; its definition stays where it is
                self._made += 1
                as_written["name"] = f"written{self._made}.{of['name'].rpartition('.')[2]}"
        return [as_written, "null"] if isinstance(reader, list) else as_written

    def _two_logical(self, writer: Any, reader: Any) -> tuple[Any, Any] | None:
        """Returns the two types, if both are logical ones and differ beside at most null."""
        types = (
            self._branches(writer, self._writers_named),
            self._branches(reader, self._readers_named),
        )
        ((one, *more), (other, *others)) = (found or ["null"] for found in types)
        if more or others or not _differ(one, other):
            return None
        return one, other

    def _branches(self, schema: Any, named: _Named) -> list[Any]:
        branches = schema if isinstance(schema, list) else [schema]
        return [found for one in branches if (found := found_type(one, named)) != "null"]

    def _problem(self, writer: Any, reader: Any, path: tuple[str, ...]) -> str | None:
        writer, reader = (
            found_type(writer, self._writers_named),
            found_type(reader, self._readers_named),
        )
        if isinstance(writer, list):
            # A datum of another branch is refused when it is read.
            branches = [one for one in writer if one != "null"] or writer
            found = [self._problem(one, reader, path) for one in branches]
            return None if None in found else found[0]
        if isinstance(reader, list):
            found = [self._problem(writer, one, path) for one in reader]
            if None in found or not found:
                return None
            return found[0] if len(found) == 1 else self._said(writer, reader, path)
        one, other = _base(writer), _base(reader)
        if one != other and other not in _PROMOTED.get(one, ()):
            return self._said(writer, reader, path)
        if len(path) > 1 and _differ(writer, reader):
            return self._said(writer, reader, path)
        if one in ("array", "map"):
            key = "items" if one == "array" else "values"
            return self._problem(writer[key], reader[key], (*path, "[]"))
        return self._of_named(writer, reader, path) if one in _NAMED else None

    def _of_named(self, writer: Any, reader: Any, path: tuple[str, ...]) -> str | None:
        names, aliases = (writer["name"], reader["name"]), reader.get("aliases", [])
        short = [name.rpartition(".")[2] for name in names]
        if short[0] != short[1] and names[0] not in aliases and short[0] not in aliases:
            return (
                f"{_place(path)} is {names[0]}, and {names[1]} in the reader's schema, which can"
                f" give it the alias {short[0]}"
            )
        if writer["type"] == "fixed" and writer["size"] != reader["size"]:
            return (
                f"{_place(path)} has {writer['size']} bytes, and {reader['size']} in the reader's"
            )
        if writer["type"] not in _RECORDS or names in self._seen:
            return None
        self._seen.add(names)
        return self._of_fields(writer, reader, path)

    def _of_fields(self, writer: Any, reader: Any, path: tuple[str, ...]) -> str | None:
        written = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            at = (*path, field["name"])
            names = [n for n in (field["name"], *field.get("aliases", [])) if n in written]
            if not names and "default" not in field:
                return f"it has no field {'.'.join(at)}, for which the reader's gives no default"
            if len(names) > 1 and path:
                return f"it has the fields {' and '.join(names)}, which are one for the reader's"
            wrong = self._problem(written[names[0]]["type"], field["type"], at) if names else None
            if wrong is not None:
                return wrong
        return None

    def _said(self, writer: Any, reader: Any, path: tuple[str, ...]) -> str:
        readers = reader if isinstance(reader, list) else [reader]
        wanted = " or ".join(_shown(found_type(one, self._readers_named)) for one in readers)
        return f"{_place(path)} is {_shown(writer)}, and {wanted} in the reader's schema"


def with_values_of_defaults(schema: Any) -> Any:
    """Changes the defaults of a schema that fastavro has parsed into the values for which their
    JSON stands, and returns the schema.
    """
    named: _Named = {}
    _put_values(schema, named, set())
    return schema


def _put_values(schema: Any, named: _Named, seen: set[int]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _put_values(branch, named, seen)
    if not isinstance(schema, dict) or id(schema) in seen:
        return
    seen.add(id(schema))
    if schema["type"] in _NAMED:
        named[schema["name"]] = schema
    for key in ("items", "values"):
        if key in schema:
            _put_values(schema[key], named, seen)
    for field in schema.get("fields", ()):
        _put_values(field["type"], named, seen)
        if "default" in field:
            field["default"] = _value(field["default"], field["type"], named)


def _value(default: Any, schema: Any, named: _Named) -> Any:
    """Returns the value of a default: JSON has bytes as a text, and 1 for 1.0."""
    schema = found_type(schema, named)
    if isinstance(schema, list):
        fitting = [one for one in schema if _may_be(default, found_type(one, named))]
        return _value(default, fitting[0], named) if fitting else default
    base = _base(schema)
    if base in ("bytes", "fixed") and isinstance(default, str):
        return default.encode("latin-1")
    if base in ("float", "double") and not isinstance(default, bool):
        return float(default)
    if base == "array":
        return [_value(one, schema["items"], named) for one in default]
    if base == "map":
        return {key: _value(one, schema["values"], named) for key, one in default.items()}
    if base in _RECORDS:
        of = {field["name"]: field for field in schema["fields"]}
        given = {name: of[name]["default"] for name in of if "default" in of[name]} | default
        return {
            name: _value(one, of[name]["type"], named) for name, one in given.items() if name in of
        }
    return default


_OF_JSON: Final[dict[str, type | tuple[type, ...]]] = {
    "null": type(None),
    "boolean": bool,
    "int": int,
    "long": int,
    "float": (int, float),
    "double": (int, float),
    "array": list,
    "map": dict,
    "record": dict,
    "error": dict,
}


def _may_be(default: Any, schema: Any) -> bool:
    base = _base(schema)
    is_bool = isinstance(default, bool)
    return isinstance(default, _OF_JSON.get(base, (str, bytes))) and is_bool == (base == "boolean")


def _base(schema: Any) -> str:
    return str(schema["type"] if isinstance(schema, dict) else schema)


def _differ(writer: Any, reader: Any) -> bool:
    """True if both are logical types, and not the same."""
    kinds = type_of(writer), type_of(reader)
    if not all(kind in LOGICAL for kind in kinds):
        return False
    scales = [one.get("scale", 0) for one in (writer, reader)]
    return kinds[0] != kinds[1] or (kinds[0] == "decimal" and scales[0] != scales[1])


def _shown(schema: Any) -> str:
    kind = type_of(schema)
    if kind == "decimal":
        return f"decimal of scale {schema.get('scale', 0)}"
    return str(schema["name"]) if kind in _NAMED else kind


def _place(path: tuple[str, ...]) -> str:
    return f"the field {'.'.join(path)}" if path else "the record"
