"""docs/reference/client-api.md, from the public names of the client library."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from textwrap import dedent
from types import FunctionType, ModuleType

import strandline
from md_table import table
from reference.client_options import MEANINGS, options_table
from reference.words import GENERATED, first_sentence
from strandline import group_types, interceptors, serialization, sync, transaction_types, types

HEAD = f"""\
# Client API

{GENERATED}
`strandline` has asynchronous clients, `strandline.sync` has blocking ones. The values that they
take and return are in `strandline.types`, `strandline.group_types` and
`strandline.transaction_types`. [Names](client-names.md) of
other libraries have a page of their own. [Errors](errors.md) are a
page of their own, and the [guide](../guide/client.md) says how to use it all.

A method marked `async` is awaited.
"""


def client_api() -> str:
    exported = {name: getattr(strandline, name) for name in strandline.__all__}
    clients = {n: kind for n, kind in exported.items() if kind.__module__ not in _VALUES}
    clients = {n: kind for n, kind in clients.items() if not issubclass(kind, Exception)}
    blocking = {name: getattr(sync, name) for name in sync.__all__}
    values = _public(types) | _public(group_types) | _public(transaction_types)
    formats = _public(serialization)
    return "\n".join(
        [
            HEAD,
            _chapter("strandline", clients),
            _chapter("strandline.sync", blocking),
            _chapter("strandline.serialization", formats),
            _chapter("strandline.interceptors", _public(interceptors)),
            _chapter("Values", values),
        ]
    )


def _public(module: ModuleType) -> dict[str, type]:
    """The classes that the module defines for its users."""
    return {
        name: kind
        for name, kind in vars(module).items()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and name[0] != "_"
    }


_VALUES = (types.__name__, group_types.__name__, transaction_types.__name__)


def _chapter(title: str, classes: dict[str, type]) -> str:
    prefix = f"{title}." if title.startswith("strandline") else ""
    return f"## {title}\n\n" + "\n".join(
        _section(f"{prefix}{name}", name, kind) for name, kind in sorted(classes.items())
    )


def _section(title: str, name: str, kind: type) -> str:
    parts = [f"### {title}\n"]
    signature = _made_by(name, kind)
    if signature:
        parts.append(f"```python\n{signature}\n```\n")
    sentence = first_sentence(kind.__dict__.get("__doc__"))
    # A tuple without a docstring of its own has one that repeats its fields.
    if sentence and not sentence.startswith(f"{name}("):
        parts.append(f"{sentence}\n")
    if title.removeprefix("strandline.") in MEANINGS:  # the blocking clients have the same
        parts.append(options_table(name, kind))
    rows = [(f"`{text}`", first_sentence(docstring)) for text, docstring in _members(kind)]
    if rows:
        parts.append(table(("name", "meaning"), rows))
    return "\n".join(parts)


def _made_by(name: str, kind: type) -> str:
    """The constructor: one argument a line, with its type and default."""
    for base in kind.__mro__:
        made = vars(base).get("__init__")
        if issubclass(kind, Enum) or not base.__module__.startswith("strandline"):
            continue
        if isinstance(made, FunctionType) and not is_dataclass(base):
            return _broken(name, _arguments(made))
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _broken(name, _fields(kind))
    return ""


def _fields(kind: type) -> list[str]:
    """The fields of a dataclass or a named tuple, its bases' first."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("strandline"):
            continue
        body = _tree(base).body
        fields = [node for node in body if isinstance(node, ast.AnnAssign)]
        found |= {
            ast.unparse(node.target): ast.unparse(node)
            for node in fields
            if not ast.unparse(node.annotation).startswith("ClassVar")
        }
    return list(found.values())


def _arguments(function: FunctionType) -> list[str]:
    """The arguments after `self`, as the source declares them."""
    given = _definition(function).args
    plain = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(plain) - len(given.defaults)), *given.defaults]
    texts = [_argument(arg, default) for arg, default in zip(plain, defaults, strict=True)]
    if texts[:1] in (["self"], ["cls"]):
        del texts[0]
    if given.vararg is not None:
        texts.append(f"*{_argument(given.vararg, None)}")
    elif given.kwonlyargs:
        texts.append("*")
    texts += map(_argument, given.kwonlyargs, given.kw_defaults)
    return texts if given.kwarg is None else [*texts, f"**{_argument(given.kwarg, None)}"]


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(argument)
    return text if default is None else f"{text} = {ast.unparse(default)}"


def _broken(name: str, arguments: list[str]) -> str:
    line = f"{name}({', '.join(arguments)})"
    if len(line) <= 88:
        return line
    return f"{name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"


def _members(kind: type) -> Iterator[tuple[str, str | None]]:
    """The signatures and docstrings of the public members, by name."""
    if issubclass(kind, Enum):
        for member in kind:
            yield f"{member.name} = {member.value!r}", None
        return
    found: dict[str, object] = {}
    for base in kind.__mro__:
        if base.__module__.startswith("strandline") and not base.__module__.startswith(
            "strandline_"
        ):
            found = {n: v for n, v in vars(base).items() if not n.startswith("_")} | found
    for name, value in sorted(found.items()):
        if isinstance(value, property):
            assert isinstance(value.fget, FunctionType)
            returns = _definition(value.fget).returns
            yield f"{name}{_returned(returns, ': ')}", value.__doc__
        elif isinstance(value, FunctionType | classmethod | staticmethod):
            function = inspect.unwrap(value if isinstance(value, FunctionType) else value.__func__)
            assert isinstance(function, FunctionType)
            defined = _definition(function)
            prefix = "async " if isinstance(defined, ast.AsyncFunctionDef) else ""
            text = f"{name}({', '.join(_arguments(function))}){_returned(defined.returns, ' -> ')}"
            yield f"{prefix}{text}", function.__doc__


def _returned(annotation: ast.expr | None, mark: str) -> str:
    return "" if annotation is None else f"{mark}{ast.unparse(annotation)}"


def _definition(function: FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef:
    node = ast.parse(dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return node


def _tree(kind: type) -> ast.ClassDef:
    node = ast.parse(dedent(inspect.getsource(kind))).body[0]
    assert isinstance(node, ast.ClassDef)
    return node
