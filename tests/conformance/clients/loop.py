"""The frame of a driver: one JSON request a line on standard input, one JSON answer a line out.

A driver is an object whose methods are operations. `serve` calls the method that a request names.
Keys, values and headers travel in base64, because records are bytes.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

Headers = list[tuple[str, bytes | None]]
POLL_S = 0.2


class UnsupportedError(Exception):
    """The client has no such operation."""


def packed(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def unpacked(value: str | None) -> bytes | None:
    return None if value is None else b64decode(value)


def record(
    place: tuple[int, int],
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] | None,
) -> dict[str, Any]:
    """A consumed record as an answer carries it."""
    return {
        "partition": place[0],
        "offset": place[1],
        "timestamp": timestamp,
        "key": packed(key),
        "value": packed(value),
        "headers": [[name, packed(content)] for name, content in headers or ()],
    }


def headers_of(asked: dict[str, Any]) -> Headers:
    return [(name, unpacked(content)) for name, content in asked.get("headers", ())]


async def serve(driver: object) -> None:
    """Answers requests until standard input ends; the event loop runs between requests."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await _answer(driver, json.loads(line))), file=answers, flush=True)


async def _answer(driver: object, request: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = getattr(driver, request.pop("op"))(**request)
        if inspect.isawaitable(answer):
            answer = await answer
    except UnsupportedError as error:
        return {"ok": False, "unsupported": True, "error": str(error)}
    except Exception as error:  # noqa: BLE001 - a client's failure is an answer
        return {"ok": False, "error": f"{type(error).__name__}: {error}"}
    return {"ok": True, **(answer or {})}
