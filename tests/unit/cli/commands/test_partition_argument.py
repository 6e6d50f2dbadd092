"""One spelling of a partition, TOPIC:P; the old ones still work, and say which is the new one."""

from types import SimpleNamespace
from typing import Any

import pytest

import strandline
from strandline_cli.commands.partition_argument import chosen_partition
from strandline_cli.commands.produce import _place
from strandline_cli.commands.replica.reassign import _named
from strandline_cli.errors import UsageMistake
from strandline_cli.main import run

OLD = "the partition may be written as orders:3, as in other commands\n"


class Admin:
    """Notes the partitions that it is asked to change."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __call__(self, *_: Any, **__: Any) -> "Admin":
        return self

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Holds nothing open."""

    async def move_leaders(self, moves: dict[tuple[str, int], int]) -> list[Any]:
        self.asked += moves
        return [SimpleNamespace(error=None, leader=2)]

    async def delete_records(self, before: dict[tuple[str, int], int]) -> dict[Any, int]:
        self.asked += [tuple(partition) for partition in before]
        return dict.fromkeys(before, 7)

    async def allow_truncation(self, partition: tuple[str, int], **_: Any) -> None:
        self.asked.append(tuple(partition))


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    admin = Admin()
    monkeypatch.setattr(strandline, "Admin", admin)
    return admin


@pytest.mark.parametrize(
    ("words", "old", "said"),
    [
        (("leader", "move", "orders:3", "--to", "2"), False, "orders:3 is led by broker 2\n"),
        (("leader", "move", "orders", "3", "--to", "2"), True, "orders:3 is led by broker 2\n"),
        (("topic", "delete-records", "orders:3", "--before", "7"), False,
         "orders:3 begins at offset 7\n"),
        (("topic", "delete-records", "orders", "-p", "3", "--before", "7"), True,
         "orders:3 begins at offset 7\n"),
        (("replica", "truncate", "orders:3", "--broker", "2", "--to", "5"), False,
         "orders:3 on broker 2 is cut at 5\n"),
    ],
)  # fmt: skip
def test_a_partition_is_named_in_one_way_and_the_old_way_says_so(
    admin: Admin,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
    *,
    old: bool,
) -> None:
    assert run([*words, "--bootstrap", "a:1"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (said, OLD if old else "")
    assert admin.asked == [("orders", 3)]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("leader", "move", "orders", "--to", "2"), "use TOPIC:P, as in orders:0"),
        (("leader", "move", "orders:0-1", "--to", "2"), "names no single partition"),
        (("leader", "move", "orders:3", "3", "--to", "2"), "leave out the number 3"),
        (("topic", "delete-records", "orders", "--before", "1"), "use TOPIC:P, as in orders:0"),
        (("topic", "delete-records", "orders:1", "-p", "1", "--before", "1"), "leave out --part"),
        (("reassign", "--partition", "3", "--replicas", "1"), "names no topic: use TOPIC:3"),
        (("reassign", "--partition", "a:3", "--topic", "b", "--cancel"), "leave out --topic"),
        (("reassign", "--partition", "x", "--replicas", "1"), "use TOPIC:P"),
        (("produce", "orders:1", "-p", "1"), "leave out --partition"),
        (("produce", "orders:1,2"), "names no single partition"),
    ],
)
def test_another_spelling_is_refused_with_the_right_one(
    admin: Admin, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    assert run([*words, "--bootstrap", "a:1"]) == 2
    assert why in capsys.readouterr().err
    assert admin.asked == []


def test_reassign_takes_both_spellings(capsys: pytest.CaptureFixture[str]) -> None:
    assert _named([], "orders:3") == (["orders"], 3)
    assert _named(["orders"], "orders:3") == (["orders"], 3)
    assert _named(["a", "b"], None) == (["a", "b"], None)
    assert capsys.readouterr().err == ""
    assert _named(["orders"], "3") == (["orders"], 3)
    assert capsys.readouterr().err == OLD


def test_produce_takes_both_spellings() -> None:
    assert _place("orders:3", None) == ("orders", 3)
    assert _place("orders", 3) == ("orders", 3)
    assert _place("orders", None) == ("orders", None)


def test_a_partition_has_no_second_number() -> None:
    with pytest.raises(UsageMistake, match="leave out --partition 4"):
        chosen_partition("orders:3", 4, "--partition")
