"""The files of schemas that [silver] names: their contents become part of the settings, which go to
the tasks, and decide whether a rebuild that broke off can continue.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    from strandline_spark.pipeline.keys import SilverKeys


def schemas_of(silver: SilverKeys, folder: str) -> dict[str, Any]:
    """Returns the settings of a parser that come from files of schemas; relative names begin at
    `folder`. Raises OptionError.
    """
    schema = silver.avro_schema
    what = "the writer's schema" if not silver.schemas else "the reader's schema"
    return {
        "avro_schema": None if schema is None else _text(folder, "avro_schema", schema, what),
        "schemas": {
            key: _text(folder, f"schemas, {key}", file, "the schema of this id")
            for key, file in silver.schemas.items()
        },
        "registry": silver.registry,
        "descriptor": _descriptor(folder, silver),
        "message": None if silver.message is None else silver.message.removeprefix("."),
    }


def _text(folder: str, key: str, file: str, what: str) -> str:
    try:
        return _content(folder, key, file, what).decode("utf-8-sig")
    except UnicodeDecodeError as why:
        raise OptionError(
            f"[silver] {key} = {file!r} does not read ({why}): name the file of {what}"
        ) from why


def _descriptor(folder: str, silver: SilverKeys) -> str | None:
    if silver.descriptor is None:
        return None
    from strandline_spark.parsing.protobuf.descriptors import DescriptorProblem, descriptor_text

    data = _content(folder, "descriptor", silver.descriptor, "the descriptor set")
    try:
        return descriptor_text(data, (silver.message or "").removeprefix("."))
    except DescriptorProblem as why:
        raise OptionError(f"[silver] descriptor = {silver.descriptor!r} {why}") from why


def _content(folder: str, key: str, file: str, what: str) -> bytes:
    try:
        with open(os.path.join(folder, file), "rb") as opened:
            return opened.read()
    except (OSError, ValueError) as why:
        raise OptionError(
            f"[silver] {key} = {file!r} does not read ({why}): name the file of {what}"
        ) from why
