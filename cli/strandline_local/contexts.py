"""Contexts: names for clusters, so that a command needs no addresses.

They stand in one file of the user, `$XDG_CONFIG_HOME/strandline/contexts.json` (or ~/.config). It
is replaced whole, so that a crash leaves the old one or the new one.

A command's cluster is chosen by flags first, then by the environment, ./.strandline, and the
context in use.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from strandline_local.errors import ClusterError, UsageMistake

DEFAULT_DIR: Final = Path(".strandline")
CONTEXT_VARIABLE: Final = "STRANDLINE_CONTEXT"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Context:
    """A cluster: addresses of its brokers, or the directory of a local one."""

    bootstrap: str | None = None
    directory: str | None = None

    def __str__(self) -> str:
        return f"--bootstrap {self.bootstrap}" if self.bootstrap else f"--dir {self.directory}"


@dataclass(slots=True)
class Contexts:
    """The contexts of a user; `current` is the one that commands use."""

    path: Path
    current: str | None = None
    named: dict[str, Context] = field(default_factory=dict)

    def get(self, name: str) -> Context:
        """The context of that name. Raises UsageMistake."""
        if name not in self.named:
            known = ", ".join(sorted(self.named)) or "there is none yet"
            raise UsageMistake(
                f"no context {name!r} ({known}): `strandline context add {name} --bootstrap"
                " HOST:PORT` makes it"
            )
        return self.named[name]

    def save(self) -> None:
        """Replaces the file. Raises ClusterError."""
        document = {
            "version": _VERSION,
            "current": self.current,
            "contexts": {
                name: {
                    key: value
                    for key, value in (("bootstrap", c.bootstrap), ("dir", c.directory))
                    if value is not None
                }
                for name, c in sorted(self.named.items())
            },
        }
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
            part.replace(self.path)
        except OSError as why:
            raise ClusterError(f"{self.path} cannot be written: {why.strerror}") from None


def contexts_path(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's file of contexts."""
    home = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home, "strandline", "contexts.json")


def load_contexts(environ: Mapping[str, str] = os.environ) -> Contexts:
    """The contexts of the user's file; none if it does not exist. Raises ClusterError."""
    path = contexts_path(environ)
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return Contexts(path)
    except (OSError, UnicodeDecodeError) as why:
        raise ClusterError(f"{path} cannot be read: {why}") from None
    return parse_contexts(text, path)


def parse_contexts(text: str, path: Path) -> Contexts:
    """The contexts of a file's text. Raises ClusterError, which names the file."""
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    contexts = document.get("contexts") if isinstance(document, dict) else None
    if not isinstance(contexts, dict) or document.get("version") != _VERSION:
        raise _damaged(path, f"no file of contexts of version {_VERSION}")
    named = {name: _context(name, each, path) for name, each in contexts.items()}
    current = document.get("current")
    if current is not None and current not in named:
        raise _damaged(path, f"its current context is {current!r}, which it does not have")
    return Contexts(path, current, named)


def _context(name: str, given: Any, path: Path) -> Context:
    fields = given if isinstance(given, dict) else {}
    bootstrap, directory = fields.get("bootstrap"), fields.get("dir")
    one = [value for value in (bootstrap, directory) if isinstance(value, str) and value]
    if len(one) != 1 or len(fields) != 1:
        raise _damaged(path, f"context {name!r} has neither `bootstrap` nor `dir` alone")
    return Context(bootstrap, directory)


def _damaged(path: Path, what: str) -> ClusterError:
    return ClusterError(f"{path}: {what}; correct it, or remove it and add the contexts again")


def check_name(name: str) -> str:
    """The name of a new context. Raises UsageMistake."""
    if _NAME.fullmatch(name) is None:
        raise UsageMistake(
            f"{name!r} is no name of a context: use letters, digits, `.`, `_` and `-`, as in prod"
        )
    return name


@dataclass(frozen=True, slots=True)
class Choice:
    """The addresses or the directory that a command uses, and the reason."""

    bootstrap: str | None
    directory: Path | None
    why: str
    is_in_use: bool = False
    """True if nothing but `strandline context use` chose it."""


def choose(
    bootstrap: str | None, directory: Path | None, environ: Mapping[str, str] = os.environ
) -> Choice:
    """The choice by flags, environment, ./.strandline and context, in this order."""
    if bootstrap is not None and directory is not None:
        raise UsageMistake("--bootstrap and --dir both name a cluster: give one of them")
    if bootstrap is not None:
        return Choice(bootstrap, None, "--bootstrap")
    if directory is not None:
        return Choice(None, directory, "--dir")
    if name := environ.get(CONTEXT_VARIABLE):
        return _of_context(name, f"context {name}", environ)
    if named := environ.get("STRANDLINE_BOOTSTRAP"):
        return Choice(named, None, "STRANDLINE_BOOTSTRAP")
    if named := environ.get("STRANDLINE_DIR"):
        return Choice(None, Path(named), "STRANDLINE_DIR")
    if not DEFAULT_DIR.exists() and (current := load_contexts(environ).current) is not None:
        return _of_context(current, f"context {current}, which is in use", environ, is_in_use=True)
    return Choice(None, DEFAULT_DIR, f"./{DEFAULT_DIR}")


def _of_context(
    name: str, why: str, environ: Mapping[str, str], *, is_in_use: bool = False
) -> Choice:
    context = load_contexts(environ).get(name)
    directory = None if context.directory is None else Path(context.directory)
    return Choice(context.bootstrap, directory, why, is_in_use)
