"""How `strandline leader elect` understands what it is given, and what `leader losses` shows."""

import json
from collections.abc import Coroutine

import pytest

from strandline.types import LossInfo
from strandline_cli.commands.leader_elect import named
from strandline_cli.errors import UsageMistake
from strandline_cli.main import run


def test_a_topic_stands_alone_or_with_one_partition() -> None:
    assert named("orders") == "orders"
    assert named("orders:12") == ("orders", 12)


@pytest.mark.parametrize(
    "text", ["orders:", "orders:x", ":1", "orders:-1", "a:b:", "orders:\u0663"]
)
def test_anything_else_is_a_mistake_that_shows_the_form(text: str) -> None:
    with pytest.raises(UsageMistake, match="orders:0"):
        named(text)


def losses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[list[str], str]:
    """What `leader losses` says of two elections, of which one has lost offset 7."""
    lost = LossInfo("orders", b"o" * 16, 0, 5, 3, True, 7, 8, 1, (2,))
    nothing = LossInfo("orders", b"o" * 16, 1, 6, 3, True, -1, -1, 0, ())
    found = (lost, nothing) if "orders" in arguments else (nothing,)

    def run_client(work: Coroutine[None, None, None]) -> tuple[LossInfo, ...]:
        work.close()
        return found

    monkeypatch.setattr("strandline_cli.client.run_client", run_client)
    where = ("--bootstrap", "127.0.0.1:1")
    assert run(["leader", "losses", *arguments, *where]) == 0
    out, err = capsys.readouterr()
    return out.splitlines(), err


def test_elections_that_lost_nothing_are_only_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (_, row), err = losses(monkeypatch, capsys, "orders")
    assert row.split() == ["orders", "0", "5", "3", "7", "to", "7", "1", "2"]
    assert err.startswith("1 more election of a leader not known to be in sync")
    out, err = losses(monkeypatch, capsys)
    assert out == []
    assert err.startswith("1 election of")
    assert "--all" in err


def test_all_elections_are_shown_to_who_asks_and_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = losses(monkeypatch, capsys, "orders", "--all")
    assert (len(out), err) == (3, "")
    assert "none known" in out[2]
    out, err = losses(monkeypatch, capsys, "orders", "--format", "json")
    assert len(json.loads("".join(out))["losses"]) == 2
    assert err == ""
