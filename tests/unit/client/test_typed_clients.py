"""Type checkers see the same options in `strandline.sync` as in `strandline`."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import strandline
from strandline import sync

if TYPE_CHECKING:
    from pathlib import Path

CLIENTS = ["Admin", "Consumer", "Producer"]
BLOCKING_ONLY = {"close"}
"""A blocking consumer or producer may be closed by this name too."""


def shape(function: Any) -> dict[str, tuple[Any, Any, str]]:
    """Kind, default and annotation of each parameter."""
    return {
        name: (p.kind, p.default, str(p.annotation))
        for name, p in inspect.signature(function).parameters.items()
    }


def methods(kind: type) -> dict[str, Any]:
    return {n: f for n, f in inspect.getmembers(kind, inspect.isfunction) if not n.startswith("_")}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_blocking_client_has_the_same_options(client: str) -> None:
    ours, theirs = getattr(strandline, client), getattr(sync, client)
    assert shape(theirs.__init__) == shape(ours.__init__)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_blocking_client_has_the_same_calls(client: str) -> None:
    ours, theirs = methods(getattr(strandline, client)), methods(getattr(sync, client))
    assert set(theirs) - BLOCKING_ONLY == set(ours) - BLOCKING_ONLY
    differ = {
        name: (str(inspect.signature(ours[name])), str(inspect.signature(theirs[name])))
        for name in ours
        if name in theirs and shape(ours[name]) != shape(theirs[name])
    }
    assert differ == {}


SNIPPET = """
import asyncio
from dataclasses import dataclass
import strandline
from strandline import sync
from strandline.serialization import DeadLetters, Json, Protobuf, Text

@dataclass
class Order:
    id: int

sync.Producer("h:1", lingerms=5)  # E: "lingerms"
sync.Producer("h:1", linger_ms="5")  # E: "linger_ms"
sync.Consumer("t", bootstrap_servers="h:1", isolation_level="x")  # E: "isolation_level"
sync.Consumer("t")  # E: "bootstrap_servers"
sync.Admin("h:1", retries=5)  # E: "retries"
strandline.Producer("h:1", lingerms=5)  # E: "lingerms"
strandline.Consumer("t", bootstrap_servers="h:1", group="g")  # E: "group"

plain = sync.Producer("h:1", linger_ms=5)
plain.send("t", b"v", headers=[("a", b"1")])
plain.send("t", b"v", headers=(("a", None) for _ in range(2)))
plain.send("t", b"v", headers=["a"])  # E: tuple[str
plain.send("t", "v")  # E: Argument 2 to "send"
plain.stop(timeout_ms="5")  # E: "timeout_ms"

typed = sync.Producer("h:1", key_serializer=Text(), value_serializer=Json(Order))
typed.send("t", Order(1), "key")
typed.send("t", {"id": 1}, "key")  # E: Argument 2 to "send"
typed.send("t", Order(1), b"key")  # E: Argument 3 to "send"
typed.send_many("t", [Order(1), ("key", Order(2))])

with sync.Consumer("t", bootstrap_servers="h:1", value_deserializer=Json(Order)) as consumer:
    for record in consumer:
        a: int = record.value.id if record.value is not None else 0
        b: str = record.value.id if record.value is not None else ""  # E: assignment
        c: bytes | None = record.key

def number(value: int) -> bytes:
    return b"%d" % value

async def main() -> None:
    async with strandline.Producer("h:1", value_serializer=number) as producer:
        await producer.send_and_wait("t", 5, timestamp_ms=0)
    async with strandline.Consumer(
        "t",
        bootstrap_servers="h:1",
        value_deserializer=lambda data: data.decode(),
        on_deserialization_error=DeadLetters("d"),
    ) as reader:
        text: str | None = (await reader.getone()).value
        wrong: int | None = (await reader.getone()).value  # E: assignment
    bare: strandline.Consumer = strandline.Consumer("t", bootstrap_servers="h:1")
    data: bytes | None = (await bare.getone()).value
    version: str = strandline.__version__
"""


def test_mypy_refuses_what_no_client_has(tmp_path: Path) -> None:
    """One run of mypy, as a user has it: strict, without this project's configuration."""
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-pretty"),
            *(f"--cache-dir={tmp_path / 'cache'}", "--show-error-codes", str(file)),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    found: dict[int, str] = {}
    for line in done.stdout.splitlines():
        if (error := re.fullmatch(r"[^:]*snippet\.py:(\d+): error: (.*)", line)) is not None:
            found.setdefault(int(error[1]), error[2])
    wanted = {
        number: mark[1]
        for number, line in enumerate(SNIPPET.splitlines(), start=1)
        if (mark := re.search(r"# E: (.*)$", line)) is not None
    }
    assert found.keys() == wanted.keys(), done.stdout
    assert [n for n, part in wanted.items() if part not in found[n]] == [], done.stdout
