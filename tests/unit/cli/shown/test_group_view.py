"""A group as people see it."""

import io
from dataclasses import replace

from rich.console import Console

from strandline import TopicPartition
from strandline.group_types import GroupDescription, GroupMember, PartitionLag
from strandline_cli.shown.group_view import (
    bar,
    group_document,
    headline,
    lag_rows,
    lag_table,
    member_row,
)


def lag(partition: int, committed: int | None, end: int | None) -> PartitionLag:
    start = None if end is None else 0
    return PartitionLag(TopicPartition("t", partition), committed, start, end, "m-1")


def member(*, target: int) -> GroupMember:
    owned = frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})
    wanted = frozenset(TopicPartition("t", n) for n in range(target))
    return GroupMember("m-1", "i", None, "app", "/10.0.0.7", 3, ("t",), None, owned, wanted)


def group(*lags: PartitionLag) -> GroupDescription:
    return GroupDescription("g", "Stable", "Consumer", 4, 3, "uniform", (member(target=2),), lags)


def test_bars_are_measured_by_the_greatest_and_show_what_is_little() -> None:
    assert bar(100, 100, 10) == "█" * 10
    assert bar(50, 100, 10) == "█" * 5
    assert bar(1, 1_000_000, 10) == "▏"
    assert bar(0, 100, 10) == bar(0, 0, 10) == ""


def test_a_row_says_what_is_not_known() -> None:
    rows = lag_rows([lag(0, 1000, 3000), lag(1, None, 5), lag(2, 7, None)], width=4)
    assert rows == [
        ("t", "0", "1,000", "3,000", "2,000", "████", "m-1"),
        ("t", "1", "-", "5", "-", "", "m-1"),
        ("t", "2", "7", "gone", "-", "", "m-1"),
    ]


def test_the_headline_adds_up_the_lag() -> None:
    assert headline(group(lag(0, 0, 1500), lag(1, 5, 5), lag(2, None, 9))) == (
        "g: Stable, 1 member, epoch 4, assigned 3, lag 1,500"
    )


def test_the_headline_of_a_classic_group_has_its_generation_and_protocol() -> None:
    classic = replace(group(), type="Classic", assignment_epoch=4, assignor="range")
    assert headline(classic) == (
        "g: Stable, 1 member, classic, generation 4, protocol range, lag 0"
    )
    assert headline(replace(classic, state="Empty", assignor="", members=())) == (
        "g: Empty, 0 members, classic, generation 4, lag 0"
    )


def test_a_member_shows_what_it_is_to_own_where_that_differs() -> None:
    assert member_row(member(target=2))[-2:] == ("t:0,1", "")
    assert member_row(member(target=1))[-2:] == ("t:0,1", "t:0")
    assert member_row(member(target=1))[0] == "m-1 (static)"


def test_a_committed_offset_beyond_the_log_is_no_negative_lag() -> None:
    assert lag(0, 9, 5).lag == 0


def test_a_narrow_terminal_keeps_every_number() -> None:
    described = group(lag(0, 1_000_000, 9_123_456), lag(1, 5, 5), lag(2, 0, 4_000_000))
    for width in (120, 80, 64):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(lag_table(described))
        shown = console.export_text()
        assert "9,123,456" in shown
        assert "8,123,456" in shown
        assert "1,000,000" in shown
        assert max(map(len, shown.splitlines())) <= width
        assert "█" in shown
        assert len(shown.splitlines()) == 4 + 3 + 1, "no cell takes a second line"


def test_the_document_has_everything_that_the_tables_have() -> None:
    document = group_document(group(lag(0, 1, 4)))
    assert document["lag"] == 3
    assert document["members"][0]["assignment"] == {"t": [0, 1]}
    assert document["partitions"] == [
        {
            "topic": "t",
            "partition": 0,
            "committed": 1,
            "log_start_offset": 0,
            "log_end_offset": 4,
            "lag": 3,
            "member_id": "m-1",
        }
    ]
