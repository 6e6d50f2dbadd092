"""How `strandline leader elect` understands what it is given, and what `leader losses` shows."""

import json
import re
from collections.abc import Coroutine

import pytest

from strandline.types import LossInfo
from strandline_cli.commands.replica.leader_elect import _wanted
from strandline_cli.errors import UsageMistake
from strandline_cli.main import run


def test_a_topic_stands_alone_or_with_partitions() -> None:
    assert _wanted(["orders", "clicks:12", "a:0,2-3"]) == [
        *("orders", ("clicks", 12)),
        *(("a", 0), ("a", 2), ("a", 3)),
    ]


@pytest.mark.parametrize(
    "text", ["orders:", "orders:x", ":1", "orders:-1", "a:b:", "orders:\u0663"]
)
def test_anything_else_is_a_mistake_that_shows_the_form(text: str) -> None:
    with pytest.raises(UsageMistake, match="TOPIC:0"):
        _wanted([text])


def losses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[list[str], str]:
    """What `leader losses` says of two elections, and of a cut without one."""
    lost = LossInfo("orders", b"o" * 16, 0, 5, 3, True, 7, 9, 1, (2,), 7)
    unknown = LossInfo("orders", b"o" * 16, 1, 6, 3, True, -1, -1, 0, (), 12)
    cut = LossInfo("orders", b"o" * 16, 2, 7, 3, False, 4, 9, 3, (1,))
    found = (lost, unknown, cut) if "orders" in arguments else ()

    def run_client(work: Coroutine[None, None, None]) -> tuple[LossInfo, ...]:
        work.close()
        return found

    monkeypatch.setattr("strandline_cli.client.run_client", run_client)
    where = ("--bootstrap", "127.0.0.1:1")
    assert run(["leader", "losses", *arguments, *where]) == 0
    out, err = capsys.readouterr()
    return out.splitlines(), err


def test_what_nobody_can_tell_is_called_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (_, *rows), err = losses(monkeypatch, capsys, "orders")
    assert [re.split(" {2,}", row.strip()) for row in rows] == [
        ["orders", "0", "5", "3", "7 to 8", "7 and on", "1 or more", "2"],
        ["orders", "1", "6", "3", "unknown", "12 and on", "unknown"],
        ["orders", "2", "7", "3", "4 to 8", "-", "3 to 5", "1"],
    ]
    assert err == ""


def test_json_has_no_upper_bound_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = losses(monkeypatch, capsys, "orders", "--format", "json")
    told = json.loads("".join(out))["losses"]
    assert [t["possibly_from"] for t in told] == [7, 12, None]
    assert [t["acknowledged_at_most"] for t in told] == [None, None, 5]


def test_without_such_an_election_nothing_was_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = losses(monkeypatch, capsys)
    assert (out, "every leader so far was known to be in sync" in err) == ([], True)


def test_empty_partitions_of_a_topic_share_a_line_and_hide_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a loss of all power every partition has had such an election, used or not."""
    empty = [
        LossInfo("__consumer_offsets", b"c" * 16, index, 2 + index % 2, 1 + index % 3, True, -1, -1,
                 0, (), 0)
        for index in range(50) if index != 7
    ]  # fmt: skip
    lost = LossInfo("orders", b"o" * 16, 0, 5, 3, True, 7, 9, 1, (2,), 7)
    from_on = LossInfo("orders", b"o" * 16, 1, 6, 3, True, -1, -1, 0, (), 12)
    found = (*empty[:30], lost, *empty[30:], from_on)

    def run_client(work: Coroutine[None, None, None]) -> tuple[LossInfo, ...]:
        work.close()
        return found

    monkeypatch.setattr("strandline_cli.client.run_client", run_client)
    assert run(["leader", "losses", "--bootstrap", "127.0.0.1:1"]) == 0
    (_, *rows) = capsys.readouterr().out.splitlines()
    assert [re.split(" {2,}", row.strip()) for row in rows] == [
        ["orders", "0", "5", "3", "7 to 8", "7 and on", "1 or more", "2"],
        ["orders", "1", "6", "3", "unknown", "12 and on", "unknown"],
        ["__consumer_offsets", "0-6,8-49", "2-3", "1,2,3", "unknown", "0 and on", "unknown"],
    ]
    assert run(["leader", "losses", "--bootstrap", "127.0.0.1:1", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["losses"]) == len(found)
