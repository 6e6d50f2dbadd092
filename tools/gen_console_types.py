"""Write console/web/src/state/messages.ts, the types of the console's JSON, from the dataclasses of
strandline_console.messages, strandline_console.pipelines and strandline_console.answers.

`--check` writes nothing and fails if the committed file differs.
"""

import argparse
import dataclasses
import inspect
import types
import typing
from pathlib import Path

from strandline_console import answers, messages, pipelines

TARGET = Path(__file__).resolve().parents[1] / "console" / "web" / "src" / "state" / "messages.ts"
HEAD = (
    "/* Made from strandline_console/messages.py, pipelines.py, answers.py by `make console`. */\n"
)
_PLAIN: dict[object, str] = {
    int: "number",
    float: "number",
    str: "string",
    bool: "boolean",
    type(None): "null",
    object: "unknown",
}


def spelled(kind: object) -> str:
    """The TypeScript type of a Python type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind.__name__
    if origin is typing.Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(dict.fromkeys(spelled(one) for one in arguments))
    if origin is list:
        inner = spelled(arguments[0])
        return f"readonly ({inner})[]" if " " in inner else f"readonly {inner}[]"
    if origin is dict:
        return f"{{ readonly [key: string]: {spelled(arguments[1])} }}"
    return _PLAIN[kind]


def interface(kind: type) -> str:
    """The interface of one dataclass: each field is there, as the encoder writes all of them."""
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    lines = [f"  readonly {one.name}: {spelled(hints[one.name])};" for one in fields]
    return "\n".join([f"export interface {kind.__name__} {{", *lines, "}\n"])


def document() -> str:
    """The whole file."""
    kinds = [
        kind
        for module in (pipelines, messages, answers)
        for kind in vars(module).values()
        if inspect.isclass(kind)
        and dataclasses.is_dataclass(kind)
        and kind.__module__ == module.__name__
    ]
    version = f"export const MESSAGES_VERSION = {messages.MESSAGES_VERSION};\n"
    return "\n".join([HEAD, version, *(interface(kind) for kind in kinds)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    fresh = document()
    if not is_check:
        TARGET.write_text(fresh, "utf-8")
    elif not TARGET.exists() or TARGET.read_text("utf-8") != fresh:
        raise SystemExit("console/web/src/state/messages.ts is stale: run `make console`")


if __name__ == "__main__":
    main()
