"""An S3 store of the test's own: moto in a process, with a bucket, and the settings to reach it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_DUCKDB: Final = Path(__file__).with_name("duckdb_query.py")
SECRET: Final = "SECRET-THAT-NO-LINE-SHOWS"
BUCKET: Final = "lake"
# delta-rs holds Python's lock while it waits for an answer: the server needs a process of its own.
_SERVER: Final = Path(__file__).with_name("s3_server.py")


@contextlib.contextmanager
def object_store() -> Iterator[str]:
    """Yields the store's address; one bucket is there, and the environment has the settings. Skips
    the test where moto is not installed (`make lowest`).
    """
    if importlib.util.find_spec("moto") is None:
        pytest.skip("moto is not installed")
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", str(_SERVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
            make_bucket(endpoint, BUCKET)
            with pytest.MonkeyPatch.context() as patch:
                for name in [name for name in os.environ if name.startswith("AWS_")]:
                    patch.delenv(name)
                for name, value in settings(endpoint).items():
                    patch.setenv(name, value)
                yield endpoint
        finally:
            server.stdin.close()


def settings(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }


def make_bucket(endpoint: str, name: str) -> None:
    asked = urllib.request.Request(f"{endpoint}/{name}", method="PUT")
    with urllib.request.urlopen(asked, timeout=30):
        pass


def by_duckdb(path: str, query: str) -> list[list[Any]]:
    """What DuckDB answers about the table, `delta` in the query."""
    asked = [sys.executable, str(_DUCKDB), path, query]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: list[list[Any]] = json.loads(done.stdout)
    return found
