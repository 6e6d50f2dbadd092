"""Plans: read with every mistake named, and worked out with few moves."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_cli.errors import ClusterError, UsageMistake
from strandline_cli.planning.reassignment_plan import (
    copies,
    moves,
    parse_brokers,
    parse_plan,
    plan_document,
    spread,
)

Layout = dict[tuple[str, int], tuple[int, ...]]


def layout(*replicas: tuple[int, ...]) -> Layout:
    return {("t", index): each for index, each in enumerate(replicas)}


def loads(plan: Layout) -> dict[int, int]:
    brokers = [b for replicas in plan.values() for b in replicas]
    return {b: brokers.count(b) for b in set(brokers)}


def test_a_plan_is_read_as_it_is_written() -> None:
    plan = layout((1, 2), (3,))
    assert parse_plan(json.dumps(plan_document(plan)), "plan") == plan


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "no plan"),
        ('{"version": 2, "partitions": []}', "no plan"),
        ('{"version": 1}', "no partitions"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "entry 1 is not like"),
        ('{"partitions": [{"topic": "t", "partition": true, "replicas": [1]}]}', "is not like"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": ["1"]}]}', "is not like"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}', "is not like"),
        (
            json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}] * 2}),
            "entry 2: t:0 is there twice",
        ),
    ],
)
def test_a_plan_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        parse_plan(text, "plan.json")


@pytest.mark.parametrize("text", ["", "1,,2", "a", "1,1", "-1"])
def test_brokers_that_cannot_be(text: str) -> None:
    with pytest.raises(UsageMistake, match="--replicas"):
        parse_brokers("--replicas", text)


def test_a_broker_that_leaves_is_replaced_in_its_place() -> None:
    current = layout((1, 2), (2, 3), (3, 1))
    plan = spread(current, {1: "", 3: "", 4: ""}, level=False)
    assert plan == layout((1, 4), (4, 3), (3, 1))
    assert moves(current, plan) == {("t", 0): (1, 4), ("t", 1): (4, 3)}
    assert copies(current, plan) == 2


def test_a_new_broker_gets_its_share() -> None:
    current = layout((1, 2), (2, 1), (1, 2), (2, 1))
    plan = spread(current, {1: "", 2: "", 3: "", 4: ""})
    assert loads(plan) == {1: 2, 2: 2, 3: 2, 4: 2}
    assert copies(current, plan) == 4


def test_what_is_spread_already_stays() -> None:
    current = layout((1, 2), (2, 3), (3, 1))
    assert moves(current, spread(current, {1: "", 2: "", 3: ""})) == {}


def test_racks_stay_apart() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    plan = spread(layout(*[(1, 3)] * 4), racks, replication_factor=2)
    assert loads(plan) == {1: 2, 2: 2, 3: 2, 4: 2}
    assert all(racks[a] != racks[b] for a, b in plan.values())


def test_another_replication_factor() -> None:
    current = layout((1, 2), (2, 3))
    assert spread(current, {1: "", 2: "", 3: ""}, replication_factor=1, level=False) == layout(
        (1,), (2,)
    )
    wider = spread(current, {1: "", 2: "", 3: ""}, replication_factor=3, level=False)
    assert [set(replicas) for replicas in wider.values()] == [{1, 2, 3}] * 2


def test_too_few_brokers() -> None:
    with pytest.raises(ClusterError, match=r"t:0 is to have 2 replicas, and only 1 brokers"):
        spread(layout((1, 2)), {1: ""})


@given(
    st.lists(st.permutations([1, 2, 3, 4, 5]), min_size=1, max_size=12),
    st.sets(st.integers(3, 9), min_size=3),
    st.integers(1, 3),
    st.booleans(),
)
def test_every_plan_is_possible_and_level(
    order: list[list[int]], brokers: set[int], factor: int, level: bool
) -> None:
    current = layout(*[tuple(replicas[:factor]) for replicas in order])
    plan = spread(current, dict.fromkeys(brokers, ""), level=level)
    assert plan.keys() == current.keys()
    for key, replicas in plan.items():
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= brokers
        if not level:
            assert set(current[key]) & brokers <= set(replicas), "nothing moves that may stay"
    if level:
        count = loads(plan)
        each = [count.get(b, 0) for b in brokers]
        assert max(each) - min(each) <= 1
