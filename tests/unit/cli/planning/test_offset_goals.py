"""`strandline group reset`: what its options mean, and where each partition goes."""

from pathlib import Path
from typing import Any

import pytest

from strandline import OffsetAndTimestamp, TopicPartition
from strandline_cli.errors import ClusterError, UsageMistake
from strandline_cli.planning.offset_goals import Goal, PlannedReset, chosen, goal_of, planned
from strandline_cli.records.topic_partitions import parse_partition, parse_topics

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
Partitions = list[TopicPartition]
Committed = dict[TopicPartition, int]


def goal(**given: Any) -> Goal:
    nothing: dict[str, Any] = {
        "to_earliest": False,
        "to_latest": False,
        "to_offset": None,
        "shift_by": None,
        "to_datetime": None,
        "by_duration": None,
        "from_file": None,
        "group": "g",
    }
    return goal_of(**(nothing | given))


class Log:
    """The ends of two partitions, as a consumer tells them: 10 to 20, one record a second."""

    async def beginning_offsets(
        self, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    async def end_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 20)

    async def offsets_for_times(
        self, times: dict[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return {
            p: OffsetAndTimestamp(10 + at // 1000, at, 0) if at < 10_000 else None
            for p, at in times.items()
        }


async def after(
    goal: Goal, committed: dict[TopicPartition, int] | None = None
) -> list[PlannedReset]:
    log: Any = Log()
    return await planned(goal, [P0], {P0: 15} if committed is None else committed, log)


@pytest.mark.parametrize(
    ("given", "wanted", "goes_to"),
    [
        ({"to_earliest": True}, 10, 10),
        ({"to_latest": True}, 20, 20),
        ({"to_offset": 13}, 13, 13),
        ({"to_offset": 0}, 0, 10),
        ({"to_offset": 99}, 99, 20),
        ({"shift_by": -3}, 12, 12),
        ({"shift_by": -30}, -15, 10),
        ({"shift_by": 0}, 15, 15),
        ({"to_datetime": "1970-01-01T00:00:04"}, 14, 14),
        ({"to_datetime": "1970-01-01T02:00:04+02:00"}, 14, 14),
        ({"to_datetime": "2026-05-04T15:30:00Z"}, 20, 20),
        ({"by_duration": "P1D"}, 20, 20),
    ],
)
async def test_every_option_goes_where_it_says_and_never_outside_the_log(
    given: dict[str, Any], wanted: int, goes_to: int
) -> None:
    [plan] = await after(goal(**given))
    assert plan == PlannedReset(P0, 15, wanted, goes_to)
    assert plan.is_clamped == (wanted != goes_to)


async def test_what_was_never_committed_cannot_be_shifted() -> None:
    with pytest.raises(ClusterError, match="t:0 has no committed offset"):
        await after(goal(shift_by=1), {})
    assert await after(goal(to_latest=True), {}) == [PlannedReset(P0, None, 20, 20)]


@pytest.mark.parametrize("given", [{}, {"to_earliest": True, "shift_by": 0}])
def test_exactly_one_option_says_where_to(given: dict[str, Any]) -> None:
    with pytest.raises(UsageMistake, match=r"give one of --to-earliest, --to-latest, --to-offset"):
        goal(**given)


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1H", "PT1D", "P-1D", "P1DT"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageMistake, match=r"is no duration: use ISO 8601, as in P1D"):
        goal(by_duration=text)


def test_what_is_no_time_is_refused_with_an_example() -> None:
    with pytest.raises(UsageMistake, match="'yesterday' is no time: use 2026"):
        goal(to_datetime="yesterday")


def test_a_file_gives_each_partition_its_offset(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("t,0,12\n\ng,t,1,13\n", "utf-8")
    assert goal(from_file=file).offsets == {P0: 12, P1: 13}


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("t,0", "line 1: 't,0' is not TOPIC,PARTITION,OFFSET"),
        ("t,0,1\nt,0,2", "line 2: t:0 for the second time"),
        ("other,t,0,1", "line 1"),
        ("t,0,-1", "line 1"),
        ("t,0,9223372036854775808", "line 1"),
        ("", "has no line"),
    ],
)
def test_a_file_that_says_something_else_is_refused_by_line(
    tmp_path: Path, lines: str, why: str
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(lines, "utf-8")
    with pytest.raises(UsageMistake, match=why):
        goal(from_file=file)


def test_topics_and_partitions_are_told_apart() -> None:
    assert parse_topics(["t", "u:0,2"]) == [("t", None), ("u", 0), ("u", 2)]
    assert parse_topics(["u:0,2-4"]) == [("u", 0), ("u", 2), ("u", 3), ("u", 4)]
    for wrong in (":1", "t:", "t:a", "t:1,", "t:4-2", "t:1-", "t:-1", "t:1-2-3", "t:99999999999",
                  "t:0-2000000000"):  # fmt: skip
        with pytest.raises(UsageMistake):
            parse_topics([wrong])


def test_one_partition_is_named_by_its_topic_and_number() -> None:
    assert parse_partition("orders:3") == ("orders", 3)
    for wrong in ("orders", "orders:", "orders:1,2", "orders:0-1", ":1", "orders:x"):
        with pytest.raises(UsageMistake, match="TOPIC:"):
            parse_partition(wrong)


def test_a_topic_stands_for_its_partitions_and_a_missing_one_is_named() -> None:
    exist = {"t": [0, 1]}
    assert chosen([("t", None), ("t", 1)], exist) == [P0, P1]
    with pytest.raises(ClusterError, match="'t' has no partition 7; it has 2"):
        chosen([("t", 7)], exist)
