"""A client's name goes through a user agent unharmed, within a bound."""

from __future__ import annotations

import pytest

from strandline_runtime.client_ids import SIZE_MAX, client_id_of, user_agent


def sent(client_id: str) -> str:
    agent = f"{user_agent(client_id)} grpc-python-asyncio/1.85.1 grpc-c/58.0.0 (linux; chttp2)"
    assert agent.isascii()
    return client_id_of([("other", "client-id/x"), ("raw-bin", b""), ("user-agent", agent)])


@pytest.mark.parametrize("name", ["billing", "a b/c%20d", "r\u00e9sum\u00e9", "\U0001f600"])
def test_a_name_arrives_as_it_is(name: str) -> None:
    assert sent(name) == name


def test_a_long_name_is_cut_between_two_letters() -> None:
    assert sent("a" * 32_767) == "a" * SIZE_MAX
    assert sent("a" + "\u00e9" * SIZE_MAX) == "a" + "\u00e9" * ((SIZE_MAX - 1) // 2)


@pytest.mark.parametrize(
    "metadata",
    [(), [("user-agent", "grpc-python-asyncio/1.85.1")], [("user-agent", b"client-id/")]],
)
def test_a_client_without_a_name_has_none(metadata: list[tuple[str, str | bytes]]) -> None:
    assert client_id_of(metadata) == ""


def test_a_peers_bytes_cannot_break_a_line_of_the_log() -> None:
    assert client_id_of([("user-agent", "client-id/a%0Ab%ff grpc")]) == "a?b\ufffd"
